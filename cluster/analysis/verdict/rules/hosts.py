"""Problems of hosts and of MPI on them: cores, fork, copies between processes, waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.analysis.verdict.evidence import Evidence, Finding, OtherLoad
from cluster.core.units import format_value

if TYPE_CHECKING:
    from cluster.core.model.hosts import RankProcess

SLOW = 10e-6  # seconds: on idle cores, a small message has a lower latency
SMALL = 64  # bytes: smaller messages carry hardly any payload
WAITING = 20e-6  # seconds: a small allreduce that takes longer is mostly waiting
SHARE = 0.3  # of the time in MPI, from which it is reported
SHOWN = 4  # ranks that are named
BUILT = "mpi_built_with_cuda_support"  # of ompi_info
BUSY, LEAST_BUSY = 0.1, 0.4  # of all processors, and processors, from which others disturb
ENOUGH_TIME = 0.2  # seconds: the kernel counts in hundredths
BURSTS = ("t2.", "t3.", "t3a.", "t4g.", "e2-micro", "e2-small", "e2-medium", "f1-", "g1-")


def oversubscribed(evidence: Evidence) -> Finding | None:
    """There are more ranks than cores that they may use."""
    few = [h for h in evidence.hosts if evidence.ranks_per_host > h.usable_cores]
    said = evidence.symptom("bound_twice")
    if not few and not said:
        return None
    seen = said or (
        f"{evidence.ranks_per_host} ranks on {few[0].usable_cores} core(s) of {few[0].host}"
    )
    small = [
        s
        for s in evidence.summaries
        if s.metric == "latency" and int(s.params.get("size", SMALL + 1)) <= SMALL
    ]
    slow = small[0].median > SLOW if small else False
    also = f"; latency is {format_value(small[0].median, 's')}" if slow else ""
    return Finding(
        name="more ranks than cores",
        evidence=seen + also,
        confidence="certain" if slow or said else "likely",
        remedy="start fewer ranks per host, or allow more cores; --mca mpi_yield_when_idle 0",
        confirm="cluster bench p2p --metrics latency with ranks for half of the cores",
    )


def cma_blocked(evidence: Evidence) -> Finding | None:
    """The kernel does not let ranks read one another's memory."""
    line = evidence.symptom("cma")
    if not line:
        return None
    scope = next((value for _, value in evidence.symptoms("ptrace")), "")
    also = f"; kernel.yama.ptrace_scope is {scope}" if scope else ""
    return Finding(
        name="single-copy between ranks is blocked (CMA)",
        evidence=line + also,
        confidence="certain",
        remedy="sysctl -w kernel.yama.ptrace_scope=0, or in a container --cap-add SYS_PTRACE; else "
        "--mca btl_vader_single_copy_mechanism none",
        confirm="cluster bench p2p on one host: bandwidth of large messages should double",
    )


def not_cuda_aware(evidence: Evidence) -> Finding | None:
    """This MPI cannot send from a GPU's memory."""
    said = [text for text, value in evidence.symptoms("cuda_aware") if value == "false"]
    said += [
        f"{host.host} has {host.gpus[0]}, and its Open MPI says {BUILT} false"
        for host in evidence.hosts
        if host.gpus and host.mpi_flags.get(BUILT) == "false"
    ]
    if not said:
        return None
    return Finding(
        name="this MPI is not CUDA-aware",
        evidence=said[0],
        confidence="certain",
        remedy="build Open MPI --with-cuda or over a UCX that has CUDA (ucx_info -b | grep CUDA)",
        confirm="osu_bw D D against osu_bw H H",
    )


def fork(evidence: Evidence) -> Finding | None:
    """Ranks fork, which registered memory does not survive."""
    line = evidence.symptom("fork")
    if not line:
        return None
    return Finding(
        name="ranks fork beside registered memory",
        evidence=line,
        confidence="likely",
        remedy="RDMAV_FORK_SAFE=1 only if ranks fork; else start no processes from them",
        confirm="the same run without the fork",
    )


def hyper_threads(evidence: Evidence) -> Finding | None:
    """Ranks may share cores, and their times vary widely."""
    threads = [v for _, v in evidence.symptoms("threads") if v.isdigit() and int(v) > 1]
    scatter = [s for s in evidence.summaries if s.shape and s.shape.tail > 1.5]  # noqa: PLR2004
    if not threads or not scatter:
        return None
    return Finding(
        name="ranks may share cores",
        evidence=f"{threads[0]} threads per core, and the slowest hundredth of {scatter[0].metric} "
        f"is {scatter[0].shape.tail if scatter[0].shape else 0:.1f} x slower than its median",
        confidence="possible",
        remedy="--bind-to core, --hint=nomultithread, or one thread per core (CpuOptions on EC2)",
        confirm="the same run with half as many ranks, bound to cores",
    )


def shared_core(evidence: Evidence) -> Finding | None:
    """Several ranks are bound to the same core, and other cores have no rank."""
    for machine, ranks in evidence.machines():
        places = _places(machine.physical_cores, ranks)
        free = len(machine.physical_cores) - len(frozenset().union(*places.values()))
        for cores in sorted(set(places.values()), key=len):
            crowd = [process for process, place in places.items() if place <= cores]
            if free and len(crowd) > len(cores):
                return _shared(crowd, len(cores), free)
    return None


def _places(
    cores: tuple[tuple[int, ...], ...], ranks: tuple[RankProcess, ...]
) -> dict[RankProcess, frozenset[tuple[int, ...]]]:
    """Return the cores that each rank is bound to; a rank that may use any core is not bound."""
    found = {
        process: frozenset(core for core in cores if not set(process.processors).isdisjoint(core))
        for process in ranks
    }
    every = {processor for core in cores for processor in core}
    return {p: place for p, place in found.items() if place and not every <= set(p.processors)}


def _shared(crowd: list[RankProcess], cores: int, free: int) -> Finding:
    seen = ", ".join(
        f"rank {process.rank} on {process.host} is bound to processor(s) "
        + ",".join(map(str, process.processors))
        for process in crowd[:SHOWN]
    )
    return Finding(
        name="ranks share a core",
        evidence=f"{seen}: {len(crowd)} ranks have {cores} core(s), and {free} have none",
        confidence="certain",
        remedy="a core for each rank: mpirun --map-by core --bind-to core, srun --hint="
        "nomultithread --cpu-bind=cores; no taskset or cpuset around ranks; one thread per core "
        "(CpuOptions on EC2)",
        confirm="the same run with mpirun --report-bindings: each rank on a core of its own",
    )


def other_load(evidence: Evidence) -> OtherLoad | None:
    """Other processes, or other virtual machines, used the processors of a host."""
    boots = dict.fromkeys(process.boot for process in evidence.processes)
    found = [load for boot in boots if (load := _load(evidence, boot))]
    return max(found, key=lambda load: load.used + load.stolen, default=None)


def _load(evidence: Evidence, boot: str) -> OtherLoad | None:
    ranks = [p for p in evidence.processes if p.boot == boot]
    times = max((p.times for p in ranks), key=lambda one: one.took)
    if times.took < ENOUGH_TIME:
        return None
    others = max(0.0, times.used - sum(p.times.own for p in ranks)) / times.took
    stolen = times.stolen / times.took
    if others + stolen < max(BUSY * times.processors, LEAST_BUSY):
        return None
    return OtherLoad(host=ranks[0].host, used=others, processors=times.processors, stolen=stolen)


def burst_credits(evidence: Evidence) -> Finding | None:
    """The rate fell while it ran."""
    fell = [
        s
        for s in evidence.summaries
        if s.shape and s.shape.drifts and s.shape.drift and _worse(s.better, s.shape.drift) > 0.1  # noqa: PLR2004
    ]
    throttled = evidence.symptom("throttled")
    if not fell and not throttled:
        return None
    bursts = evidence.instance.startswith(BURSTS)
    drift = f"{fell[0].metric} drifts {fell[0].shape.drift:+.0%}" if fell and fell[0].shape else ""
    kind = f"{evidence.instance} has burst credits" if bursts else ""
    gpus = any(facts.gpus for facts in evidence.hosts) or bool(throttled)
    remedies = (
        "run longer and look at the series",
        "use an instance type without credits" if bursts else "",
        "look at the clocks: nvidia-smi -q -d PERFORMANCE" if gpus else "",
    )
    return Finding(
        name="it got slower while it ran",
        evidence=", ".join(filter(None, (drift, throttled, kind))),
        confidence="likely" if bursts or throttled else "possible",
        remedy="; ".join(filter(None, remedies)),
        confirm="the same run of ten minutes, and again after an hour of rest",
    )


def _worse(better: str, drift: float) -> float:
    return -drift if better == "higher" else drift


def waiting(evidence: Evidence) -> Finding | None:
    """Tiny allreduces take so long that they are waiting, not transferring."""
    for profile in evidence.profiles:
        tiny = [
            r
            for r in profile.distributions
            if r.name == "MPI_Allreduce" and r.bytes <= SMALL and r.calls
        ]
        calls, time = sum(r.calls for r in tiny), sum(r.time for r in tiny)
        if not calls or time < SHARE * profile.communication or time / calls < WAITING:
            continue
        return Finding(
            name="imbalance seen as network",
            evidence=f"rank {profile.rank}: {calls} allreduces of {SMALL} B or less took "
            f"{time:.3g} s, {format_value(time / calls, 's')} each, "
            f"{time / profile.communication:.0%} of its time in MPI",
            confidence="likely",
            remedy="balance the work or the input of ranks; with Horovod, a longer cycle time and "
            "tensor fusion; fewer ranks than cores",
            confirm="COLLECTIVE_BARRIER=yes of mpitrace: it times the waiting by itself",
        )
    return None


def slow_input(evidence: Evidence) -> Finding | None:
    """A single GPU is already slower than expected: the input is slow, not the network."""
    wanted = evidence.series("expected_rate")
    for expected in wanted:
        where = {k: v for k, v in expected.params.items() if k != "part"}
        got = [
            s
            for s in evidence.series("processing_rate")
            if {k: v for k, v in s.params.items() if k != "part"} == where
        ]
        if got and got[0].median < 0.9 * expected.median:
            return Finding(
                name="slow input, not the network",
                evidence=f"{got[0].median:g} of {expected.median:g} {expected.unit} expected",
                confidence="possible",
                remedy="cache or prefetch the data; look at how busy the GPU is",
                confirm="the same with synthetic data on one GPU",
            )
    return None


RULES = (
    *(oversubscribed, cma_blocked, not_cuda_aware, fork, hyper_threads, shared_core),
    *(other_load, burst_credits, waiting, slow_input),
)
