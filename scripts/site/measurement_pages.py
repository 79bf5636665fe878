"""Pages of what is measured: metrics, log formats, known problems, hardware."""

from __future__ import annotations

import inspect
from itertools import groupby
from typing import TYPE_CHECKING, Any

from tables import first_sentence, page, paragraphs, table

from cluster.analysis.limits.hardware import (
    HardwareGpu,
    ListedPeak,
    ListedRate,
    listed_gpus,
    listed_hosts,
    listed_makers,
)
from cluster.analysis.limits.usual import threshold
from cluster.analysis.verdict.rules import RULES
from cluster.core import plugins
from cluster.logs.parsers import Parser
from cluster.measure.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.core.model.results.measurements import Definition

METRICS = """
Every metric of every benchmark, with its definition. The definition is stored with the values; its
id changes when a word of it changes. Times are in seconds, sizes in bytes, rates in bytes per
second.
"""
LOGS = """
What `cluster import` and `cluster judge` read. A format is recognised by its content; `--log-format
NAME` insists on one.
"""
PROBLEMS = """
What `judge`, `show` and `report` look for in every run. A rule that lacks its evidence says
nothing; one that has it gives the evidence, a remedy and the run that would confirm it.
"""
HARDWARE = """
The figures behind limits, each with its source. `--hardware NAME` chooses one; the tables are
`gpus.toml` and `hosts.toml` in `cluster/analysis/limits/hardware`.
"""
FIELDS = ("what", "clock", "synchronisation", "warm_up", "aggregation")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the pages."""
    yield "reference/metrics.md", _metrics()
    yield "reference/log-formats.md", _log_formats()
    yield "reference/known-problems.md", _known_problems()
    yield "reference/hardware.md", _hardware()


def _metrics() -> str:
    parts = []
    for name in plugins.names(Benchmark):
        benchmark: Benchmark[Any] = plugins.load(Benchmark, name)
        module = inspect.getmodule(type(benchmark))
        parts.append(f"## {name}\n\n{paragraphs(module)}\n")
        parts += [_definition(metric) for metric in benchmark.metrics]
    return page("Metrics", METRICS, *parts)


def _definition(definition: Definition) -> str:
    rows = [(field.replace("_", "-"), getattr(definition, field)) for field in FIELDS]
    rows += [("unit", f"{definition.unit}; {definition.better} is better")]
    if definition.flow:
        rows += [("direction", definition.flow)]
    if definition.factor:
        rows += [("bus bandwidth / algorithm bandwidth", definition.factor)]
    rows += [("id", f"`{definition.id}`")]
    return f"### {definition.benchmark}: {definition.metric}\n\n{table(('', ''), rows)}"


def _log_formats() -> str:
    parts = []
    for name in plugins.names(Parser):
        parser = plugins.find(Parser, name)
        rows = [
            (f"`{d.metric}`", d.unit, d.better, d.what, d.aggregation) for d in parser.definitions
        ]
        heads = ("metric", "unit", "better", "what", "aggregation")
        text = paragraphs(inspect.getmodule(parser))
        parts.append(f"## {name}\n\n{text}\n\n{table(heads, rows)}")
    return page("Log formats", LOGS, *parts)


def _known_problems() -> str:
    parts = []
    for module, rules in groupby(RULES, inspect.getmodule):
        rows = [(rule.__name__.replace("_", " "), first_sentence(rule)) for rule in rules]
        parts.append(f"## {first_sentence(module)}\n\n{table(('problem', 'seen by'), rows)}")
    return page("Known problems", PROBLEMS, *parts)


def _hardware() -> str:
    gpus = ((f"`{key}`", ", ".join(g.names), *_gpu(g)) for key, g in listed_gpus().items())
    hosts = (
        (
            f"`{name}`", maker, f"{host.gpus} x {host.gpu}" if host.gpu else "",
            f"{host.nics} x {host.nic}{' RDMA' if host.rdma else ''}", host.source,
        )
        for name, (maker, host) in listed_hosts().items()
    )  # fmt: skip
    makers = ((name, maker.mtu, _figure(maker.flow)) for name, maker in listed_makers().items())
    gpu_heads = ("name", "as tools print it", "NVLink, one way", "bus, one way", "memory")
    host_heads = ("name", "maker", "GPUs", "network interfaces", "source")
    return page(
        "Hardware",
        HARDWARE,
        f"## GPUs\n\n{table(gpu_heads, gpus)}",
        f"## Hosts\n\n{table(host_heads, hosts)}",
        f"## Makers\n\n{table(('maker', 'largest MTU', 'one TCP connection'), makers)}",
    )


def _gpu(gpu: HardwareGpu) -> tuple[str, ...]:
    links = f"{gpu.nvlinks} links of {gpu.architecture}" if gpu.nvlinks else _figure(gpu.nvlink)
    links = links or (f"if bridged: {_figure(gpu.bridge)}" if gpu.bridge else "")
    return links, gpu.slot or _figure(gpu.bus), _figure(gpu.memory)


def _figure(figure: ListedRate | None) -> str:
    if figure is None:
        return ""
    share = threshold(figure.threshold) if figure.threshold else None
    usual = f"; usually {share.share:.0%}: {share.source}" if share else ""
    source = f"[{figure.source}]({figure.url})" if isinstance(figure, ListedPeak) else figure.source
    return f"{figure.rate} ({source}{usual})"
