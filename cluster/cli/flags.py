"""Every flag that more than one command or launcher takes, declared once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Annotated, Any

import typer

from cluster.core import journal, plugins
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.units import parse_seconds
from cluster.orchestration.launch import default_hosts
from cluster.providers import Provider as ProviderPlugin

DEFAULT_PROVIDER = "local"  # of every command; launchers name their own


def _providers() -> list[str]:
    return list(plugins.names(ProviderPlugin))


def _clusters() -> list[str]:
    return list(journal.names())


def _zero_or_one(value: str | int) -> int:  # a default comes here too, as it is
    if str(value) not in ("0", "1"):
        raise typer.BadParameter(f"{value!r} is not 0 or 1.")
    return int(value)


def _span(value: str | float) -> float:
    return parse_seconds(value) if isinstance(value, str) else value


Name = Annotated[str, typer.Option("--name", help="Name of the cluster.", autocompletion=_clusters)]
Provider = Annotated[
    str | None,
    typer.Option("--provider", help="Where the machines come from.", autocompletion=_providers),
]
RunLocal = Annotated[
    bool,
    typer.Option("--run-local", help="Use this machine: --provider local."),
]
Instance = Annotated[str | None, typer.Option("--instance", help="The provider's machine type.")]
Zone = Annotated[str | None, typer.Option("--zone", help="The provider's zone.")]
Image = Annotated[
    str | None,
    typer.Option("--image", help="What the machines start from."),
]
Accelerator = Annotated[
    str | None,
    typer.Option(
        "--accelerator", metavar="KIND:N", help="Accelerators of each machine, such as t4:1."
    ),
]
Spot = Annotated[bool, typer.Option("--spot", help="Spare machines, which are cheaper.")]
Ttl = Annotated[
    float | None,
    typer.Option(
        "--ttl",
        metavar="SPAN",
        parser=_span,
        help="Machines end after that: 90min, 2h.",
    ),
]
PlanOnly = Annotated[bool, typer.Option("--plan", help="Show what would be made.")]
Regions = Annotated[
    list[str] | None,
    typer.Option("--region", metavar="REGION", help="Look there, too; repeatable."),
]
Placement = Annotated[
    int,
    typer.Option(
        "--placement",
        parser=_zero_or_one,
        metavar="[0|1]",
        help="Machines close together; bare means 1.",
    ),
]
Hosts = Annotated[
    int | None,
    typer.Option("--hosts", metavar="N", help="How many machines.  [default: 2, or all named]"),
]
RanksPerHost = Annotated[
    int, typer.Option("--ranks-per-host", metavar="N", help="MPI processes on each.")
]
Option = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the provider; repeatable."),
]
Keep = Annotated[
    bool | None,
    typer.Option(
        "--keep/--no-keep",
        help="Leave it up.  [default: if it costs nothing]",
        show_default=False,
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Return once it runs.")]
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
Launches = Annotated[int, typer.Option("--launches", metavar="N", help="Of each value, with --ab.")]
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
        help="Count and time the ranks' calls of MPI; by the libmpitrace at PATH, if it is given.",
        show_default=False,
    ),
]
Describe = Annotated[
    str, typer.Option("--describe", metavar="TEXT", help="For the record: what it is for.")
]
Expect = Annotated[
    str,
    typer.Option("--expect", metavar="VALUE", help="What it should come to: 220, 1.1GB/s, 12us."),
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="Folder, id, cluster or latest.")]
Threshold = Annotated[
    float,
    typer.Option("--threshold", metavar="PERCENT", help="A smaller difference does not matter."),
]
TableFormat = Annotated[str, typer.Option("--format", help="terminal or markdown.")]
ClusterName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the cluster.", autocompletion=_clusters)
]

Declared = dict[str, tuple[Any, object]]
"""Flags of a command: by the name of its parameter, what declares it, and its default."""

MACHINES: Declared = {
    "placement": (Placement, 0),
    "instance": (Instance, None),
    "zone": (Zone, None),
    "image": (Image, None),
    "spot": (Spot, False),
    "accelerator": (Accelerator, None),
    "ttl": (Ttl, None),
    "option": (Option, None),
}


def parameters(flags: Declared) -> list[Parameter]:
    """Give flags as the parameters of a function.

    Args:
        flags: to give.

    Returns:
        A parameter each, by keyword only.

    """
    return [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in flags.items()
    ]


def with_flags(command: Callable[..., None], flags: Sequence[Parameter]) -> Callable[..., None]:
    """Let a function that takes any keyword be a command with these flags.

    Args:
        command: the function.
        flags: of it.

    Returns:
        The same function.

    """
    command.__signature__ = Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return command


def choose_provider(provider: str | None, *, run_local: bool, default: str) -> str:
    """Choose the provider.

    Args:
        provider: --provider
        run_local: --run-local
        default: if neither is given.

    Returns:
        Its name.

    Raises:
        SpecError: the two flags contradict each other.

    """
    if run_local and provider not in (None, "local"):
        raise SpecError(
            f"--run-local means --provider local, but --provider is {provider}.",
            remedy="Leave one of the two out.",
        )
    return "local" if run_local else provider or default


def spec(  # noqa: PLR0913 - one parameter per flag
    *,
    name: str,
    provider: str,
    hosts: int | None = None,
    ranks_per_host: int = 1,
    placement: int = 0,
    instance: str | None = None,
    zone: str | None = None,
    image: str | None = None,
    spot: bool = False,
    accelerator: str | None = None,
    ttl: float | None = None,
    option: list[str] | None = None,
) -> ClusterSpec:
    """Make a spec of the flags.

    Args:
        name: --name
        provider: --provider
        hosts: --hosts
        ranks_per_host: --ranks-per-host
        placement: --placement
        instance: --instance
        zone: --zone
        image: --image
        spot: --spot
        accelerator: --accelerator
        ttl: --ttl, in seconds
        option: every --option

    Returns:
        The spec.

    Raises:
        SpecError: a flag is wrong.

    """
    options = dict(pair("option", text) for text in option or ())
    return ClusterSpec(
        name=name,
        provider=provider,
        hosts=default_hosts(provider, options) if hosts is None else hosts,
        ranks_per_host=ranks_per_host,
        placement=bool(placement),
        instance=instance,
        zone=zone,
        image=image,
        spot=spot,
        accelerator=accelerator,
        ttl=ttl,
        options=options,
    )


def pair(flag: str, text: str) -> tuple[str, str]:
    """Read what a flag gives as KEY=VALUE.

    Args:
        flag: its name.
        text: that was given.

    Returns:
        The key and the value.

    Raises:
        SpecError: it is not of that form.

    """
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise SpecError(f"--{flag} {text!r} is not KEY=VALUE.")
    return key, value
