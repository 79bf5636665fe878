#!/usr/bin/env python3
"""Two nodes exchange vectors: from the memory of their processors, then of their GPUs.

Example: python compare_cpu_gpu.py all --zone us-central1-a
"""

from cluster.cli import start
from cluster.cli.comparisons import Condition, Experiment

EXPERIMENT = Experiment(
    name="cpu-gpu-p2p",  # the founding experiment's
    hosts=2,
    accelerator="t4:1",
    conditions=(
        Condition(verb="cpu", what="Send from the processor's memory.", params={"buffer": "cpu"}),
        Condition(verb="gpu", what="Send from a GPU's memory.", params={"buffer": "cuda"}),
    ),
)

if __name__ == "__main__":
    start(*EXPERIMENT.verbs(), what=__doc__)
