"""Whether NCCL obeyed a variable that switches peer-to-peer, by its own log, per pair of GPUs.

NCCL prints that it read `NCCL_P2P_LEVEL`, or `NCCL_P2P_DISABLE=1`; it prints nothing about
`NCCL_P2P_DISABLE=0`, and nothing about a level that it does not know, which it ignores
(`ncclGetLevel` in src/graph/paths.cc of NCCL 2.28). What it then did, the lines of its channels
say: `via P2P/CUMEM`, `via SHM/direct`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.topology.gpu_paths import OLD, UNKNOWN, nvlinks
from cluster.analysis.topology.transports import DIRECT, carriers
from cluster.core.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cluster.analysis.topology.transports import Carrier
    from cluster.core.model.logs import NcclLog, Topology

LEVEL, DISABLE = "NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE"
TOGGLES = (LEVEL, DISABLE)
NEVER = "LOC"
# From near to far, as in src/graph/topo.h; a level allows its own path and all before it. What
# nvidia-smi calls NODE, NCCL counts as PHB.
LEVELS = (NEVER, "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS")
NUMBERED = (NEVER, "PIX", "PXB", "PHB", "SYS", "SYS")  # what the numbers 0 to 5 meant and mean
SAME = {"NODE": "PHB", **OLD}


class PairProof(Value, frozen=True, kw_only=True):
    """What carried data between two GPUs of a host."""

    name: str
    path: str  # between them, as `nvidia-smi topo -m` names it; `?` if it is not known
    via: str
    why: str = ""  # it is no proof; empty if NCCL did what the variable says

    @property
    def is_direct(self) -> bool:
        """Whether the data went from GPU to GPU."""
        return self.via.startswith(DIRECT)


class ToggleProof(Value, frozen=True, kw_only=True):
    """Whether a variable took effect in a launch."""

    setting: str  # such as `NCCL_P2P_LEVEL=LOC`
    pairs: tuple[PairProof, ...] = ()
    why: str = ""  # it is not proven; empty if it is


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
        return ToggleProof(setting=setting, why="there is no log of NCCL")
    pairs = tuple(_pairs(log, topologies, limit))
    reason = _unread(variables, limit, log) or _disobeyed(pairs, limit)
    return ToggleProof(setting=setting, pairs=pairs, why=reason)


def level(variables: Mapping[str, str]) -> str:
    """Return the farthest path of `LEVELS` that variables allow; empty if NCCL decides."""
    if variables.get(DISABLE, "").strip() == "1":
        return NEVER
    text = variables.get(LEVEL, "")
    if text.isdecimal():
        return NUMBERED[min(int(text), len(NUMBERED) - 1)]
    return text if text in LEVELS else ""


def undecided(base: Sequence[ToggleProof | None], other: Sequence[ToggleProof | None]) -> str:
    """Return why two conditions do not show what a variable does; empty if they do.

    They do if all launches have their proof and a pair changes its transport, or if both conditions
    have the same setting.
    """
    known = [proof for proof in (*base, *other) if proof is not None]
    settings = [{proof.setting if proof else "" for proof in side} for side in (base, other)]
    if not known or settings[0] == settings[1]:
        return ""
    lacking = next((proof for proof in known if proof.why), None)
    if lacking is not None:
        return f"{lacking.setting} is not proven: {lacking.why}"
    if None in (*base, *other):
        return ""  # one side is without any setting; that of the other is proven
    direct = [{p.name: p.is_direct for proof in side if proof for p in proof.pairs}
              for side in (base, other)]  # fmt: skip
    if direct[0] == direct[1]:
        return "both conditions used the same transports between all pairs of GPUs"
    return ""


def proof_notes(side: str, proofs: Sequence[ToggleProof | None]) -> Iterator[str]:
    """Say what the launches of a condition prove, a line per outcome, by pair of GPUs."""
    counts: dict[tuple[str, str, str], int] = {}
    for proof in proofs:
        if proof is not None:
            carried = ", ".join(f"{pair.name} ({pair.path}) via {pair.via}" for pair in proof.pairs)
            key = (proof.setting, proof.why, carried)
            counts[key] = counts.get(key, 0) + 1
    for (setting, reason, carried), count in counts.items():
        many = f"{count} of {len(proofs)} launch(es) of {side}"
        outcome = f"unproven: {reason}" if reason else "took effect, by NCCL's log"
        yield f"{setting} in {many}: {outcome}" + (f": {carried}." if carried else ".")


def _unread(variables: Mapping[str, str], limit: str, log: NcclLog) -> str:
    """Say whether NCCL read something else than the variables say; empty if it read them."""
    read = {setting.name: setting.value for setting in log.settings if setting.name in TOGGLES}
    if not limit:
        if LEVEL in variables:
            return f"NCCL knows no level {variables[LEVEL]!r}, and ignores it"
        shown = ", ".join(f"{name}={value}" for name, value in read.items())
        return f"NCCL read {shown} elsewhere: in nccl.conf, or on the host" if read else ""
    obeyed = level(read)
    if obeyed == limit:
        return ""
    if not read:
        return "NCCL's log does not say that it read the variable (NCCL_DEBUG=INFO would)"
    return f"NCCL's log says {', '.join(f'{name}={value}' for name, value in read.items())}"


def _disobeyed(pairs: Sequence[PairProof], limit: str) -> str:
    if not pairs:
        return "no two GPUs of one host exchanged data: peer-to-peer stays within a host"
    wrong = next((pair for pair in pairs if pair.why), None)
    if wrong is not None:
        return f"{wrong.name} {wrong.why}"
    if limit != NEVER and not any(pair.is_direct for pair in pairs):
        return "it allows peer-to-peer, and no pair of GPUs used it"
    return ""


def _pairs(log: NcclLog, topologies: Mapping[str, Topology], limit: str) -> Iterator[PairProof]:
    hosts = {rank.rank: rank.host for rank in log.ranks}
    several = len({host for host in hosts.values() if host}) > 1
    for carrier in carriers(log):
        if not carrier.same_host:
            continue
        host = hosts.get(carrier.ranks[0], "")
        path = _path(carrier, _matrix(topologies, host))
        via = " and ".join(carrier.via)
        name = f"{host} {carrier.name}" if several else carrier.name
        yield PairProof(name=name, path=path, via=via, why=_wrong(carrier, path, limit))


def _matrix(topologies: Mapping[str, Topology], host: str) -> Topology | None:
    """Find the matrix of a host; a log that does not name its host is of the only one."""
    if host in topologies:
        return topologies[host]
    return next(iter(topologies.values())) if len(topologies) == 1 else None


def _path(carrier: Carrier, matrix: Topology | None) -> str:
    if matrix is None or min(carrier.gpus) < 0:
        return UNKNOWN
    return matrix.path(*(f"GPU{gpu}" for gpu in carrier.gpus))


def _wrong(carrier: Carrier, path: str, limit: str) -> str:
    """Say how a pair differs from what the level says; empty if it does not."""
    direct = [via for via in carrier.via if via.startswith(DIRECT)]
    if limit == NEVER:
        return f"uses {direct[0]} all the same" if direct else ""
    if not limit:
        return ""
    allowed = _allowed(path, limit)
    if direct and allowed is False:
        return f"uses {direct[0]} over {path}, beyond {limit}"
    if not direct and allowed:
        return f"is connected by {path} and uses {carrier.via[0]} all the same"
    if not direct and allowed is None:
        return f"uses {carrier.via[0]}, and how it is connected is not known (nvidia-smi topo -m)"
    return ""


def _allowed(path: str, limit: str) -> bool | None:
    """Tell whether a level allows a path; None if the path is not known."""
    named = "NVL" if nvlinks(path) else SAME.get(path, path)
    return LEVELS.index(named) <= LEVELS.index(limit) if named in LEVELS else None
