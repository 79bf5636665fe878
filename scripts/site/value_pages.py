"""Pages of values: the Python API, the options of providers, and what `--json` and files hold."""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from tables import field_texts, first_sentence, page, table

import cluster
from cluster.analysis.limits.published import PublishedResult, PublishedRun
from cluster.analysis.models.efficiency import Scaling
from cluster.analysis.statistics.compare import Comparison
from cluster.analysis.topology.transports import HostTopology
from cluster.cli.commands.bench import LotteryAnswer
from cluster.cli.commands.down import DownRow
from cluster.cli.commands.hang import HangReply
from cluster.cli.commands.import_ import ImportAnswer
from cluster.cli.commands.judge import JudgeAnswer
from cluster.cli.commands.launch import Launched
from cluster.cli.commands.ls import ClusterRow, HostRow
from cluster.cli.commands.more.corpus import CheckAnswer
from cluster.cli.commands.more.profile import ProfileAnswer
from cluster.cli.commands.plot import FitAnswer
from cluster.cli.commands.providers import ProviderOption
from cluster.cli.commands.run import Outcome
from cluster.cli.commands.runs import RunRow
from cluster.cli.commands.status import JobRow
from cluster.cli.measurement import AbAnswer
from cluster.cli.show import LaunchesAnswer, RunAnswer
from cluster.core import plugins
from cluster.core.model.hosts import HostUsage
from cluster.core.model.network.fleet import FleetVerdict
from cluster.core.model.network.placement import Placement
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Record
from cluster.core.model.spec import SpecOptions
from cluster.orchestration.bench.bench import BenchCall
from cluster.orchestration.bench.bench_methods import Bench
from cluster.orchestration.sync import SyncReport
from cluster.providers import DoctorCheck, Provider
from cluster.reports.plots.picture import Picture
from cluster.reports.words.verdict import Answer, SeriesAnswer
from cluster.runs.catalog import RunList
from cluster.runs.watch import WatchedSeries

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWERS: dict[str, Any] = {  # what --json of a command prints; None: it depends on what is asked
    "bench": RunAnswer,
    "bench --ab": AbAnswer,
    "bench --launches": LaunchesAnswer,
    "bench --lottery": LotteryAnswer,
    "show": RunAnswer,
    "fetch": RunAnswer,
    "judge": JudgeAnswer,
    "compare": list[Comparison],
    "check": FleetVerdict,
    "check --near": Placement,
    "plot --fit": FitAnswer,
    "more scaling": list[Scaling],
    "import": ImportAnswer,
    "more profile": ProfileAnswer,
    "more topology": list[HostTopology],
    "more corpus list": list[PublishedResult],
    "more corpus show": PublishedRun,
    "more corpus check": CheckAnswer,
    "watch show": list[WatchedSeries],
    "runs": list[RunRow],
    "ls": list[ClusterRow],
    "down": list[DownRow],
    "ls NAME": list[HostRow],
    "run": list[Outcome],
    "status": list[JobRow],
    "more sync": SyncReport,
    "more gc": list[Resource],
    "up --plan": Plan,
    "up": list[HostRow],
    "launch": Launched,
    "hang": HangReply,
    "top": HostUsage,
    "providers NAME": list[ProviderOption],
    "more resume": list[HostRow],
    "doctor": list[DoctorCheck],
}
PROVIDERS = """
`--provider NAME` chooses where hosts come from; `--option KEY=VALUE` sets an option of that
provider.
"""
JSON = """
What `--json` prints and what the files of a run hold. Times are in seconds, sizes in bytes, rates
in bytes per second. New fields may be added; fields are not renamed.
"""
INTERNAL = "disk|state|looked_for|phases|shells|as_reported|evidence|judgement|training|passing|key"
"""Members that other layers of cluster use, and scripts do not need."""
GIVEN = (*(SpecOptions, Bench, BenchCall), *(Answer, SeriesAnswer, Picture, RunList))
"""What the Python API gives and takes, besides what has a name in `cluster`."""
FILES: dict[str, Any] = {"run.json": Record, "measurements.jsonl": Measurement}


def pages() -> Iterator[tuple[str, str]]:
    """Yield the pages."""
    yield "reference/python.md", _python()
    yield "reference/providers.md", _providers()
    yield "reference/json.md", _json()
    for name, kind in (ANSWERS | FILES).items():
        if kind is not None:
            schema = msgspec.json.schema(kind, schema_hook=_any_json)
            text = msgspec.json.format(msgspec.json.encode(schema)).decode()
            yield f"reference/{_schema_file(name)}", f"{text}\n"


def _schema_file(name: str) -> str:
    stem = name.replace(" --", "-").replace(" ", "-").replace(".", "-")
    return f"schemas/{stem}.schema.json"


def _any_json(kind: type) -> dict[str, Any]:
    if kind is msgspec.Raw:
        return {"description": "Any JSON."}
    raise NotImplementedError(kind)


def _python() -> str:
    values = [(name, getattr(cluster, name)) for name in cluster.__all__ if name != "__version__"]
    kinds = {
        "Functions": [name for name, value in values if inspect.isfunction(value)],
        "Classes": [
            name for name, value in values if isinstance(value, type) and not _is_error(value)
        ],
        "Errors": [name for name, value in values if _is_error(value)],
    }
    parts = []
    for title, names in kinds.items():
        parts.append(f"## {title}\n")
        for name in names:
            module = getattr(cluster, name).__module__
            parts.append(_reference(f"{module}.{name}", f"cluster.{name}"))
        if title == "Functions":  # a package that can be called, so it is not among the functions
            parts.append(_reference("cluster.runs.catalog.runs", "cluster.runs"))
    parts.append("## What these give and take\n")
    parts += [_reference(f"{kind.__module__}.{kind.__name__}", kind.__name__) for kind in GIVEN]
    return page("Python", "Everything that `import cluster` gives.", *parts)


def _reference(path: str, heading: str) -> str:
    filters = f'      filters: ["!^_", "!^({INTERNAL})$"]\n'
    return f"::: {path}\n    options:\n      heading: {heading}\n{filters}"


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _providers() -> str:
    parts = []
    for name in plugins.names(Provider):
        provider = plugins.find(Provider, name)
        rows = _fields(provider.Options)
        options = table(("option", "type", "default", "meaning"), rows) or "It has no options.\n"
        parts.append(f"## {name}\n\n{first_sentence(inspect.getmodule(provider))}\n\n{options}")
    return page("Providers", PROVIDERS, *parts)


def _fields(kind: type[msgspec.Struct]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row per field: name, type, default, meaning."""
    texts = field_texts(kind)
    for field in msgspec.structs.fields(kind):
        default = "" if field.default is msgspec.NODEFAULT else f"`{field.default!r}`"
        yield f"`{field.name}`", f"`{_short(field.type)}`", default, texts.get(field.name, "")


def _short(kind: Any) -> str:  # noqa: ANN401 - a type or an annotation
    name = str(kind)
    if isinstance(kind, type) and not hasattr(kind, "__args__"):
        name = kind.__name__
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", name)


def _json() -> str:
    rows = []
    for name, kind in (ANSWERS | FILES).items():
        source = f"`cluster {name} --json`" if name in ANSWERS else f"`{name}`"
        if kind is None:
            rows += [
                (source, "a list of objects, one per row; the keys are the columns asked for", "")
            ]
        else:
            rows.append((source, _type_links(kind), f"[schema]({_schema_file(name)})"))
    parts = [table(("source", "value", "JSON schema"), rows)]
    parts += [
        f"## {kind.__name__}\n\n{first_sentence(kind)}\n\n"
        + table(("field", "type", "default", "meaning"), _fields(kind))
        for kind in sorted(_structs(), key=lambda kind: kind.__name__)
    ]
    return page("JSON", JSON, *parts)


def _type_links(kind: Any) -> str:  # noqa: ANN401 - a type or an annotation
    names = {struct.__name__ for struct in _structs()}
    return re.sub(
        r"\w+", lambda m: f"[{m[0]}](#{m[0].lower()})" if m[0] in names else m[0], _short(kind)
    )


@cache
def _structs() -> frozenset[type[msgspec.Struct]]:
    """Return every value that an answer or a file may hold."""
    values: dict[type[msgspec.Struct], None] = {}
    pending: list[object] = [kind for kind in (ANSWERS | FILES).values() if kind is not None]
    while pending:
        kind = pending.pop()
        pending += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in values:
            values[kind] = None
            pending += [field.type for field in msgspec.structs.fields(kind)]
    return frozenset(values)
