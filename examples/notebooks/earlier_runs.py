# %% [markdown]
# Runs are folders: list them, load one, and write its report, without a cluster.

# %%
import cluster

runs = cluster.runs()
runs

# %%
run = cluster.load("latest")
print(run.judge())

# %%
run.to_polars("summaries").select("metric", "size", "n", "median", "ci_low", "ci_high").head(3)

# %%
page = run.report("report.html")
print(page.name, repr(run))
