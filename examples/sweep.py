"""Twelve settings over four hosts: the next one starts where a host is free."""

import sys
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import cluster

PROGRAM = "python3 -c 'import math; x = {x}; print(math.cos(x) + x / 10)'"
settings = [step / 2 for step in range(12)]

with cluster.launch("sweep", provider=(sys.argv[1:] or ["local"])[0], hosts=4) as c:
    free: SimpleQueue[cluster.Host] = SimpleQueue()
    for host in c.hosts:
        free.put(host)

    def try_one(x: float) -> tuple[float, float]:
        host = free.get()
        try:
            job = host.start(PROGRAM.format(x=x), name=f"x-{settings.index(x)}")
            job.wait()
            return float(next(job.lines()).text), x
        finally:
            free.put(host)

    with ThreadPoolExecutor(len(c.hosts)) as pool:
        least, best = min(pool.map(try_one, settings))
    print(f"the least is {least:.3f}, at x = {best}")
