#!/usr/bin/env python3
"""Two nodes exchange vectors: from the memory of their processors, then from that of their GPUs.

Example: python compare_cpu_gpu.py all --zone us-central1-a
"""

from cluster.cli import start
from cluster.cli.launchers import ComparedCondition, ComparisonLauncher

LAUNCHER = ComparisonLauncher(
    name="cpu-gpu-p2p",  # the founding experiment's
    provider="gcp",
    hosts=2,
    accelerator="t4:1",
    conditions=(
        ComparedCondition(
            verb="cpu", what="Send from the processor's memory.", params={"buffer": "cpu"}
        ),
        ComparedCondition(verb="gpu", what="Send from a GPU's memory.", params={"buffer": "cuda"}),
    ),
)

if __name__ == "__main__":
    start(*LAUNCHER.verbs(), what=__doc__)
