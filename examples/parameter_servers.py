"""Two parameter servers, three workers, one of them slow: a plane is fitted asynchronously."""

import os
import sys
import time
from multiprocessing.connection import Client, Listener

import numpy as np

import cluster

PORT, RATE, CLOSE, TRUE = 32310, 0.1, 0.02, np.array([3.0, -2.0])
if sys.argv[1:2] == ["serve"]:
    weight, listener = 0.0, Listener(("", PORT + int(sys.argv[2])))
    while True:  # until the job is stopped
        with listener.accept() as worker:
            weight -= worker.recv()
            worker.send(weight)
elif sys.argv[1:2] == ["work"]:
    rank, rng, weights = int(os.environ["CLUSTER_NODE_RANK"]), np.random.default_rng(), np.zeros(2)
    while True:
        errors = (x := rng.normal(size=(64, 2))) @ (weights - TRUE)
        if abs(errors).max() < CLOSE:
            break
        for shard, step in enumerate(RATE * x.T @ errors / len(x)):
            with Client((sys.argv[2 + shard], PORT + shard)) as server:
                server.send(float(step))
                weights[shard] = server.recv()
        time.sleep(0.05 if rank == 0 else 0)  # the slow one delays nobody
    print(f"worker {rank} ends near {weights.round(1)}")
else:
    with cluster.launch("ps", provider=(sys.argv[1:] or ["local"])[0], hosts=5) as c:
        c.put(__file__, "ps.py")
        for shard, host in enumerate(c.hosts[:2]):
            job = host.start(f"python3 ps.py serve {shard}", name=f"ps{shard}")
            job.wait_for_port(PORT + shard)
        servers = " ".join(host.ip for host in c.hosts[:2])
        workers = c.hosts[2:].start(f"python3 ps.py work {servers}", name="workers")
        workers.wait()
        print(*(line.text for line in workers.lines()), sep="\n")
