"""Which rank of a running job the others wait for: two looks at all its hosts, and the answer."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import DecodeError, structs

from cluster.agent.protocol import AGENT
from cluster.analysis.hang import diagnose
from cluster.core import decoders
from cluster.core.errors import ClusterError, ShellError, SpecError, Unreachable
from cluster.core.model.hang import HangAnswer, HostReport, ProcessState, Snapshot
from cluster.core.model.hosts import Machine
from cluster.core.state.files import make_private
from cluster.remote.parallel import try_each
from cluster.remote.shells import Shell
from cluster.runs.dumps import FOLDER, read_dumps, write_answer, write_report

WITHIN = 30.0  # seconds for a host's two reports
BETWEEN = 2.0  # seconds between two looks


def look_on(
    shells: Mapping[str, Shell],
    machines: Mapping[str, Machine],
    folders: Mapping[str, str],
    folder: Path,
    *,
    native: bool = False,
) -> tuple[HangAnswer, Path]:
    """Return which rank of a job the others wait for, and the folder of the evidence.

    `folders` are those of the job on its hosts; `folder`, here, gets the evidence. `native` also
    reads native stacks; each process is stopped for milliseconds for that. SpecError: no rank runs.
    """

    def ask(name: str, shell: Shell) -> list[HostReport]:
        look = ("hang", folders[name], str(BETWEEN), *(["native"] if native else []))
        result = shell.run([f"{machines[name].bin}/python3", *AGENT, *look], timeout=WITHIN)
        if result.status != 0 or not result.stdout.strip():
            raise ShellError(
                f"{name} cannot say what its ranks do.", means=result.stderr.strip(), host=name
            )
        try:
            return [decoders.decode(line, HostReport) for line in result.stdout.splitlines()]
        except DecodeError as error:
            raise ShellError(
                f"{name} does not say what its ranks do in a form that is known.",
                means=str(error),
                remedy=f"What a login prints there may be in between: {result.stdout[:60]!r}",
                host=name,
            ) from error

    evidence = folder / FOLDER / time.strftime("%Y%m%dT%H%M%S")
    make_private(evidence)
    answers = try_each(shells, ask)
    errors = {name: reason for name, reason in answers.items() if isinstance(reason, ClusterError)}
    looks = {name: a if isinstance(a, list) else [HostReport()] for name, a in answers.items()}
    for name, reports in looks.items():
        for number, report in enumerate(reports):
            write_report(evidence / str(number + 1) / name, report)
    write_report(evidence / "absent", _absent(looks, errors))
    if not any(reports[-1].snapshots for reports in looks.values()):
        raise SpecError("No rank of this job runs.", means="; ".join(map(str, errors.values())))
    snapshots, _ = read_dumps([evidence])
    answer = diagnose(snapshots)
    write_answer(evidence, answer)
    return answer, evidence


def _absent(
    looks: Mapping[str, Sequence[HostReport]], errors: Mapping[str, ClusterError]
) -> HostReport:
    """Return the ranks that no host has: ended, or on a host that does not answer.

    Ranks on a host that answers, but cannot say what they do, are unread, and not absent.
    """
    silent = [name for name, error in errors.items() if isinstance(error, Unreachable)]
    if len(silent) < len(errors):
        return HostReport()
    size = max((report.size for reports in looks.values() for report in reports), default=0)
    all_looks = list(looks.values())
    before = {process.rank: process for first, *_ in all_looks for process in first.snapshots[::-1]}
    last_ranks = {process.rank for *_, last in all_looks for process in last.snapshots}
    ranks = {
        name: {process.rank for report in reports for process in report.snapshots}
        for name, reports in looks.items()
    }
    hosts = _hosts_of_ranks(size, ranks)
    absent = []
    for rank in {*range(size)} - last_ranks:
        process = before.get(rank, Snapshot(source="processes", rank=rank))
        is_silent = bool(silent) and rank not in before and hosts.get(rank, silent[0]) in silent
        host = hosts.get(rank, ", ".join(silent)) if is_silent else process.host
        state: ProcessState = "unreachable" if is_silent else "gone"
        absent.append(structs.replace(process, at=time.time(), host=host, state=state))
    return HostReport(snapshots=tuple(absent))


def _hosts_of_ranks(size: int, by_host: Mapping[str, set[int]]) -> dict[int, str]:
    """Return the hosts of the ranks if these were assigned in blocks, or round-robin."""
    names = list(by_host)
    for share in (size // len(names), 1):
        hosts = {rank: names[rank // share % len(names)] for rank in range(size) if share}
        if hosts and all(hosts[rank] == name for name, ranks in by_host.items() for rank in ranks):
            return hosts
    return {}
