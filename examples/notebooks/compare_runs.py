# %% [markdown]
# Shared memory against TCP: two runs, and why two runs are not enough for a verdict.

# %%
import cluster

with cluster.launch("compare_runs", provider="local", hosts=2) as c:
    sm = c.bench.p2p(metrics="latency", sizes="8:1KiB", iterations=50, condition="shared memory")
    tcp = c.bench.p2p(
        metrics="latency", sizes="8:1KiB", iterations=50, condition="TCP", mca={"btl": "self,tcp"}
    )

# %%
compared = cluster.compare(sm, tcp)
compared

# %%
compared.plot()

# %% For a verdict: launches of both in turn, `cluster.ab(c, "p2p", "mca:btl", (A, B))`
compared.to_polars().select("size", "ratio", "verdict", "reason")
