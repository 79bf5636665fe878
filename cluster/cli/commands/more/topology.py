"""Say which GPUs belong together, and which are too slow.

Example: cluster more topology topo.txt nccl.log p2p.txt
"""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

from rich import box
from rich.table import Table as Grid
from rich.text import Text

from cluster.analysis.topology.transports import group_alike, host_topologies
from cluster.cli import flags
from cluster.cli.commands._log_files import print_left_out, readings
from cluster.cli.flags import argument, option
from cluster.cli.show import print_json, screen_width
from cluster.cli.terminal import printable, write_coloured
from cluster.core.errors import (
    ClusterError,
    HostErrors,
    ParseError,
    ShellError,
    SpecError,
    collect_errors,
)
from cluster.core.model.hosts import Completed
from cluster.core.model.logs import Topology
from cluster.logs import reader
from cluster.orchestration.cluster import attach
from cluster.reports.formats.terminal import natural_width, plain_text, table_text
from cluster.reports.table import Table
from cluster.reports.words.topology import with_words

MatrixColumn = tuple[str, list[Text]]

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


def command(
    logs: Annotated[
        list[str] | None,
        argument(
            "LOG...", "nvidia-smi topo, NCCL's log, p2pBandwidthLatencyTest; - is standard input."
        ),
    ] = None,
    live: Annotated[
        str | None, option("--live NAME", "Also ask each host of this cluster.")
    ] = None,
    json: flags.Json = False,
) -> None:
    from cluster.reports.log_tables import topology_tables  # noqa: PLC0415

    if not logs and live is None:
        raise SpecError(
            "Nothing was named.", remedy="Type: cluster more topology LOG..., or --live NAME"
        )
    left_out: list[str] = []
    read = readings(logs or (), left_out)
    results = [result for _, reading_ in read for result in reading_.results]
    print_left_out(left_out)
    hosts = list(_ask_hosts(live)) if live else []
    topologies = host_topologies(results, hosts)
    if not topologies:
        raise ParseError(
            "No log says how GPUs are connected; found: "
            f"{', '.join(dict.fromkeys(result.format for result in results))}.",
            remedy="Give what `nvidia-smi topo -m`, NCCL_DEBUG=INFO or p2pBandwidthLatencyTest "
            "printed.",
        )
    if json:
        print_json(list(map(with_words, topologies)))
        return
    for group in group_alike(topologies):
        first = group[0]
        title = printable(", ".join(host.host for host in group)) + "\n" if first.host else ""
        parts = [_matrix(first.topology, screen_width())] if first.topology else []
        parts += [
            printable(table_text(table, screen_width()))
            for table in topology_tables(first.joined, first.transports)
        ]
        write_coloured(title + "\n".join(parts))


def _ask_hosts(name: str) -> Iterator[tuple[str, Topology]]:
    """Ask every host of a cluster; report those that fail, or raise if all of them do."""
    failures: list[ClusterError] = []
    answers: dict[str, Topology] = {}
    for host, end in attach(name).remote.try_run(LIVE, timeout=WITHIN).items():
        with collect_errors(failures):
            answers[host] = _answer(host, end)
    yield from answers.items()
    if failures and not answers:
        raise (
            failures[0] if len(failures) == 1 else HostErrors("No host gave its topology", failures)
        )
    for failure in failures:
        sys.stderr.write(f"Left out: {failure}\n")


def _answer(host: str, end: Completed | ClusterError) -> Topology:
    if isinstance(end, ClusterError):
        raise end
    if end.status == NOT_FOUND:
        raise ShellError(
            f"{host} has no nvidia-smi.",
            means="It has no NVIDIA GPU or no driver: only nvidia-smi knows how GPUs are "
            "connected.",
            remedy="Install the driver there, or name a log of a host: cluster more topology LOG",
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


def _matrix(topology: Topology, width: int | None) -> str:
    """Draw the matrix in colours, in parts below one another where it is wider than the screen."""
    names = [printable(device.model or device.name) for device in topology.devices]
    columns = []
    for number, column in enumerate(topology.devices):
        paths = [printable(device.paths[number]) for device in topology.devices]
        styles = [NVLINK if path.startswith("NV") else COLOURS.get(path, "") for path in paths]
        columns.append((printable(column.name), list(map(Text, paths, styles))))
    columns += [
        ("CPUs", [Text(printable(device.cpus)) for device in topology.devices]),
        ("NUMA", [Text(printable(device.numa)) for device in topology.devices]),
    ]
    first = ("", [Text(name) for name in names])
    has_colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    grids = []
    for part in _parts(first, columns, width):
        grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
        for name, _ in (first, *part):
            grid.add_column(name, no_wrap=True)
        for row in zip(*(texts for _, texts in (first, *part)), strict=True):
            grid.add_row(*row)
        grids.append(plain_text(grid, is_coloured=has_colour))
    return "\n".join(grids)


def _parts(
    first: MatrixColumn, columns: Sequence[MatrixColumn], width: int | None
) -> Iterator[list[MatrixColumn]]:
    """Return as many columns at once as fit on the screen beside the first."""
    part: list[MatrixColumn] = []
    for column in columns:
        names, texts = zip(first, *part, column, strict=True)
        rows = tuple(zip(*([text.plain for text in entry] for entry in texts), strict=True))
        plain = Table(title="", columns=names, rows=rows)
        if part and width is not None and natural_width(plain) > width:
            yield part
            part = []
        part.append(column)
    yield part
