"""Whether NCCL obeyed a variable that switches peer-to-peer, by its own log, per pair of GPUs.

NCCL prints that it read `NCCL_P2P_LEVEL`, or `NCCL_P2P_DISABLE=1`; it prints nothing about
`NCCL_P2P_DISABLE=0`, and nothing about a level that it does not know, which it ignores
(`ncclGetLevel` in src/graph/paths.cc of NCCL 2.28). What it then did, the lines of its channels
say: `via P2P/CUMEM`, `via SHM/direct`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from cluster.analysis.topology import OLD, UNKNOWN, nvlinks
from cluster.analysis.topology.transports import DIRECT, Carrier, carriers
from cluster.core.model.logs import NcclLog, Topology
from cluster.core.model.value import Value

LEVEL, DISABLE = "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"
TOGGLES = (LEVEL, DISABLE)
NEVER = "LOC"
# From near to far, as in src/graph/topo.h; a level allows its own path and all before it. What
# nvidia-smi calls NODE, NCCL counts as PHB.
LEVELS = (NEVER, "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
NUMBERED = (NEVER, "PIX", "PXB", "PHB", "SYS", "SYS")  # what the numbers 0 to 5 meant and mean
SAME = {"NODE": "PHB", **OLD}


class PairFault(Value, frozen=True, kw_only=True):
    """How a pair differs from what the variable says."""

    kind: Literal["direct", "beyond", "indirect", "path_unknown"]
    via: str
    limit: str = ""  # the level


class PairProof(Value, frozen=True, kw_only=True):
    """What carried data between two GPUs of a host."""

    name: str
    path: str  # between them, as `nvidia-smi topo -m` names it; `?` if it is not known
    via: str
    fault: PairFault | None = None  # none if NCCL did what the variable says

    @property
    def is_direct(self) -> bool:
        """Whether the data went from GPU to GPU."""
        return self.via.startswith(DIRECT)


class ProofFault(Value, frozen=True, kw_only=True):
    """Why it is not proven that a variable took effect."""

    kind: Literal[
        "no_log", "level_unknown", "read_elsewhere", "not_read", "read_other", "no_pairs", "pair",
        "not_used",
    ]  # fmt: skip
    level: str = ""  # that NCCL does not know
    read: tuple[tuple[str, str], ...] = ()  # what it read instead
    pair: PairProof | None = None


class ToggleProof(Value, frozen=True, kw_only=True):
    """Whether a variable took effect in a launch."""

    setting: str  # such as `NCCL_P2P_LEVEL=LOC`
    pairs: tuple[PairProof, ...] = ()
    fault: ProofFault | None = None  # none if it is proven


def toggle_proof(
    variables: Mapping[str, str], log: NcclLog | None, topologies: Mapping[str, Topology]
) -> ToggleProof | None:
    """Look for the proof that NCCL obeyed the variables of a launch.

    The log is from all ranks, `topologies` from `nvidia-smi topo -m` of each host, as far as they
    are known. None if the variables do not switch peer-to-peer.
    """
    settings = [f"{name}={variables[name]}" for name in TOGGLES if name in variables]
    if not settings:
        return None
    setting, limit = ", ".join(settings), level(variables)
    if log is None:
        return ToggleProof(setting=setting, fault=ProofFault(kind="no_log"))
    pairs = tuple(_pairs(log, topologies, limit))
    fault = _read_fault(variables, limit, log) or _transport_fault(pairs, limit)
    return ToggleProof(setting=setting, pairs=pairs, fault=fault)


def level(variables: Mapping[str, str]) -> str:
    """Return the farthest path of `LEVELS` that variables allow; empty if NCCL decides."""
    if variables.get(DISABLE, "").strip() == "1":
        return NEVER
    text = variables.get(LEVEL, "")
    if text.isdecimal():
        return NUMBERED[min(int(text), len(NUMBERED) - 1)]
    return text if text in LEVELS else ""


def missing_proof(
    base: Sequence[ToggleProof | None], other: Sequence[ToggleProof | None]
) -> ToggleProof | None:
    """Return why two conditions do not show what a variable does; None if they do.

    The proof that lacks, or one without a fault if both used the same transports.

    They do if all launches have their proof and a pair changes its transport, or if both conditions
    have the same setting.
    """
    proofs = [proof for proof in (*base, *other) if proof is not None]
    settings = [{proof.setting if proof else "" for proof in side} for side in (base, other)]
    if not proofs or settings[0] == settings[1]:
        return None
    lacking = next((proof for proof in proofs if proof.fault), None)
    if lacking is not None or None in (*base, *other):
        return lacking  # one side is without any setting; that of the other is proven
    direct = [{p.name: p.is_direct for proof in side if proof for p in proof.pairs}
              for side in (base, other)]  # fmt: skip
    return proofs[0] if direct[0] == direct[1] else None


def _read_fault(variables: Mapping[str, str], limit: str, log: NcclLog) -> ProofFault | None:
    """Return what NCCL read instead of the variables; None if it read them."""
    read = {setting.name: setting.value for setting in log.settings if setting.name in TOGGLES}
    if not limit:
        if LEVEL in variables:
            return ProofFault(kind="level_unknown", level=variables[LEVEL])
        return ProofFault(kind="read_elsewhere", read=tuple(read.items())) if read else None
    if level(read) == limit:
        return None
    return ProofFault(kind="read_other" if read else "not_read", read=tuple(read.items()))


def _transport_fault(pairs: Sequence[PairProof], limit: str) -> ProofFault | None:
    if not pairs:
        return ProofFault(kind="no_pairs")
    wrong = next((pair for pair in pairs if pair.fault), None)
    if wrong is not None:
        return ProofFault(kind="pair", pair=wrong)
    if limit != NEVER and not any(pair.is_direct for pair in pairs):
        return ProofFault(kind="not_used")
    return None


def _pairs(log: NcclLog, topologies: Mapping[str, Topology], limit: str) -> Iterator[PairProof]:
    hosts = {rank.rank: rank.host for rank in log.ranks}
    several = len({host for host in hosts.values() if host}) > 1
    for carrier in carriers(log):
        if not carrier.same_host:
            continue
        host = hosts.get(carrier.ranks[0], "")
        # A log that does not name its host is of the only one.
        lone = next(iter(topologies.values())) if len(topologies) == 1 else None
        matrix, path = topologies.get(host, lone), UNKNOWN
        if matrix is not None and min(carrier.gpus) >= 0:
            path = matrix.path(*(f"GPU{gpu}" for gpu in carrier.gpus))
        via = " and ".join(carrier.via)
        name = f"{host} {carrier.name}" if several else carrier.name
        yield PairProof(name=name, path=path, via=via, fault=_pair_fault(carrier, path, limit))


def _pair_fault(carrier: Carrier, path: str, limit: str) -> PairFault | None:
    direct = [via for via in carrier.via if via.startswith(DIRECT)]
    if limit == NEVER:
        return PairFault(kind="direct", via=direct[0]) if direct else None
    if not limit:
        return None
    level = "NVL" if nvlinks(path) else SAME.get(path, path)
    is_allowed = LEVELS.index(level) <= LEVELS.index(limit) if level in LEVELS else None
    if direct and is_allowed is False:
        return PairFault(kind="beyond", via=direct[0], limit=limit)
    if direct or is_allowed is False:
        return None
    return PairFault(kind="indirect" if is_allowed else "path_unknown", via=carrier.via[0])
