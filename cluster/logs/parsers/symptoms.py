"""Lines that are signs of known problems, from any source: MPI, UCX, CUDA, kernels, `sysctl`.

They contain no measurements, and are not failures by themselves. They are only collected here; the
rules in `analysis/verdict/rules` interpret them.
"""

import re
from collections import Counter
from functools import cache

from cluster.core.model.logs import CAUSE, START_UP, Parsed, Symptom, Symptoms
from cluster.logs.parsers import Parser, ResultBuilder

MOST = 3  # of a kind that are kept
WIDTH = 1024  # characters before and behind a word that are looked at
QUIET = tuple(kind for kind in START_UP if kind not in ("shm", "memlock"))
_INFORMS = re.compile(r"NCCL INFO|\b(?:INFO|DEBUG|WARNING|[Ww]arning|[Dd]eprecat)|\b0 errors?\b")
LONGEST = 200  # characters of a line that are kept

_NO_INTERFACE = (
    *("no socket interface found", "No usable listening interface", "no usable interface"),
    *("None of the TCP networks specified", "Unable to find reachable pairing", "OFI addrinfo"),
    *("is not available, please use one or more of", "Unable to find address for"),
    *("specified interface name", "No network interface", "no active messages transport"),
    *("No interfaces found", "Did not find interface", "Failed to find interface"),
    *("FullMesh failed", "for btl_tcp_if_", "for oob_tcp_if_", "No such device: eth"),
    *("interface not found", "Unable to find a protocol that worked", "No eligible providers"),
    *("OFI endpoint creation failed", "OFI domain creation failed", "OFI fabric open failed"),
    "At least one pair of MPI processes are unable to reach",
)
_NO_NAME = (
    *("Could not resolve hostname", "Temporary failure in name resolution"),
    *("Name or service not known", "nodename nor servname", "failed to resolve", "no such host"),
    *("could not be resolved", "No address associated with hostname", "Name does not resolve"),
    *("nable to resolve", "ailed to look up", "cannot resolve", "Unknown host", "gethostbyname"),
)
_NO_ANSWER = (
    *("No route to host", "Connection timed out", "Connection refused", "connect timed out"),
    *("Network is unreachable", "Operation timed out", "Software caused connection abort"),
    *("has timed out after", "imed out trying to connect", "waiting for clients"),
    *("Host is unreachable", "unable to reach", "not reachable from", "n't connect to"),
    "ot connect to",
)
_NO_DEVICE = (
    *("invalid device ordinal", "No CUDA GPUs are available", "no CUDA-capable device"),
    *("cudaErrorNoDevice", "CUDA_ERROR_NO_DEVICE", "Duplicate GPU detected"),
    "CUDA_ERROR_INVALID_DEVICE",
)
_NO_FABRIC = (
    *("system not yet initialized", "SYSTEM_NOT_READY", "cudaErrorSystemNotReady", "Error 802"),
    *("abric manager is not", "abric Manager is not", "abricmanager is not", "error code=802"),
)
_DIED = (
    *("Connection closed by", "Connection reset by peer", "remote process exited"),
    *("exited on signal 9", "signal: 9", "oom-kill", "oom_kill", "Killed process", "SIGKILL"),
    *("lost communication with", "EXIT STRING: Killed", "BY SIGNAL: 9", "OOMKilled"),
)
_TIMED_OUT = (
    *("Watchdog caught collective", "monitoredBarrier", "imed out waiting for recv"),
    *("operations have failed or timed out", "failed to pass monitored"),
)
_NO_MEMORY = (
    *("CUDA out of memory", "HIP out of memory", "failure 'out of memory'"),
    *("CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation", "hipErrorOutOfMemory"),
)
_BROKEN = r"NVRM: Xid.*?: (?:48|63|64|74|79|92|94|95|119|120|140),|fallen off the bus"
_NO_START = (
    *("not enough slots", "Host key verification failed", "Permission denied (publickey"),
    *("orted: command not found", "prted: command not found", "hydra_pmi_proxy: command not"),
    *("orted: No such file", "prted: No such file", "hydra_pmi_proxy: No such file"),
)
_WRONG_BUILD = (
    *("no kernel image is available", "driver version is insufficient", "undefined symbol"),
    *("version `GLIBC", "error while loading shared libraries", "unsupported toolchain"),
    *("was not built with", "Mismatched NCCL version", "Illegal instruction"),
    *("cannot open shared object file", "Exec format error", "mismatched NCCL", "built in"),
    *("not compiled with CUDA", "ot compiled with NCCL", "cannot execute binary"),
)
_OTHERS = (
    ("failure", r"(?:CUDA|NCCL|HIP|MPI) failure"),
    ("rror", r"\b(?:[Ee]rror|ERROR|[A-Z]\w*Error)\b ?[:\]].*"),
    ("FATAL", r"\bFATAL\b.*"),
    ("fatal", r"\bfatal\b.*"),
    ("annot", r"\b[Cc]annot (?:open|find|allocate|connect|create|load|access).*"),
    ("nable to", r"\b[Uu]nable to .*"),
    ("ssertion", r"\b[Aa]ssertion .*fail.*"),
)
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
    ("memlock", "ibv_", r"ibv_(?:reg|create)_.{0,200}?(?:failed|Cannot allocate memory)"),
    ("memlock", "memory lock", r"memory lock(?:ed|ing)? limit"),
    (
        "memlock",
        "locked memory",
        r"allocate.{0,40}? locked memory|locked memory.{0,40}? too (?:low|small)",
    ),
    ("memlock", "memlock", r"memlock.{0,60}?(?:too (?:low|small)|not unlimited)"),
    ("memlock", "allocate MR", r"allocate MR\b"),
    (
        "shm",
        "shared memory",
        r"(?:creating|allocate|insufficient) shared memory|shared memory \(shm",
    ),
    (
        "shm",
        "dev/shm",
        r"dev/shm.{0,200}?(?:No space left|too small|100%)|nough (?:space|memory).{0,120}?dev/shm",
    ),
    ("shm", "Bus error", r"\bBus error\b"),
    ("shm", "posix_fallocate", r"posix_fallocate.{0,80}?fail"),
    ("shm", "shm_open", r"shm_open.{0,200}?(?:No space left|Cannot allocate memory)"),
    ("shm", "from file </torch", r"unable to (?:mmap|write).{0,80}? from file </torch"),
    ("fork", "fork()", r"\bfork\(\).{0,200}?(?:unsafe|child|corrupt|danger)|RDMAV_FORK_SAFE"),
    ("connect", "connect() to", r"connect\(\) to ([\d.]+) (?:port \d+ )?failed"),
    ("connect", "onnect to ", r"onnect to ([\d.]+)<\d+>.{0,40}?fail"),  # NCCL
    ("connect", "onnect [", r"onnect \[([\d.]+)\]"),  # gloo
    ("connect", "dest_addr=", r"dest_addr=([\d.]+)(?::\d+)?\)? failed"),  # UCX
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
    ("firmware", "fw_ver", r"fw_ver:\s+(\d+\.\d+\.\d+)"),
    ("firmware", "irmware", r"irmware[ -][Vv]ersion:?\s+(\d+\.\d+\.\d+)"),
    ("offload", "tx-checksum-ip-generic", r"tx-checksum-ip-generic: (on)\b"),
    ("gid", "ibv_modify_qp", r"ibv_modify_qp.{0,200}?fail"),
    ("gid", "etry", r"[Tt]ransport retry|RETRY_EXC|retry (?:count|counter)\b.{0,60}? exceeded"),
    ("gid", "syndrom", r"syndrom (?:0x)?81\b"),
    ("gid", "modify QP", r"[Ff]ailed to modify QP.{0,60}?RT[RS]"),
    ("gid", "vendor", r"vendor[_ ]err(?:or)?[ =:]*(?:0x)?(?:81|129)\b"),
    (
        "gid",
        "GID",
        r"(?i:invalid|no such|not find|empty|bad) GID|GID.{0,60}?(?i:invalid|not found)",
    ),
    *(("interface", word, f"{word}.*") for word in _NO_INTERFACE),
    *(("names", word, f"{word}.*") for word in _NO_NAME),
    *(("unreachable", word, f"{word}.*") for word in _NO_ANSWER),
    *(("device", word, f"{word}.*") for word in _NO_DEVICE),
    *(("fabric_manager", word, f"{word}.*") for word in _NO_FABRIC),
    *(("died", word, f"{word}.*") for word in _DIED),
    *(("build", word, f"{word}.*") for word in _WRONG_BUILD),
    *(("memory", word, f"{word}.*") for word in _NO_MEMORY),
    ("hardware", "NVRM: Xid", _BROKEN),
    ("hardware", "ncorrectable", r"[Uu]ncorrectable (?:ECC|NVLink)"),
    *(("start", word, f"{re.escape(word)}.*") for word in _NO_START),
    *(("timeout", word, f"{word}.*") for word in _TIMED_OUT),
    *((CAUSE, word, pattern) for word, pattern in _OTHERS),
)


@cache
def rules() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Compile the patterns, which a log without any of their words does not need."""
    return tuple((kind, word, re.compile(pattern)) for kind, word, pattern in _KINDS)


class SymptomLines(Parser):
    """Errors of libraries and settings of hosts that explain figures."""

    marks = tuple(dict.fromkeys(word for _, word, _ in _KINDS))
    definitions = ()

    def __init__(self) -> None:
        self._symptoms: list[Symptom] = []
        self._counts: Counter[str] = Counter()

    def take(self, line: str, lineno: int) -> bool:
        del lineno
        return any(
            word in line and pattern.search(line)
            for kind, word, pattern in rules()
            if kind != CAUSE
        )

    def scan(self, text: str, first: int) -> None:
        """Look for signs of problems in lines, whichever parser takes them."""
        for kind, word, pattern in rules():
            at, lineno, counted = text.find(word), first, 0
            while at >= 0 and self._counts[kind] < MOST:
                begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
                end = len(text) if end < 0 else end
                line = text[max(begin, at - WIDTH) : min(end, at + WIDTH)]
                match = pattern.search(line)
                # libraries try networks and devices, say so, and go on
                if match and not (kind in (CAUSE, *QUIET) and _INFORMS.search(line)):
                    lineno, counted = lineno + text.count("\n", counted, begin), begin
                    self._keep(kind, line, match, lineno)
                at = text.find(word, end)

    def _keep(self, kind: str, line: str, match: re.Match[str], lineno: int) -> None:
        special = {symptom.kind for symptom in self._symptoms if symptom.line == lineno} - {CAUSE}
        if kind in special or (kind in (CAUSE, *START_UP) and special & {*START_UP}):
            return
        text, value = " ".join(line.split())[:LONGEST], (match.groups() or ("",))[0] or ""
        if not value or (kind, value) not in {(s.kind, s.value) for s in self._symptoms}:
            self._counts[kind] += 1
            self._symptoms.append(Symptom(kind=kind, text=text, value=value, line=lineno))

    def results(self) -> tuple[Parsed, ...]:
        if not self._symptoms:
            return ()
        symptoms = tuple(sorted(self._symptoms, key=lambda sign: sign.line))
        builder = ResultBuilder("symptoms", symptoms[0].line, "symptoms")
        return (builder.parsed(Symptoms(found=symptoms)),)
