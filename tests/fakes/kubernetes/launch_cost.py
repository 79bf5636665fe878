"""What a launch of pods takes beside one of as many lab hosts; `scripts/bench` shows it, as root.

    python -m tests.fakes.kubernetes.launch_cost 32 5

Prints one line of JSON: the seconds of each `cluster up`, which take turns.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cluster
from tests.fakes.kubernetes.cluster import IMAGE, Kubernetes
from tests.fakes.kubernetes.lab_pods import USER, LabPods
from tests.fakes.kubernetes.pods import Image


def call(*words: str) -> float:
    start = time.perf_counter()
    program = Path(sys.executable).with_name("cluster")
    subprocess.run([program, *words], check=True, capture_output=True)
    return time.perf_counter() - start


def turns(hosts: int, repetitions: int) -> dict[str, list[float]]:
    """Launch lab hosts and pods by turns; each node is a host of another lab."""
    times: dict[str, list[float]] = {"lab": [], "pods": [], "load": []}
    options = {"overlay": "vxlan", "user": "pods"}
    with cluster.launch("nodes", provider="lab", hosts=hosts, options=options) as nodes:
        runtime = LabPods(nodes.machines)
        with Kubernetes(runtime) as kubernetes:
            kubernetes.kubelets.images[IMAGE] = Image(user=USER)
            for name in runtime.nodes():
                kubernetes.add_node(name)
            os.environ["KUBECONFIG"] = str(kubernetes.settings())
            words = ("--hosts", str(hosts), "--provider")
            for _ in range(repetitions):
                times["load"].append(os.getloadavg()[0])
                times["lab"].append(call("up", "hosts", *words, "lab"))
                call("down", "hosts")
                flags = ("kubernetes", "--option", f"image={IMAGE}")
                times["pods"].append(call("up", "mine", *words, *flags))
                call("down", "mine")
            if kubernetes.gaps:
                raise SystemExit("\n".join(kubernetes.gaps))
    return times


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:  # the server is gone when others look for clusters
        os.environ["CLUSTER_STATE"] = place
        result = turns(*map(int, sys.argv[1:]))
    sys.stdout.write(json.dumps(result) + "\n")
