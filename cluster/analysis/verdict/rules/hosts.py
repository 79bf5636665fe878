"""Problems of hosts and of MPI on them: cores, fork, copies between processes, waiting."""

from collections.abc import Sequence

from cluster.analysis.verdict.evidence import Evidence, Finding, OtherLoad
from cluster.core.model.hosts import ProcessorTimes

SLOW = 10e-6  # seconds: on idle cores, a small message has a lower latency
SMALL = 64  # bytes: smaller messages carry hardly any payload
WAITING = 20e-6  # seconds: a small allreduce that takes longer is mostly waiting
SHARE = 0.3  # of the time in MPI, from which it is reported
BUSY, LEAST_BUSY = 0.1, 0.4  # of all processors, and processors, from which others disturb
SMALLEST_SHARE = 0.05  # of a processor that is assumed to remain
ENOUGH_TIME = 0.2  # seconds: the kernel counts in hundredths
BURSTS = ("t2.", "t3.", "t3a.", "t4g.", "e2-micro", "e2-small", "e2-medium", "f1-", "g1-")


def oversubscribed(evidence: Evidence) -> Finding | None:
    """There are more ranks than cores that they may use."""
    few = [h for h in evidence.hosts if evidence.ranks_per_host > h.usable_cores]
    line = evidence.symptom("bound_twice")
    if not few and not line:
        return None
    latencies = [s for s in evidence.summaries if s.metric == "latency"]
    small = [s for s in latencies if int(s.params.get("size", SMALL + 1)) <= SMALL]
    slow = small[0].median > SLOW if small else False
    return Finding(
        kind="oversubscribed",
        confidence="certain" if slow or line else "likely",
        text=line,
        name=few[0].host if few else "",
        count=evidence.ranks_per_host,
        other_count=few[0].usable_cores if few else 0,
        series=small[0] if slow else None,
    )


def cma_blocked(evidence: Evidence) -> Finding | None:
    """The kernel does not let ranks read one another's memory."""
    line = evidence.symptom("cma")
    if not line:
        return None
    scope = next((value for _, value in evidence.symptoms("ptrace")), "")
    return Finding(kind="cma_blocked", confidence="certain", text=line, name=scope)


def not_cuda_aware(evidence: Evidence) -> Finding | None:
    """This MPI cannot send from a GPU's memory."""
    lines = [text for text, value in evidence.symptoms("cuda_aware") if value == "false"]
    return Finding(kind="not_cuda_aware", confidence="certain", text=lines[0]) if lines else None


def fork(evidence: Evidence) -> Finding | None:
    """Ranks fork, which registered memory does not survive."""
    line = evidence.symptom("fork")
    return Finding(kind="fork", confidence="likely", text=line) if line else None


def hyper_threads(evidence: Evidence) -> Finding | None:
    """Ranks may share cores, and their times vary widely."""
    threads = [v for _, v in evidence.symptoms("threads") if v.isdigit() and int(v) > 1]
    scatter = [s for s in evidence.summaries if s.shape and s.shape.tail > 1.5]  # noqa: PLR2004
    if not threads or not scatter:
        return None
    return Finding(
        kind="hyper_threads", confidence="possible", count=int(threads[0]), series=scatter[0]
    )


def shared_core(evidence: Evidence) -> Finding | None:
    """Several ranks are bound to the same core, and other cores have no rank."""
    for machine, ranks in evidence.machines():
        # A rank that may use any core is not bound.
        any_core = {processor for core in machine.physical_cores for processor in core}
        bound = {p: set(p.processors) for p in ranks if not any_core <= set(p.processors)}
        overlaps = {
            p: frozenset(core for core in machine.physical_cores if not cpus.isdisjoint(core))
            for p, cpus in bound.items()
        }
        places = {p: place for p, place in overlaps.items() if place}
        free = len(machine.physical_cores) - len(frozenset().union(*places.values()))
        for cores in sorted(set(places.values()), key=len):
            crowd = [process for process, place in places.items() if place <= cores]
            if free and len(crowd) > len(cores):
                return Finding(
                    kind="shared_core",
                    confidence="certain",
                    ranks=tuple(crowd),
                    count=len(cores),
                    other_count=free,
                )
    return None


def other_load(evidence: Evidence) -> OtherLoad | None:
    """Other processes, or other virtual machines, used the processors of a host."""
    boots = dict.fromkeys(process.boot for process in evidence.processes)
    loads = [load for boot in boots if (load := _load(evidence, boot))]
    return max(loads, key=lambda load: load.slowdown, default=None)


def _load(evidence: Evidence, boot: str) -> OtherLoad | None:
    ranks = [p for p in evidence.processes if p.boot == boot]
    times = [p.times for p in ranks]
    # While ranks compete with others, these use less: what they used before counts, too.
    used, steal = max(_other_cores(times), _other_cores([p.before for p in ranks]), key=sum)
    processors = times[0].processors
    if used + steal < max(BUSY * processors, LEAST_BUSY):
        return None
    remaining = max(SMALLEST_SHARE, (processors - used - steal) / processors)
    share = min(t.own / t.took if t.took else 0.0 for t in times)  # a rank without work polls
    slowdown = 1 / max(remaining, min(share, 1.0))
    return OtherLoad(
        host=ranks[0].host, used=used, processors=processors, stolen=steal, slowdown=slowdown
    )


def _other_cores(times: Sequence[ProcessorTimes]) -> tuple[float, float]:
    """Return the processors that others used, and other virtual machines, in the ranks' times."""
    longest = max(times, key=lambda t: t.took)
    if longest.took < ENOUGH_TIME:
        return 0.0, 0.0
    used = max(0.0, longest.used - sum(t.own for t in times))
    return used / longest.took, longest.stolen / longest.took


def burst_credits(evidence: Evidence) -> Finding | None:
    """The rate fell while it ran."""
    drifts = [(s, s.shape.drift or 0.0) for s in evidence.summaries if s.shape and s.shape.drifts]
    fell = [s for s, up in drifts if (-up if s.better == "higher" else up) > 0.1]  # noqa: PLR2004
    line = evidence.symptom("throttled")
    if not fell and not line:
        return None
    bursts = evidence.instance.startswith(BURSTS)
    return Finding(
        kind="burst_credits",
        confidence="likely" if bursts or line else "possible",
        text=line,
        name=evidence.instance if bursts else "",
        series=fell[0] if fell else None,
        count=sum(bool(facts.gpus) for facts in evidence.hosts) + bool(line),
    )


def waiting(evidence: Evidence) -> Finding | None:
    """Tiny allreduces take so long that they are waiting, not transferring."""
    for profile in evidence.profiles:
        sums = [r for r in profile.distributions if r.name == "MPI_Allreduce"]
        tiny = [r for r in sums if r.bytes <= SMALL and r.calls]
        calls, time = sum(r.calls for r in tiny), sum(r.time for r in tiny)
        if not calls or time < SHARE * profile.communication or time / calls < WAITING:
            continue
        return Finding(
            kind="waiting",
            confidence="likely",
            name=str(profile.rank),
            count=calls,
            figure=time,
            share=time / profile.communication,
        )
    return None


def slow_input(evidence: Evidence) -> Finding | None:
    """A single GPU is already slower than expected: the input is slow, not the network."""
    for expected in evidence.series("expected_rate"):
        point = {k: v for k, v in expected.params.items() if k != "part"}
        rates = [
            s
            for s in evidence.series("processing_rate")
            if {k: v for k, v in s.params.items() if k != "part"} == point
        ]
        if rates and rates[0].median < 0.9 * expected.median:
            return Finding(
                kind="slow_input", confidence="possible", series=rates[0], other=expected
            )
    return None


RULES = (
    *(oversubscribed, cma_blocked, not_cuda_aware, fork, hyper_threads, shared_core),
    *(other_load, burst_credits, waiting, slow_input),
)
