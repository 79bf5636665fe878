"""Lines that are signs of known problems, from any source: MPI, UCX, CUDA, kernels, `sysctl`.

They contain no measurements, and are not failures by themselves. They are only collected here; the
rules in `analysis/verdict/rules` interpret them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from cluster.core.model.logs import Symptom, Symptoms
from cluster.logs.parsers import Parser, ResultBuilder

if TYPE_CHECKING:
    from cluster.core.model.logs import Parsed

MOST = 3  # of a kind that are kept
LONGEST = 200  # characters of a line that are kept

# Each kind, words that every such line contains, and its pattern; a group in it is the value. No
# gap in a pattern is longer than 200 characters, or a long line would take quadratic time.
_KINDS = (
    ("cma", "Read -1, expected", r"Read -1, expected \d+, errno = 1\b"),
    (
        "cma",
        "process_vm_readv",
        r"process_vm_readv.{0,200}?(?:Operation not permitted|errno ?= ?1\b)",
    ),
    ("ptrace", "ptrace_scope", r"kernel\.yama\.ptrace_scope\s*=\s*(\d)"),
    ("cuda_ipc", "cuIpc", r"cuIpc\w+"),
    ("cuda_aware", "mpi_built_with_cuda", r"mpi_built_with_cuda_support:value:(true|false)"),
    ("memlock", "max locked memory", r"max locked memory.{0,80}?\s(\d{1,20}|unlimited)\s*$"),
    ("memlock", "MEMLOCK", r"RLIMIT_MEMLOCK|MEMLOCK"),
    ("memlock", "ibv_reg_mr", r"ibv_reg_mr.{0,200}?(?:failed|Cannot allocate memory)"),
    ("memlock", "memory lock", r"memory lock(?:ed|ing)? limit"),
    (
        "shm",
        "shared memory",
        r"(?:creating|allocate|insufficient) shared memory|shared memory \(shm",
    ),
    ("shm", "dev/shm", r"dev/shm.{0,200}?(?:No space left|too small|100%)"),
    ("fork", "fork()", r"\bfork\(\).{0,200}?(?:unsafe|child|corrupt|danger)|RDMAV_FORK_SAFE"),
    ("connect", "connect() to", r"connect\(\) to ([\d.]+) (?:port \d+ )?failed"),
    ("too_long", "Message too long", r"Message too long(?:, mtu\s*=?\s*(\d+))?"),
    ("too_long", "Frag needed", r"Frag needed and DF set \(mtu = (\d+)\)"),
    ("rmem", "rmem_max", r"net\.core\.rmem_max\s*=\s*(\d+)"),
    ("wmem", "wmem_max", r"net\.core\.wmem_max\s*=\s*(\d+)"),
    ("congestion", "tcp_congestion", r"net\.ipv4\.tcp_congestion_control\s*=\s*(\w+)"),
    ("qdisc", "default_qdisc", r"net\.core\.default_qdisc\s*=\s*(\w+)"),
    ("bond", "Bonding Mode", r"Bonding Mode:\s*(\S.*)"),
    ("overlay", "vxlan", r"\b(vxlan|flannel\.\d|geneve|ipip|tunl0)\b"),
    ("acs", "ACSCtl", r"ACSCtl:\s*(SrcValid\+.{0,80}?ReqRedir\+)"),
    ("throttled", "lowdown", r"(?:HW|SW) (?:Thermal )?Slowdown\s*:\s*(Active)"),
    ("throttled", "Power Cap", r"SW Power Cap\s*:\s*(Active)"),
    ("threads", "per core", r"Thread\(s\) per core:\s*(\d+)"),
    ("bound_twice", "than cpus on a", r"processes than cpus on a resource"),  # Open MPI 4
    ("bound_twice", "more cpus than", r"processes to more cpus than are available"),  # and 5
    ("peermem", "nvidia_peermem", r"nvidia_peermem.{0,200}?(?:not found|not loaded|No such)"),
)
_Rule = tuple[str, str, re.Pattern[str]]
_RULES: tuple[_Rule, ...] = tuple(
    (kind, word, re.compile(pattern)) for kind, word, pattern in _KINDS
)


class SymptomLines(Parser):
    """Errors of libraries and settings of hosts that explain figures."""

    marks = (
        *("Read -1, expected", "process_vm_readv", "ptrace_scope", "cuIpc"),
        *("mpi_built_with_cuda", "max locked memory", "MEMLOCK", "ibv_reg_mr", "memory lock"),
        *("shared memory", "dev/shm", "fork()", "connect() to", "Message too long"),
        *("Frag needed", "rmem_max", "wmem_max", "tcp_congestion", "default_qdisc"),
        *("Bonding Mode", "vxlan", "ACSCtl", "lowdown", "Power Cap", "per core"),
        *("than cpus on a", "more cpus than", "nvidia_peermem"),
    )
    definitions = ()

    def __init__(self) -> None:
        self._first = 0
        self._found: list[Symptom] = []
        self._counts: Counter[str] = Counter()

    def take(self, line: str, lineno: int) -> bool:
        """Read a line that is a sign of a known problem."""
        for kind, word, pattern in _RULES:
            match = pattern.search(line) if word in line else None
            if match:
                self._keep(kind, line, (match.groups() or ("",))[0] or "")
                self._first = self._first or lineno
                return True
        return False

    def _keep(self, kind: str, line: str, value: str) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= MOST:
            text = " ".join(line.split())[:LONGEST]
            self._found.append(Symptom(kind=kind, text=text, value=value))

    def results(self) -> tuple[Parsed, ...]:
        """Return one result."""
        if not self._found:
            return ()
        builder = ResultBuilder("symptoms", self._first, "symptoms")
        return (builder.parsed(Symptoms(found=tuple(self._found))),)
