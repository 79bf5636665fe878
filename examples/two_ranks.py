"""How fast do two processes on this machine talk? The whole answer in ten lines."""

import cluster

with cluster.launch("two_ranks", provider="local", hosts=2) as c:
    run = c.bench("p2p", metrics=["latency", "bandwidth"], sizes=[8, 65536])

for s in run.summary():
    low, high = s.ci or (s.median, s.median)
    print(f"{s.metric} {s.params['size']} B: {s.median:.4g} {s.unit} [{low:.4g}, {high:.4g}]")
print(f"All raw values are in {run.folder}")
