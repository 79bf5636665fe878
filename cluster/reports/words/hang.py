"""The words of hangs."""

from collections.abc import Iterable, Iterator

from cluster.core.model.hang import Cause, HangAnswer, Straggler, Stuck
from cluster.core.text.units import format_seconds

NAMES = {  # of each rule: what it means, and what confirms it
    "host_dead": ("its host does not answer", "ssh to the host, and look at its console"),
    "process_gone": ("its process has ended", "read the last lines that the rank printed"),
    "process_stopped": ("its process is stopped", "kill -CONT PID on its host"),
    "order_differs": (
        "the ranks call different collectives",
        "TORCH_DISTRIBUTED_DEBUG=DETAIL, or print the call before each collective",
    ),
    "shape_differs": (
        "the ranks bring different sizes or types to one collective",
        "print shape and dtype before this call on each rank",
    ),
    "group_differs": (
        "the ranks have different members in one group",
        "print torch.distributed.get_process_group_ranks on each rank",
    ),
    "disk_full": ("a disk that it writes to is full", "df on its host"),
    "slow_input": ("it reads its input", "read the same file by hand, with time cat FILE"),
    "deadlock": ("it waits for a lock or thread of its own", "py-spy dump --pid PID, twice"),
    "rank_absent": ("it has not entered the collective", "py-spy dump --pid PID on its host"),
    "link_cut": (
        "all ranks are in the collective, and it does not end: a link or a device",
        "cluster check NAME",
    ),
}
VERDICTS = {
    "hung": "HUNG",
    "slow": "SLOW, not hung: it goes on",
    "undecided": "UNDECIDED: ranks wait, perhaps no longer than this job's collectives take",
    "moving": "NOT HUNG: it goes on, and no rank waits",
    "unknown": "UNKNOWN: no source says that a rank waits in a collective",
}
SOURCES = {
    "flight_recorder": "Flight Recorder (TORCH_FR_BUFFER_SIZE=2000)",
    "nccl_ras": "NCCL RAS (2.24 or newer)",
    "mpi_calls": "MPI calls (--profile)",
    "processes": "states of the processes",
    "python_stacks": "Python stacks (py-spy, faulthandler)",
}


def answer_lines(answer: HangAnswer, again: str) -> Iterator[str]:
    """Return the answer: what it is, who waits, how sure, what confirms it; `again` asks again."""
    cause = answer.cause
    head = VERDICTS[answer.verdict]
    if answer.verdict in ("slow", "undecided") and answer.rate:
        head += f", at {answer.rate:.3g} collectives/s"
    yield head
    if answer.verdict == "slow":
        yield f"Next: {again}"
        return
    if cause is not None:
        yield from (f"  {line}" for line in _cause_lines(cause))
        yield f"  confidence: {cause.confidence}"
        yield f"  to confirm: {_confirm(cause)}"
    for other in answer.others[:3]:
        ranks = format_ranks(straggler.rank for straggler in other.stragglers)
        yield f"Also: {f'rank {ranks}: ' if ranks else ''}{_words(other)[0]}"
    if answer.missing and answer.verdict in ("hung", "undecided", "unknown"):
        yield f"Without: {', '.join(SOURCES[source] for source in answer.missing)}"
    if answer.verdict in ("undecided", "unknown"):
        yield f"Next: {again}"


def answer_line(answer: HangAnswer) -> str:
    lines = list(_cause_lines(answer.cause)) if answer.cause else []
    return "; ".join([VERDICTS[answer.verdict], *lines])


def _cause_lines(cause: Cause) -> Iterator[str]:
    name = _words(cause)[0]
    for straggler in cause.stragglers[:8]:
        pid = f", pid {straggler.pid}" if straggler.pid else ""
        rank = f"rank {straggler.rank} ({straggler.host or 'host not known'}{pid})"
        yield f"{rank}: {name}{_doing(straggler)}"
    if len(cause.stragglers) > 8:  # noqa: PLR2004
        yield f"and {len(cause.stragglers) - 8} more ranks: --json lists all"
    if not cause.stragglers:
        yield name
    usual = cause.usual or format_ranks(cause.usual_ranks)
    if usual:
        yield f"most ranks: {usual}; these: {cause.other or format_ranks(cause.other_ranks)}"
    if cause.stuck is not None:
        yield _waiting(cause.stuck)


def _waiting(hang: Stuck) -> str:
    operation = f"{hang.name} #{hang.number} of group {hang.group or 'unknown'}"
    place = f", called at {hang.place}" if hang.place else ""
    end = f"; it has ended for rank {format_ranks(hang.ended)}" if hang.ended else ""
    return f"rank {format_ranks(hang.waiting)} in {operation}{place}{end}"


def _doing(straggler: Straggler) -> str:
    parts = []
    if (frame := straggler.frame) is not None:
        line = f":{frame.line}" if frame.line else ""
        parts.append(f"in {frame.function} ({frame.file}{line})")
        parts += [frame.text] if frame.text else []
    parts += [f"in {straggler.call}"] if straggler.call else []
    if (operation := straggler.operation) is not None:
        parts.append(f"in {operation.name} #{operation.number} of group {operation.group}")
    parts += [f"file {straggler.file}"] if straggler.file else []
    if straggler.state or straggler.wchan:
        parts.append(f"state {straggler.state or 'not known'} {straggler.wchan}".rstrip())
    return f": {', '.join(parts)}" if parts else ""


def _words(cause: Cause) -> tuple[str, str]:
    if cause.words is not None:
        return cause.words.name, cause.words.confirm
    return NAMES[cause.kind]


def _confirm(cause: Cause) -> str:
    """Return the command that confirms it, for the first of its ranks."""
    command = _words(cause)[1]
    first = next(iter(cause.stragglers), None)
    pid = first.pid if first else 0
    return command.replace("PID", str(pid)) if pid else command


def waited_line(answer: HangAnswer, *, live: bool) -> str:
    """Return since when; empty if no source says. A file that was copied may look newer."""
    if not answer.waited:
        return ""
    doubt = "" if live else ", if the files were not copied later"
    return f"waiting for {format_seconds(answer.waited)}{doubt}"


def format_ranks(ranks: Iterable[int]) -> str:
    """Return ranks as `0-4, 6, 7`."""
    parts: list[list[int]] = []
    for rank in sorted(ranks):
        if parts and rank == parts[-1][-1] + 1:
            parts[-1].append(rank)
        else:
            parts.append([rank])
    words = [f"{p[0]}-{p[-1]}" if len(p) > 2 else ", ".join(map(str, p)) for p in parts]  # noqa: PLR2004
    return ", ".join(words)
