"""Every flag that more than one command or launcher takes, declared once."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from inspect import Parameter, getdoc, signature
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import click
import msgspec
from click.core import ParameterSource
from click.exceptions import Exit
from click.shell_completion import CompletionItem

from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec, Group, SpecOptions, parse_group
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.text.options import help_of
from cluster.core.text.units import Sizes, format_size, parse_seconds
from cluster.logs.parsers import Parser
from cluster.measure.starters import Starter as StarterPlugin
from cluster.providers import Provider as ProviderPlugin
from cluster.providers import Regional


class Flag(NamedTuple):
    """How a parameter of a command is typed: an option if it has names, else an argument."""

    names: tuple[str, ...]
    help: str = ""
    metavar: str | None = None
    show_default: bool | str = True
    usual: str = ""  # what a field of `SpecOptions` is by default, in words
    parser: Callable[[str], object] | None = None  # reads its text; its type does, if there is none
    autocompletion: Callable[[], Iterable[str]] = tuple  # the values that a shell suggests
    callback: Callable[[Any], object] | None = None  # checks or replaces its value


def option(usage: str, help: str = "", **how: Any) -> Flag:  # noqa: A002, ANN401 - fields of `Flag`
    """Declare an option of a command, inside `Annotated`; `usage` is such as `--sizes LIST`."""
    words = usage.split()
    names = tuple(word for word in words if word.startswith("-"))
    return Flag(names, help, " ".join(words[len(names) :]) or None, **how)


def argument(metavar: str, help: str = "", **how: Any) -> Flag:  # noqa: A002, ANN401
    return Flag((), help, metavar, **how)


class ParameterGroup(NamedTuple):
    """Parameters that a command gets as one value, inside `Annotated`."""

    parameters: tuple[click.Parameter, ...]
    make: Callable[..., Any] = dict


READ: dict[Any, tuple[Callable[[str], object], str]] = {
    int: (int, "a whole number is needed."),
    float: (float, "a number is needed."),
    Path: (Path, ""),
}


class _Type(click.ParamType):  # type: ignore[type-arg]
    """The type of a value: how its text is read, what is said if it is none, what is suggested."""

    def __init__(self, kind: Any, flag: Flag) -> None:  # noqa: ANN401 - an annotation
        self.choices = get_args(kind) if get_origin(kind) is Literal else ()
        self.name = "|".join(self.choices) or {Path: "path"}.get(kind, kind.__name__)
        self._read, self._expected = READ.get(kind, (str, ""))
        self._read = flag.parser or self._read
        self._suggest = flag.autocompletion

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as click has it
        """Convert a text; a default may have its type."""
        if not isinstance(value, str):
            return value
        if self.choices and value not in self.choices:
            choices = ", ".join(map(repr, self.choices))
            self.fail(f"{value!r} is none of {choices}.", param, ctx)
        try:
            return self._read(value)
        except ValueError:
            self.fail(self._expected, param, ctx)

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:  # noqa: ANN401, ARG002
        words = (*self._suggest(), *self.choices)
        return [CompletionItem(word) for word in words if word.startswith(incomplete)]


class _Argument(click.Argument):
    """An argument that the help describes."""

    def __init__(self, name: str, flag: Flag, type_name: str, **how: Any) -> None:  # noqa: ANN401
        super().__init__([name], metavar=flag.metavar or name.upper(), **how)
        self._help, self._type_name = flag.help, type_name

    def make_metavar(self, ctx: click.Context | None = None) -> str:  # noqa: ARG002 - as click has it
        form = "{%s}" if self.required else "[%s]"
        return form % self.metavar + ("..." if self.nargs != 1 else "")

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002 - as click has it
        return f"'{self.metavar}'"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        default = self.get_default(ctx, call=False) if self.nargs == 1 else None
        default_text = "[required]" if self.required else f"[default: {default}]" if default else ""
        return f"{self.metavar} <{self._type_name}>", "  ".join(
            filter(None, (self._help, default_text))
        )


def parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> click.Parameter:  # noqa: ANN401
    """Make a parameter of a command of `Annotated[TYPE, option(...)]` and its default."""
    kind, flag = annotation, Flag(())
    if get_origin(annotation) is Annotated:
        kind, flag = get_args(annotation)
    if type(None) in get_args(kind):
        [kind] = {*get_args(kind)} - {type(None)}
    is_list = get_origin(kind) is list
    [kind] = get_args(kind) if is_list else [kind]
    kwargs: dict[str, Any] = {"required": default is Parameter.empty, "type": _Type(kind, flag)}
    if default is not Parameter.empty and not is_list:
        kwargs["default"] = default
    check = flag.callback or (lambda value: value)
    if is_list or flag.callback:
        kwargs["callback"] = lambda _, __, value: check((list(value) or None) if is_list else value)
    if not flag.names:
        type_name = f"list[{kind.__name__}]" if is_list else kwargs["type"].name
        return _Argument(name, flag, type_name, nargs=-1 if is_list else 1, **kwargs)
    if kind is bool:
        del kwargs["type"]
    return click.Option(
        [name, *flag.names],
        help=flag.help,
        show_default=default != "" and flag.show_default,
        is_flag=True if kind is bool else None,
        multiple=is_list,
        metavar=flag.metavar or (None if kind is bool else f"<{kwargs['type'].name}>"),
        **kwargs,
    )


def group(make: Callable[..., Any], names: str = "") -> ParameterGroup:
    hints, parameters = get_type_hints(make, include_extras=True), signature(make).parameters
    selection = names.split() or parameters
    return ParameterGroup(
        tuple(parameter(n, hints[n], parameters[n].default) for n in selection), make
    )


def refuse_unused(names: Collection[str | None], case: str, remedy: str = "Leave it out.") -> None:
    """Refuse options of the command that were typed and have no effect (SpecError)."""
    for flag in typed_values(names):
        raise SpecError(f"{flag} has no effect {case}.", remedy=remedy)


def refuse_together(flag: str, reason: str, values: Mapping[str, object]) -> None:
    """Refuse the first of these flags that has a value beside another flag (SpecError)."""
    for other in (name for name, value in values.items() if value):
        raise SpecError(
            f"{other} does not go with {flag}, which {reason}.", remedy="Leave one of them out."
        )


def typed_values(names: Collection[str | None]) -> dict[str, str]:
    """Return those of these options that were typed, with their values; empty for a switch."""
    context = click.get_current_context()
    return {
        option.opts[0]: "" if (value := context.params[option.name or ""]) is True else str(value)
        for option in context.command.params
        if option.name in names
        and context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
    }


class Command(click.Command):
    """A command, whose help describes arguments, too."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, kind in (("Arguments", click.Argument), ("Options", click.Option)):
            records = [p.get_help_record(ctx) for p in self.get_params(ctx) if isinstance(p, kind)]
            if records:
                with formatter.section(title):
                    formatter.write_dl([record for record in records if record])


def call(command: click.Command, name: str, words: Sequence[str]) -> int:
    """Call a command with the words of a command line, and return its exit status."""
    try:
        with command.make_context(name, list(words)) as context:
            command.invoke(context)
    except Exit as end:
        return end.exit_code
    return 0


class CommandGroup(click.Group):
    """Commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click has it
        return list(self.commands)


def make_command(
    name: str,
    function: Callable[..., object],
    help_: str | None = None,
    parts: Mapping[str, ParameterGroup | click.Parameter] | None = None,
    kind: type[Command] = Command,
    **settings: Any,  # noqa: ANN401 - as click has them
) -> Command:
    """Make a command of a function; without `parts`, its annotations declare the parameters."""
    if parts is None:
        hints = get_type_hints(function, include_extras=True)
        parts = {
            name: next((x for x in get_args(hints[name]) if isinstance(x, ParameterGroup)), None)
            or parameter(name, hints[name], declaration.default)
            for name, declaration in signature(function).parameters.items()
        }
    flags = parts
    flat = [
        p
        for part in flags.values()
        for p in (part.parameters if isinstance(part, ParameterGroup) else [part])
    ]

    def callback(**values: Any) -> object:  # noqa: ANN401 - each flag has its own type
        arguments: dict[str, Any] = {}
        for key, part in flags.items():
            if isinstance(part, ParameterGroup):
                arguments[key] = part.make(
                    **{p.name or "": values[p.name or ""] for p in part.parameters}
                )
            else:
                arguments[key] = values[part.name or ""]
        return function(**arguments)

    return kind(name, params=flat, callback=callback, help=help_ or getdoc(function), **settings)


DEFAULT_PROVIDER = SpecOptions().provider  # of every command; launchers name their own


def providers() -> list[str]:
    """List the providers, without importing them."""
    return list(plugins.names(ProviderPlugin))


def _clusters() -> list[str]:
    return list(journal.names())


def _seconds(text: str) -> float:
    return float(text) if text.isdigit() else parse_seconds(text)


def _zero_or_one(value: str) -> int:
    if value not in ("0", "1"):
        raise click.BadParameter(f"{value!r} is not 0 or 1.")
    return int(value)


Name = Annotated[str, option("--name", "Name of the cluster.", autocompletion=_clusters)]
RunLocal = Annotated[bool, option("--run-local", "Use this machine: --provider local.")]
PlanOnly = Annotated[bool, option("--plan", "Show what would be created.")]


def _regions(regions: list[str] | None) -> list[str] | None:
    """Refuse a region that no provider has: nothing would be searched there."""
    kinds = [plugins.find(ProviderPlugin, kind) for kind in providers()] if regions else []
    for region in regions or ():
        if not any(issubclass(kind, Regional) and kind.has_region(region) for kind in kinds):
            raise SpecError(
                f"No provider has a region like {region!r}.",
                remedy="Amazon: --region us-east-1; Google: --region projects/PROJECT; "
                "Slurm: --region login:USER@HOST, or --region 'this machine'.",
            )
    return regions


Regions = Annotated[
    list[str] | None,
    option(
        "--region REGION",
        "Also look there; repeatable: us-east-1, projects/PROJECT, login:USER@HOST.",
        callback=_regions,
    ),
]
Keep = Annotated[
    bool | None,
    option("--keep/--no-keep", "Leave it running.  [default: if it costs nothing, or ran before]"),
]
Detach = Annotated[bool, option("--detach", "Return when it runs.")]
Timeout = Annotated[float, option("--timeout S", "Seconds that the job may take.")]
Runs = Annotated[
    str | None, option("--runs DIR", "Folder of all runs.  [default: CLUSTER_RUNS or runs]")
]
Json = Annotated[bool, option("--json", "Print JSON and nothing else on stdout.")]
Ab = Annotated[str | None, option("--ab KEY=V1,V2", "Compare parameters, mca:X or env:X, in turn.")]
Launches = Annotated[
    int | None,
    option(
        "--launches N",
        "Repeat from the start; with --ab, of each value.  [default: 1; --ab 5; p2p here 3]",
    ),
]
Replace = Annotated[
    bool,
    option("--replace", "End a job that runs there; rebuild a cluster whose hosts do not answer."),
]
Busy = Annotated[bool, option("--busy", "Measure beside jobs that run there.")]
Yes = Annotated[bool, option("--yes -y", "Do not ask before it costs money, or downloads 100 MB.")]
Lottery = Annotated[
    int | None,
    option(
        "--lottery K",
        "Launch the machines K times, measure and end them: what is a lucky draw worth?",
    ),
]
Mca = Annotated[list[str] | None, option("--mca NAME=VALUE", "Parameter of Open MPI; repeatable.")]
Env = Annotated[
    list[str] | None, option("--env NAME=VALUE", "Variable for every rank; repeatable.")
]
Profile = Annotated[
    str | None,
    option(
        "--profile [=PATH]",
        "Count and time the ranks' calls of MPI; with the libmpitrace at PATH, if given.",
    ),
]
Order = Annotated[
    Literal["given", "near"],
    option(
        "--order given|near",
        "near: neighbouring ranks on near hosts, as cluster check --near found them.",
    ),
]
Starter = Annotated[
    str,
    option(
        "--starter NAME",
        "What starts the ranks: mpirun, srun[:PMI], torchrun, aprun."
        "  [default: what fits the hosts]",
        autocompletion=lambda: list(plugins.names(StarterPlugin)),
    ),
]
Describe = Annotated[str, option("--describe TEXT", "What the run is for.")]
Expect = Annotated[str, option("--expect VALUE", "Expected result: 220, 1.1GB/s, 12us.")]
Run = Annotated[str, argument("RUN", "Folder, id, cluster or latest.")]
Threshold = Annotated[float, option("--threshold PERCENT", "Differences below it count as equal.")]
RunList = Annotated[
    list[str] | None, argument("RUN", "Folders, ids, clusters or latest.  [default: latest]")
]
LATEST = "latest"
FORMATS = ("terminal", "markdown", "csv", "json", "html")
Format = Annotated[
    str,
    option("--format", "terminal, markdown, csv, json or html.", autocompletion=lambda: FORMATS),
]
JobName = Annotated[str, argument("JOB", "Name of a job.")]
AnyJob = Annotated[str, argument("JOB", "Name of a job.  [default: the newest]")]
ClusterName = Annotated[str, argument("NAME", "Name of the cluster.", autocompletion=_clusters)]
SomeCluster = Annotated[str, argument("NAME", "A cluster.", autocompletion=_clusters)]

LogFormat = Annotated[
    str,
    option(
        "--log-format NAME",
        "Format of the logs.  [default: recognised]",
        autocompletion=lambda: list(plugins.names(Parser)),
    ),
]
RunName = Annotated[str, option("--name", "Name under which the run is kept.")]


SPELLINGS: dict[str, tuple[Any, Flag]] = {  # of fields whose flags are not as derived
    "provider": (
        str | None,
        option(
            "--provider NAME",
            f" {', '.join(providers())}.",
            show_default=False,
            usual="local, or the running cluster's",
            autocompletion=providers,
        ),
    ),
    "hosts": (int | None, option("--hosts N", usual="2, or all named", show_default=False)),
    "ranks_per_host": (int, option("--ranks-per-host N")),
    "placement": (int, option("--placement [0|1]", " Bare: 1.", parser=_zero_or_one)),
    "accelerator": (str | None, option("--accelerator KIND:N")),
    "max_cost": (float | None, option("--max-cost DOLLARS")),
    "ttl": (float | None, option("--ttl SPAN", " Or 90min, 2h.", parser=_seconds)),
    "idle": (float | None, option("--idle SPAN", " Or 30min.", parser=_seconds)),
    "options": (list[str] | None, option("--option KEY=VALUE", " Repeatable.")),
    "groups": (
        list[str] | None,
        option("--group NAME=N[:TYPE]", " Instead of --hosts; repeatable."),
    ),
}


def _spec_flags() -> Iterator[click.Parameter]:
    for field in msgspec.structs.fields(SpecOptions):
        usual = field.type, option(f"--{field.name.replace('_', '-')}")
        kind, flag = SPELLINGS.get(field.name, usual)
        new_flag = flag._replace(help=_spec_help(field.name, flag.usual))
        default = None if type(None) in get_args(kind) else field.default
        default = int(field.default) if kind is int else default
        yield parameter(field.name, Annotated[kind, new_flag], default)


HELP = help_of(SpecOptions)


def _spec_help(name: str, usual: object) -> str:
    text = HELP[name] + (SPELLINGS[name][1].help if name in SPELLINGS else "")
    return f"{text}  [default: {usual}]" if usual else text


SPEC: dict[str, click.Parameter] = {flag.name or "": flag for flag in _spec_flags()}
MACHINES = tuple(
    flag
    for name, flag in SPEC.items()
    if name not in ("provider", "hosts", "ranks_per_host", "groups")
)
Machines = Annotated[dict[str, Any], ParameterGroup(tuple(SPEC.values()))]


def with_default(name: str, default: object, *, words: str = "") -> click.Parameter:
    """Return the flag of a field of `SpecOptions` with another default, in its help as `words`."""
    flag = copy(SPEC[name])
    flag.default = default
    if isinstance(flag, click.Option):
        flag.help = _spec_help(name, words or default)
    return flag


def hidden(*parameters: click.Parameter) -> ParameterGroup:
    copies = [copy(parameter) for parameter in parameters]
    for option_ in copies:
        option_.hidden = True  # type: ignore[attr-defined]
    return ParameterGroup(tuple(copies))


def choose_provider(
    provider: str | None, *, run_local: bool, default: str = DEFAULT_PROVIDER
) -> str:
    """Choose the provider (SpecError: the two flags contradict each other)."""
    if run_local and provider not in (None, "local"):
        raise SpecError(
            f"--run-local means --provider local, but --provider is {provider}.",
            remedy="Leave one of the two out.",
        )
    return "local" if run_local else provider or default


def like_running(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in flags from the running cluster of this name, or the default provider."""
    from cluster.orchestration.cluster import attach  # noqa: PLC0415 - most commands read files

    state = attach(name).state if journal.exists(name) else None
    if state is None or not state.launched:
        return {**values, "provider": DEFAULT_PROVIDER}
    running = msgspec.structs.asdict(state.spec)
    running["options"] = [f"{key}={value}" for key, value in state.spec.options.items()]
    defaults = {field.name: field.default for field in msgspec.structs.fields(SpecOptions)}
    fields = {k: running[k] for k, default in defaults.items() if values.get(k) in (None, default)}
    if values.get("groups"):  # they say how many hosts there are
        del fields["hosts"]
    return {**values, **fields, "provider": state.spec.provider}


def spec(
    *,
    name: str,
    options: list[str] | None = None,
    groups: Sequence[str] | Mapping[str, Group] | None = None,
    **flags: object,
) -> ClusterSpec:
    """Make a spec of the flags that `SPEC` declares (SpecError: one is wrong)."""
    from cluster.orchestration.launch.launch import make_spec  # noqa: PLC0415 - most commands read files

    settings = dict(pair("option", text) for text in options or ())
    by_name = groups if isinstance(groups, Mapping) else dict(map(parse_group, groups or ()))
    return make_spec(name, {**flags, "options": settings, "groups": by_name or None})


def pair(flag: str, text: str) -> tuple[str, str]:
    """Read what a flag gives as KEY=VALUE (SpecError)."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise SpecError(f"--{flag} {text!r} is not KEY=VALUE.")
    return key, value


def param_flags(params: type[Value]) -> tuple[click.Parameter, ...]:
    """Make a flag for each field of a benchmark's parameters, with the help under its `Args:`."""
    help_ = help_of(params)
    fields = sorted(
        msgspec.structs.fields(params), key=lambda field: field.name not in params.__annotations__
    )
    return tuple(_param_flag(field, help_.get(field.name, "")) for field in fields)


def _param_flag(field: msgspec.structs.FieldInfo, text: str) -> click.Parameter:
    kind, default, default_text = _flag_type(field.type, field.default)
    words: dict[Any, str | None] = {bool: None, int: "N", int | None: "N", float: "X", str: "TEXT"}
    choices = get_args(field.type) if get_origin(field.type) is Literal else ()
    flag = Flag(
        (f"--{field.name.replace('_', '-')}",),
        help=text,
        metavar="WORD" if choices else words.get(field.type, "LIST"),
        show_default=default_text,
        autocompletion=lambda: choices,
    )
    return parameter(field.name, Annotated[kind, flag], default)


def _flag_type(kind: Any, default: Any) -> tuple[Any, object, str | bool]:  # noqa: ANN401
    """Choose a type that is checked here; other values are text, which the benchmark checks."""
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
    parts = default if isinstance(default, tuple) else (default,)
    ends = f"{_size_text(parts[0])}:{_size_text(parts[-1])}" if kind is Sizes else ""
    return str | None, None, ends or ",".join(map(str, parts))


def _size_text(size: int) -> str:
    return format_size(size).removesuffix(" B").replace(" ", "")
