# %% [markdown]
# How fast do two processes on this machine talk, and is that as it should be?

# %%
import cluster

with cluster.launch("first_look", provider="local", hosts=2) as c:
    run = c.bench.p2p(
        metrics=["memory_copy", "latency", "bandwidth"], sizes=[8, "64KiB"], iterations=200
    )

# %% The verdict, then a table
run

# %% All raw values, a row each; rates are rates
values = run.to_pandas()
values.groupby(["metric", "unit", "size"])["value"].describe(percentiles=[0.5, 0.99])

# %%
run.plot("latency", kind="distribution")
