"""Every flag that more than one command or launcher takes, declared once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
import typer

from cluster.core import journal, plugins
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec, SpecOptions
from cluster.core.options import help_of
from cluster.core.units import Sizes, format_size, parse_seconds
from cluster.logs.parsers import Parser
from cluster.measure.starters import Starter as StarterPlugin
from cluster.providers import Provider as ProviderPlugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.core.model.value import Value


DEFAULT_IN_HELP = re.compile(r"\[default: [^]]*\]")
DEFAULT_PROVIDER = SpecOptions().provider  # of every command; launchers name their own


def _providers() -> list[str]:
    return list(plugins.names(ProviderPlugin))


def _clusters() -> list[str]:
    return list(journal.names())


def _zero_or_one(value: str | int) -> int:  # typer also passes the default, unparsed
    if str(value) not in ("0", "1"):
        raise typer.BadParameter(f"{value!r} is not 0 or 1.")
    return int(value)


def _span(value: str | float) -> float:
    return parse_seconds(value) if isinstance(value, str) else value


Name = Annotated[str, typer.Option("--name", help="Name of the cluster.", autocompletion=_clusters)]
RunLocal = Annotated[
    bool,
    typer.Option("--run-local", help="Use this machine: --provider local."),
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what would be created.")]


def _regions(given: list[str] | None) -> list[str] | None:
    """Refuse a region that no provider has: nothing would be searched there."""
    kinds = [plugins.find(ProviderPlugin, kind) for kind in _providers()] if given else []
    for one in given or ():
        if not any(kind.has_region(one) for kind in kinds):
            raise SpecError(
                f"No provider has a region like {one!r}.",
                remedy="Amazon: --region us-east-1; Google: --region projects/PROJECT; "
                "Slurm: --region login:USER@HOST, or --region 'this machine'.",
            )
    return given


Regions = Annotated[
    list[str] | None,
    typer.Option(
        "--region",
        metavar="REGION",
        help="Also look there; repeatable: us-east-1, projects/PROJECT, login:USER@HOST.",
        callback=_regions,
    ),
]
Keep = Annotated[
    bool | None,
    typer.Option(
        "--keep/--no-keep",
        help="Leave it running.  [default: if it costs nothing, or ran before]",
        show_default=False,
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Return when it runs.")]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", help="Seconds that the job may take.")
]
Runs = Annotated[
    str | None,
    typer.Option(
        "--runs", metavar="DIR", help="Folder of all runs.  [default: CLUSTER_RUNS or runs]"
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else on stdout.")]
Ab = Annotated[
    str | None,
    typer.Option(
        "--ab",
        metavar="KEY=V1,V2",
        help="Compare parameters, mca:X or env:X, in turn.",
    ),
]
Launches = Annotated[
    int | None,
    typer.Option(
        "--launches",
        metavar="N",
        help="Repeat from the start; with --ab, of each value.  [default: 1; --ab 5; p2p here 3]",
        show_default=False,
    ),
]
Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="End a job that runs there; rebuild a cluster whose hosts do not answer.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it costs money.")]
Lottery = Annotated[
    int | None,
    typer.Option(
        "--lottery",
        metavar="K",
        help="Launch the machines K times, measure and end them: what is a lucky draw worth?",
        show_default=False,
    ),
]
Mca = Annotated[
    list[str] | None,
    typer.Option("--mca", metavar="NAME=VALUE", help="Parameter of Open MPI; repeatable."),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="Variable for every rank; repeatable."),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="[=PATH]",
        help="Count and time the ranks' calls of MPI; with the libmpitrace at PATH, if given.",
        show_default=False,
    ),
]
Order = Annotated[
    str,
    typer.Option(
        "--order",
        metavar="given|near",
        help="near: neighbouring ranks on near hosts, as cluster placement found them.",
    ),
]
Starter = Annotated[
    str,
    typer.Option(
        "--starter",
        metavar="NAME",
        help="What starts the ranks: mpirun, srun[:PMI], torchrun, aprun."
        "  [default: what fits the hosts]",
        show_default=False,
        autocompletion=lambda: list(plugins.names(StarterPlugin)),
    ),
]
Describe = Annotated[str, typer.Option("--describe", metavar="TEXT", help="What the run is for.")]
Expect = Annotated[
    str,
    typer.Option("--expect", metavar="VALUE", help="Expected result: 220, 1.1GB/s, 12us."),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Folder, id, cluster or latest.")]
Threshold = Annotated[
    float,
    typer.Option("--threshold", metavar="PERCENT", help="Differences below it count as equal."),
]
TableFormat = Annotated[str, typer.Option("--format", help="terminal or markdown.")]
ClusterName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the cluster.", autocompletion=_clusters)
]

LogFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the logs.  [default: recognised]",
        show_default=False,
        autocompletion=lambda: list(plugins.names(Parser)),
    ),
]
RunName = Annotated[str, typer.Option("--name", help="Name under which the run is kept.")]

Declared = dict[str, tuple[Any, object]]
"""Flags of a command: by the name of its parameter, what declares it, and its default."""


class Spelling(NamedTuple):
    """How the flag of a field differs from what is derived from the field.

    Args:
        flag: its name; that of the field, if empty.

    """

    flag: str = ""
    kind: Any = None
    metavar: str | None = None
    parser: Callable[..., object] | None = None
    more: str = ""
    completion: Callable[[], list[str]] | None = None


SPELLINGS = {
    "provider": Spelling(
        kind=str | None,
        metavar="NAME",
        more=f" {', '.join(_providers())}.  [default: local, or that of the running cluster]",
        completion=_providers,
    ),
    "hosts": Spelling(kind=int | None, metavar="N", more="  [default: 2, or all named]"),
    "ranks_per_host": Spelling(metavar="N"),
    "placement": Spelling(kind=int, metavar="[0|1]", parser=_zero_or_one, more=" Bare: 1."),
    "accelerator": Spelling(metavar="KIND:N"),
    "ttl": Spelling(metavar="SPAN", parser=_span, more=" Or 90min, 2h."),
    "options": Spelling("--option", list[str] | None, "KEY=VALUE", more=" Repeatable."),
}


def _spec_flags() -> Iterator[tuple[str, tuple[Any, object]]]:
    """Return a flag for each field of `SpecOptions`."""
    about = help_of(SpecOptions)
    for field in msgspec.structs.fields(SpecOptions):
        spelled = SPELLINGS.get(field.name, Spelling())
        option = typer.Option(
            spelled.flag or f"--{field.name.replace('_', '-')}",
            help=about[field.name] + spelled.more,
            metavar=spelled.metavar,
            parser=spelled.parser,
            autocompletion=spelled.completion,
            show_default="[default: " not in spelled.more,
        )
        default = None if type(None) in get_args(spelled.kind) else field.default
        default = int(field.default) if spelled.kind is int else default
        yield field.name, (Annotated[spelled.kind or field.type, option], default)


SPEC: Declared = dict(_spec_flags())
MACHINES: Declared = {
    name: flag for name, flag in SPEC.items() if name not in ("provider", "hosts", "ranks_per_host")
}


def with_default(name: str, default: object, *, shown: str = "") -> tuple[Any, object]:
    """Return the flag of a field of `SpecOptions` another default.

    Args:
        shown: the default in its help, if the command itself chooses it; else that default.

    """
    kind, option = get_args(SPEC[name][0])
    own = copy(option)
    own.help = DEFAULT_IN_HELP.sub(f"[default: {shown or default}]", option.help)
    return Annotated[kind, own], default


def parameters(flags: Declared) -> list[Parameter]:
    """Return flags as the parameters of a function."""
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in flags.items()
    ]


def with_flags(command: Callable[..., None], flags: Sequence[Parameter]) -> Callable[..., None]:
    """Turn a function that takes any keyword into a command with these flags."""
    command.__signature__ = Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return command


def choose_provider(provider: str | None, *, run_local: bool, default: str) -> str:
    """Choose the provider.

    Raises:
        SpecError: the two flags contradict each other.

    """
    if run_local and provider not in (None, "local"):
        raise SpecError(
            f"--run-local means --provider local, but --provider is {provider}.",
            remedy="Leave one of the two out.",
        )
    return "local" if run_local else provider or default


def like_running(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in flags that were not given from the running cluster of this name, if there is one.

    Returns:
        The flags; where no cluster of this name runs, with the default provider.

    """
    from cluster.orchestration.cluster import attach  # noqa: PLC0415 - most commands read files

    known = attach(name).state if name in journal.names() else None
    if known is None or not known.launched:
        return {**values, "provider": DEFAULT_PROVIDER}
    there = msgspec.structs.asdict(known.spec)
    there["options"] = [f"{key}={value}" for key, value in known.spec.options.items()]
    defaults = {field.name: field.default for field in msgspec.structs.fields(SpecOptions)}
    own = {k: there[k] for k, default in defaults.items() if values.get(k) in (None, default)}
    return {**values, **own, "provider": known.spec.provider}


def spec(*, name: str, options: list[str] | None = None, **flags: object) -> ClusterSpec:
    """Make a spec of the flags.

    Args:
        flags: the others that `SPEC` declares

    Raises:
        SpecError: a flag is wrong.

    """
    from cluster.orchestration.launch.launch import make_spec  # noqa: PLC0415 - most commands read files

    own = dict(pair("option", text) for text in options or ())
    return make_spec(name, {**flags, "options": own})


def pair(flag: str, text: str) -> tuple[str, str]:
    """Read what a flag gives as KEY=VALUE.

    Raises:
        SpecError: it is not of that form.

    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise SpecError(f"--{flag} {text!r} is not KEY=VALUE.")
    return key, value


def param_flags(params: type[Value]) -> Iterator[inspect.Parameter]:
    """Return a flag for each field: its type, default and help come from the class.

    Args:
        params: of a benchmark; its docstring describes each field under `Args:`.

    """
    help_ = help_of(params)
    fields = msgspec.structs.fields(params)
    for field in sorted(fields, key=lambda field: field.name not in params.__annotations__):
        kind, default, shown = _flag_type(field.type, field.default)
        option = typer.Option(
            f"--{field.name.replace('_', '-')}",
            help=help_.get(field.name, ""),
            metavar=_metavar(field.type),
            show_default=shown,
            autocompletion=_choices(field.type),
        )
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind, option],
        )


def _choices(kind: Any) -> Callable[[], list[str]]:  # noqa: ANN401 - an annotation
    """Return the completion of a flag: its values, if the type lists them."""
    return lambda: list(get_args(kind)) if get_origin(kind) is Literal else []


def _metavar(kind: Any) -> str | None:  # noqa: ANN401 - an annotation
    """Return the placeholder of a flag's value in the help."""
    if kind is bool:
        return None
    if get_origin(kind) is Literal:
        return "WORD"
    return {int: "N", int | None: "N", float: "X", str: "TEXT"}.get(kind, "LIST")


def _flag_type(kind: Any, default: Any) -> tuple[Any, object, str | bool]:  # noqa: ANN401
    """Choose a type that typer can check; other values are text, which the benchmark checks."""
    if kind in (bool, int, float):
        return kind, default, kind is not float or bool(default)
    if kind == (int | None):
        return kind, None, False
    if kind is str:
        return str | None, None, default or False
    if get_origin(kind) is Literal:
        return str, default, True
    if default is None:
        return str | None, None, False
    shown = f"{_typed(default[0])}:{_typed(default[-1])}" if kind is Sizes else _joined(default)
    return str | None, None, shown


def _typed(size: int) -> str:
    return format_size(size).removesuffix(" B").replace(" ", "")


def _joined(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(str(part) for part in default)
    return str(default)
