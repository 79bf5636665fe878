"""What an MPI profile shows, in words: each finding, and the arithmetic behind it."""

from cluster.analysis.verdict.profiles import Bin, Imbalance, ProfileFinding, SumCheck
from cluster.core.text.units import format_bytes, format_value


def profile_words(finding: ProfileFinding) -> tuple[str, str]:
    share, row, total = f"{finding.share:.0%}", finding.row, finding.of
    match finding.name:
        case "share":
            return f"{share} of the time is spent in MPI", _of_ranks(finding)
        case "files":
            says = f"{share} of the time is spent in files, by MPI-IO, beside that"
            return says, _of_ranks(finding)
        case "no_payload":
            says = (
                "no payload through MPI: NCCL carries it, if these ranks train on GPUs, or another "
                "library that MPI does not see"
            )
            return says, (
                f"{finding.calls} calls hold {format_bytes(finding.bytes)} in all, and take "
                f"{format_value(finding.time, 's')}; the largest messages have "
                f"{format_bytes(finding.largest)}"
            )
        case "payload" if row:
            rate = format_value(row.bytes / row.time, "B/s")
            carries = f"{_short(row.routine)} of {format_bytes(row.size)} carries {share}"
            volume = f"{format_bytes(row.bytes)} of {format_bytes(finding.of_bytes)}"
            return (
                f"{carries} of the bytes, at {rate} per rank",
                f"{row.calls} calls, {volume}, in {format_value(row.time, 's')}",
            )
        case "waiting":
            says = (
                f"{', '.join(map(_short, finding.routines))}: {share} of the time in MPI: "
                "transfers that no computation hides, or waiting for other ranks"
            )
            return says, f"{finding.time:.3f} s of {finding.elapsed:.3f} s"
        case "imbalance" if finding.imbalance:
            return _imbalance(finding.imbalance)
        case "negotiation" if row and total:
            says = (
                f"{round(row.size)}-byte {_short(total.name)}, {row.calls / total.calls:.0%} of "
                f"calls, {row.time / total.time:.0%} of the time: negotiation or waiting, not "
                "transfer"
            )
            return says, (
                f"{row.calls} of {total.calls} calls of {total.name}, {row.time:.3f} s of its "
                f"{total.time:.3f} s: {_call_time(row)} a call{_faster(finding.faster, row)}"
            )
    return "", ""


def _of_ranks(finding: ProfileFinding) -> str:
    part = f"{finding.time:.3f} s of {finding.elapsed:.3f} s"
    return f"{part}, of {finding.ranks} rank(s) together"


def _imbalance(ends: Imbalance) -> tuple[str, str]:
    least, most, duration = ends.least, ends.most, ends.elapsed
    gap, (count, size) = most.time - least.time, ends.ranks
    more = f"{gap / duration:.0%} of the time more" if duration else f"{gap:.2f} s more"
    end = f"of {duration:.2f} s elapsed" if duration else "of a time that the log does not say"
    middle = f"median {ends.median:.2f} s"
    if size:
        middle = f"of {count} of {size} ranks that are known"
    says = (
        f"uneven: rank {most.rank} spends {more} in MPI than rank {least.rank}, for which the "
        "others may be waiting"
    )
    ranks = [f"{row.time:.2f} s (rank {row.rank})" for row in (least, most)]
    return says, f"{ranks[0]}, {middle}, {ranks[1]}, {end}"


def _faster(larger: Bin | None, small: Bin) -> str:
    if larger is None:
        return f", for {format_bytes(small.bytes)} in all"
    return f"; those of {format_bytes(larger.size)} take {_call_time(larger)}"


def _call_time(row: Bin) -> str:
    return format_value(row.time / row.calls, "s")


def _short(routine: str) -> str:
    return routine.removeprefix("MPI_")


def check_words(check: SumCheck) -> str:
    return f"rank {check.rank}: {SUMS[check.sum].format(c=check)}"


SUMS = {
    "totals": "its totals: they are missing",
    "routines": "times of its routines: {c.value:.3f} s, and {c.printed:.3f} s in its total",
    "files": "times of its operations on files: {c.value:.3f} s, and {c.printed:.3f} s in its "
    "total",
    "inside": "time in MPI within the elapsed time: {c.value:.3f} s of {c.printed:.3f} s",
    "task": "its line in the table of all ranks: {c.value:.2f} s, and {c.printed:.3f} s in its "
    "total",
    "tasks": "lines in the table of all ranks: {c.value:.0f}, for {c.printed:.0f} ranks",
    "calls": "{c.routine}, calls by size: {c.value:.0f}, and {c.printed:.0f} in its row",
    "bytes": "{c.routine}, bytes by size: {c.value:.1f} B a call, and {c.printed:.1f} B in its row",
    "time": "{c.routine}, time by size: {c.value:.3f} s, and {c.printed:.3f} s in its row",
}
