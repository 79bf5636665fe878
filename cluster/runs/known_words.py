"""Words that stand where a name could, and name nobody: as pseudonyms they would spoil a text."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["host", "address", "id", "account", "user", "path"]

_NO_NAMES = frozenset(
    (
        *("all", "and", "any", "are", "auto", "buffer", "buffers", "cpu", "cuda", "current"),
        *("default", "device", "docker", "empty", "enabled", "disabled", "error", "failed"),
        *("false", "for", "from", "gpu", "host", "hosts", "in", "info", "is", "local", "memory"),
        *("hostname", "name", "network", "no", "node", "nodes"),
        *("none", "not", "null", "of", "off", "on"),
        *("only", "or", "rank", "ranks", "root", "self", "sudo", "sys", "system", "tcp", "the"),
        *("time", "to", "total", "true", "udp", "unknown", "unset", "user", "users", "video"),
        *("wheel", "with", "yes", "adm", "plugdev", "audio", "cdrom", "dip", "render"),
        *("debug", "fatal", "kernel", "warn", "warning", "as", "at", "by", "latest", "test", "job"),
        # Accounts that a system brings, and words before @ that are no user.
        *("azureuser", "centos", "daemon", "debian", "ec2-user", "git", "hcs", "munge", "nobody"),
        *("o2ib", "oauth2", "rocky", "sha256", "sha512", "slurm", "sshd", "systemd", "ubuntu"),
    )
)
# Programs, after which people call jobs and images.
_PROGRAMS = frozenset(
    (
        *("allreduce", "all_reduce_perf", "all_gather_perf", "alltoall_perf", "bash", "bench"),
        *("benchmark", "cluster", "interactive", "iperf3", "mpi", "mpirun", "nccl", "nccl-test"),
        *("nccl-tests", "ncclLogs", "nccl_test", "nccl_tests", "osu", "osu_bw", "osu_latency"),
        *("python", "python3", "rccl", "rccl-tests", "sh", "srun", "train", "training", "wrap"),
    )
)
# Owners of images and repositories that are known to all.
_PROJECTS = frozenset(
    (
        *("amazon", "amazonlinux", "aws", "aws-samples", "azure", "bitnami", "converged-computing"),
        *("coreweave", "deepseek-ai", "deepspeedai", "facebookresearch", "google", "gpudirect"),
        *("googlecloudplatform", "hpc", "hpcx", "huggingface"),
        *("intel", "k8s", "kubeflow", "library"),
        *("kubernetes", "kubernetes-sigs", "linux-rdma", "mellanox", "meta-llama", "microsoft"),
        *("mpi4py", "nvidia", "nvidia-gpu-cloud", "ofiwg", "open-mpi", "openucx", "pmodels"),
        *("prometheus", "pytorch", "rocm", "schedmd", "slurm", "stas00", "tensorflow", "ubuntu"),
    )
)
# Types in a name of Amazon: arn:aws:iam::1234:role/NAME.
_TYPES = frozenset(
    (
        *("role", "user", "group", "policy", "instance", "assumed-role", "instance-profile"),
        *("cluster", "volume", "subnet", "vpc", "security-group", "network-interface", "key"),
        *("secret", "function", "image", "placement-group", "federated-user", "root"),
    )
)
_WORDS_OF = {"account": _PROJECTS | _PROGRAMS, "user": _PROGRAMS, "id": _TYPES | _PROGRAMS}
# Devices of a network, which no host is called after.
_DEVICE = re.compile(
    r"(?:eth|eno|ens|enp|ib|ibs|ibp|mlx\d_|bond|hsn|lo|docker|rdmap|rocep|cxi|hfi1_|veth|br)\d\w*"
)
_SOURCE = re.compile(r".*\.(?:c|cc|cpp|cu|cuh|h|hpp|py|rs|go)", re.IGNORECASE)
# Well-known, so their names say nothing about who reads them.
_PUBLIC = re.compile(
    r"(?:(?:www|api|archive|catalog|cloud|compute|deb|developer|docs|download|files|lists|ngc|pkg|raw"
    r"|registry-1|security|sts|vpc)\.){0,2}(?:github\.com|githubusercontent\.com|googleapis\.com"
    r"|nvidia\.com|open-mpi\.org|openucx\.org|pytorch\.org|python\.org|pythonhosted\.org|pypi\.org"
    r"|w3id\.org|kernel\.org|debian\.org|ubuntu\.com|docker\.(?:com|io)|ghcr\.io|quay\.io|nvcr\.io"
    r"|gcr\.io|huggingface\.co|amazonaws\.com|google\.com|microsoft\.com|slurm\.schedmd\.com"
    r"|apache\.org|gnu\.org|mozilla\.org|schema\.org|w3\.org|example\.(?:com|net|org))"
    r"|(?:[\w.-]+\.)?(?:kubernetes|k8s)\.io",
    re.IGNORECASE,
)


def is_name(kind: Kind, name: str) -> bool:
    """Tell a name from a word that may stand in its place."""
    lowered = name.lower().rstrip(".-")
    if lowered in _NO_NAMES:
        return False
    if kind == "host":
        named = any(letter.isalpha() for letter in name) and not _SOURCE.fullmatch(name)
        return named and not _PUBLIC.fullmatch(name) and not _DEVICE.fullmatch(name)
    return lowered not in _WORDS_OF.get(kind, ())
