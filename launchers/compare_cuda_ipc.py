#!/usr/bin/env python3
"""Two GPUs of one node exchange vectors: directly by CUDA IPC, then without it.

Example: python compare_cuda_ipc.py all --zone us-central1-a
"""

from cluster.cli import start
from cluster.cli.launchers import ComparedCondition, ComparisonLauncher

# Switches CUDA IPC of Open MPI's own path between GPUs (up to 5.0: the BTL smcuda, under the PML
# ob1). If UCX carries the messages, its own switch counts, and this one has no effect.
SWITCH = "OMPI_MCA_btl_smcuda_use_cuda_ipc"
LAUNCHER = ComparisonLauncher(
    name="cuda-ipc",  # the founding experiment's
    provider="gcp",
    hosts=1,
    ranks_per_host=2,
    accelerator="t4:2",
    conditions=(
        ComparedCondition(
            verb="cuda-ipc",
            what="GPU to GPU, directly by CUDA IPC.",
            params={"buffer": "cuda"},
            variables={SWITCH: "1"},
        ),
        ComparedCondition(
            verb="no-cuda-ipc",
            what="GPU to GPU, through the processor's memory.",
            params={"buffer": "cuda"},
            variables={SWITCH: "0", "UCX_TLS": "^cuda_ipc"},
        ),
    ),
)

if __name__ == "__main__":
    start(*LAUNCHER.verbs(), what=__doc__)
