"""Compute efficiencies and the limits of the network.

Example: cluster more scaling examples/ddl_scaling.md --batch 128 --exchange 102MB --link 10gbit
"""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

from cluster.analysis.models.efficiency import Series, Work, measured_series
from cluster.analysis.models.efficiency import scaling as scale
from cluster.analysis.models.published_tables import series
from cluster.cli import flags
from cluster.cli.flags import argument, option
from cluster.cli.show import show_tables
from cluster.core.errors import ClusterError, SpecError
from cluster.core.state.files import is_there, read_text
from cluster.core.text.units import parse_rate, parse_size
from cluster.reports.tables import scaling_table
from cluster.runs import store
from cluster.runs.comparison import launch_of

PAGE = ".md"


def command(
    sources: Annotated[
        list[str] | None,
        argument("RUN", "With different numbers of ranks, otherwise all; or a table, FILE.md."),
    ] = None,
    batch: Annotated[float | None, option("--batch N", "Items per rank and step.")] = None,
    exchange: Annotated[
        str | None, option("--exchange SIZE", "Bytes reduced per step: 102MB.")
    ] = None,
    link: Annotated[str | None, option("--link RATE", "Rate of a host's network: 10gbit.")] = None,
    ranks_per_host: Annotated[int, option("--ranks-per-host N", "Ranks that share a link.")] = 1,
    report: flags.Format = "terminal",
    root: flags.Runs = None,
    json: flags.Json = False,
) -> None:
    pages = [Path(name) for name in sources or () if name.endswith(PAGE) or is_there(name)]
    works: list[Series] = []
    for page in pages:
        tables = series(read_text(page))
        if not tables:
            raise SpecError(
                f"{page} holds no table of throughputs.",
                means="A table counts if a column is a rate, such as `226 images/sec`.",
            )
        works += tables
    runs_root = store.root(root)
    names = [name for name in sources or () if Path(name) not in pages]
    folders = [folder for name in names for folder in store.all_of(runs_root, name)]
    launches = [launch_of(store.read(folder)) for folder in folders]
    for folder in () if sources else store.folders(runs_root):
        with suppress(ClusterError):  # a damaged run, which nobody named
            launches.append(launch_of(store.read(folder)))
    works += measured_series(launches)
    if not works:
        raise SpecError(
            "Nothing was measured on different numbers of ranks.",
            remedy="Name runs with other --hosts or --ranks-per-host: cluster more scaling A B C",
        )
    work = _work(batch, exchange, link, ranks_per_host)
    results = [scale(series_, work) for series_ in works]
    show_tables(list(map(scaling_table, results)), "json" if json else report, results)


def _work(
    batch: float | None, exchange: str | None, link: str | None, ranks_per_host: int
) -> Work | None:
    if (batch, exchange, link) == (None, None, None):
        return None
    if batch is None or exchange is None or link is None or batch <= 0:
        raise SpecError(
            "Bounds need --batch, --exchange and --link together, all positive.",
            remedy="Such as --batch 128 --exchange 102MB --link 10gbit",
        )
    size, rate = parse_size(exchange), parse_rate(link)
    return Work(batch=batch, payload=size, rate=rate, ranks_per_host=ranks_per_host)
