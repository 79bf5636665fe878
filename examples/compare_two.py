"""Is shared memory faster than TCP on this machine? Launches in turn, and a verdict."""

import cluster
from cluster.orchestration.ab_test import compare_conditions, run_alternating, trials

pair = trials("mca:btl=self,tcp|self,sm", "p2p")
with cluster.launch("compare_two", provider="local", hosts=2) as c:
    ran = list(
        run_alternating(c.bench, "p2p", pair, metrics=["latency"], sizes="8", iterations=100)
    )

for cell in compare_conditions(pair, ran).cells:
    print(f"{cell.metric}: {cell.verdict}, {cell.ratio:.3f} x, 95% CI {cell.interval}")
