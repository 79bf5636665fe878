"""`cluster topology`: how GPUs and NICs are joined, what NCCL chose, and whether rates fit.

The analysis is imported when it is asked for: `cluster --help` does without.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from cluster.analysis.topology import GpuTopology
from cluster.analysis.transports import Transports
from cluster.cli import flags
from cluster.cli.log_files import print_left_out, readings
from cluster.cli.show import print_json
from cluster.core.errors import ClusterError, ParseError, ShellError, SpecError
from cluster.core.model.logs import PeerAccess, Topology
from cluster.core.model.value import Value
from cluster.logs import reader
from cluster.orchestration.cluster import attach
from cluster.reports.formats.terminal import WIDE, table_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cluster.core.model.hosts import Completed
    from cluster.core.model.logs import Parsed

LIVE = ("nvidia-smi", "topo", "-m")
WITHIN = 60.0  # seconds for a host to answer
NOT_FOUND = 127  # the exit status of a program that is not there
COLOURS = {
    "PIX": "cyan",
    "PXB": "blue",
    "PHB": "yellow",
    "NODE": "magenta",
    "SYS": "red",
    "X": "dim",
}
NVLINK = "bold green"


class HostTopology(Value, frozen=True, kw_only=True):
    """How the devices of a host are joined.

    Args:
        host: its name; with --live only.
        topology: the matrix; none if the logs hold none.
        joined: what it comes down to.
        transports: what NCCL chose.

    """

    host: str
    topology: Topology | None
    joined: GpuTopology
    transports: Transports


def topology(
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG...",
            help="nvidia-smi topo, NCCL's log, p2pBandwidthLatencyTest; - is standard input.",
        ),
    ] = None,
    live: Annotated[
        str | None,
        typer.Option("--live", metavar="NAME", help="Ask each host of this cluster, too."),
    ] = None,
    json: flags.Json = False,
) -> None:
    """Say which GPUs belong together, and which are too slow.

    Example: cluster topology topo.txt nccl.log p2p.txt
    """
    if not logs and live is None:
        raise SpecError(
            "Nothing was named.", remedy="Type: cluster topology LOG..., or --live NAME"
        )
    left_out: list[str] = []
    read = readings(logs or (), left_out)
    results = [result for _, reading_ in read for result in reading_.results]
    print_left_out(left_out)
    hosts = list(_asked(live)) if live else []
    shown = _joined(results, hosts)
    if json:
        print_json(shown)
        return
    for alike in _alike(shown):
        sys.stdout.write(_text(alike))


def _asked(name: str) -> Iterator[tuple[str, Topology]]:
    """Ask every host of a cluster; those that cannot say are named, unless none can."""
    failures: list[ClusterError] = []
    answered = False
    for host, end in attach(name).try_run(LIVE, timeout=WITHIN).items():
        try:
            found = _answer(host, end)
        except ClusterError as error:
            failures.append(error)
            continue
        answered = True
        yield host, found
    if failures and not answered:
        raise failures[0] if len(failures) == 1 else ExceptionGroup("No host could say", failures)
    for failure in failures:
        sys.stderr.write(f"Left out: {failure}\n")


def _answer(host: str, end: Completed | ClusterError) -> Topology:
    if isinstance(end, ClusterError):
        raise end
    if end.status == NOT_FOUND:
        raise ShellError(
            f"{host} has no nvidia-smi.",
            means="It has no NVIDIA GPU, or not its driver: nobody else knows how GPUs are joined.",
            remedy="Install the driver there, or give a log of another host: cluster topology LOG",
        )
    if end.status != 0:
        raise ShellError(
            f"{host}: {' '.join(LIVE)} ended with exit status {end.status}.",
            means=(end.stderr or end.stdout).strip(),
        )
    for result in reader.read([end.stdout.encode()], "topology").results:
        if isinstance(result.detail, Topology):
            return result.detail
    raise ParseError(f"{host}: nvidia-smi printed no matrix.", line=end.stdout[:200])


def _joined(results: Sequence[Parsed], hosts: Sequence[tuple[str, Topology]]) -> list[HostTopology]:
    """Join each matrix with all that was measured and logged."""
    from cluster.analysis.topology import gpu_topology  # noqa: PLC0415
    from cluster.analysis.transports import transports  # noqa: PLC0415

    measured = [m for result in results for m in result.measurements]
    models = [model for result in results for model in result.devices]
    details = [result.detail for result in results]
    access = next((one for one in details if isinstance(one, PeerAccess)), None)
    matrices: list[tuple[str, Topology | None]] = [
        *hosts,
        *(("", one) for one in details if isinstance(one, Topology)),
    ]
    shown = []
    for host, matrix in matrices or [("", None)]:
        found = gpu_topology(matrix, measured, access, models)
        carried = transports(results, found)
        shown.append(HostTopology(host=host, topology=matrix, joined=found, transports=carried))
    if not any(one.joined.pairs or one.transports.experiments for one in shown):
        raise ParseError(
            "No log says how GPUs are joined; found: "
            f"{', '.join(dict.fromkeys(result.format for result in results))}.",
            remedy="Give what `nvidia-smi topo -m`, NCCL_DEBUG=INFO or p2pBandwidthLatencyTest "
            "printed.",
        )
    return shown


def _alike(hosts: Sequence[HostTopology]) -> list[list[HostTopology]]:
    """Put hosts together that have the same devices, joined alike."""
    groups: list[list[HostTopology]] = []
    for host in hosts:
        same = (group for group in groups if host.host and group[0].topology == host.topology)
        found = next(same, None)
        if found is None:
            groups.append([host])
        else:
            found.append(host)
    return groups


def _text(alike: Sequence[HostTopology]) -> str:
    from cluster.reports.log_tables import topology_tables  # noqa: PLC0415

    one = alike[0]
    title = ", ".join(host.host for host in alike) + "\n" if one.host else ""
    parts = [_matrix(one.topology)] if one.topology else []
    parts += [table_text(table) for table in topology_tables(one.joined, one.transports)]
    return title + "\n".join(parts)


def _matrix(found: Topology) -> str:
    """Draw the matrix; each class has its colour, where there are colours."""
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("", *(device.name for device in found.devices), "CPUs", "NUMA"):
        grid.add_column(name, no_wrap=True)
    for device in found.devices:
        cells = [Text(path, style=_style(path)) for path in device.paths]
        grid.add_row(device.model or device.name, *cells, device.cpus, device.numa)
    out = io.StringIO()
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    console = Console(
        file=out,
        width=WIDE,
        force_terminal=coloured,
        color_system="standard" if coloured else None,
        highlight=False,
    )
    console.print(grid)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().strip("\n").splitlines())


def _style(path: str) -> str:
    return NVLINK if path.startswith("NV") else COLOURS.get(path, "")
