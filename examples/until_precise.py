"""Repeat until the median is known to 2.5 %, and say so if it is not."""

import cluster

c = cluster.launch("until_precise", provider="local", hosts=2)
try:
    run = c.bench("p2p", metrics=["latency"], sizes="8:1KiB", until_precise=True)
    for s in run.summary():
        verdict = "converged" if s.converged else "not converged"
        print(f"{s.params['size']} B: {s.median * 1e6:.2f} us after {s.n} values, {verdict}")
finally:
    c.down()
