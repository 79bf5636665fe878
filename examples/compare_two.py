"""Is shared memory faster than TCP on this machine? Launches in turn, and a verdict."""

import cluster

with cluster.launch("compare_two", provider="local", hosts=2) as c:
    compared = cluster.ab(
        c, "p2p", "mca:btl", ("self,tcp", "self,sm"), metrics=["latency"], sizes=[8], iterations=100
    )

for cell in compared.cells:
    print(f"{cell.metric}: {cell.verdict}, {cell.ratio:.3f} x, 95% CI {cell.interval}")
