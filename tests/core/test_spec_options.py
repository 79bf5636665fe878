"""An option of a cluster is declared once, and everything that takes or shows it follows."""

import inspect
from typing import Any

import click
import msgspec
import pytest

import cluster
from cluster.cli import flags
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec, Group, SpecOptions
from cluster.core.text.options import help_of
from cluster.orchestration.launch.launch import make_spec, plan_spec
from tests.snapshots import Snapshot

FIELDS = msgspec.structs.fields(SpecOptions)
SOMETHING: dict[str, Any] = {
    "provider": "lab",
    "hosts": 3,
    "ranks_per_host": 2,
    "placement": True,
    "instance": "c5.large",
    "zone": "us-east-1a",
    "image": "ami-1",
    "spot": True,
    "accelerator": "t4:1",
    "ttl": 7200.0,
    "max_cost": 20.0,
    "idle": 1800.0,
    "options": {"rate": "1gbit"},
    "groups": {"ps": Group(hosts=1), "worker": Group(hosts=2, instance="c5.large")},
}


def test_launch_takes_every_option_with_its_default() -> None:
    parameters = inspect.signature(cluster.launch).parameters
    fields = inspect.signature(SpecOptions).parameters

    defaults = {
        "hosts": None,
        "options": None,
        "groups": None,
    }  # the provider's default; a dictionary would be shared

    assert list(parameters) == [
        "name",
        *(field.name for field in FIELDS),
        "setup",
        "prove",
        "keep",
        "replace",
    ]
    assert {
        n: p.default
        for n, p in parameters.items()
        if n not in ("name", "setup", "prove", "keep", "replace")
    } == {n: p.default for n, p in fields.items()} | defaults
    assert cluster.launch.__doc__ is not None
    assert all(f"{n}: {text}" in cluster.launch.__doc__ for n, text in help_of(SpecOptions).items()
               if n != "hosts")  # fmt: skip


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_option_is_a_flag_with_the_help_of_its_field(field: Any) -> None:
    option = flags.SPEC[field.name]

    assert isinstance(option, click.Option)
    spelled = {"options": "option", "groups": "group"}.get(field.name, field.name)
    assert option.opts == ["--" + spelled.replace("_", "-")]
    assert (option.help or "").startswith(help_of(SpecOptions)[field.name])
    assert len(help_of(SpecOptions)[field.name]) > 10


def test_every_option_arrives_in_the_spec_from_python_and_from_the_command_line() -> None:
    assert set(SOMETHING) == {field.name for field in FIELDS}
    spec = ClusterSpec(name="mine", **SOMETHING)

    assert make_spec("mine", SOMETHING) == spec
    typed = {"options": ["rate=1gbit"], "groups": ["ps=1", "worker=2:c5.large"]}
    assert flags.spec(name="mine", **{**SOMETHING, **typed}) == spec


def test_hosts_are_as_many_as_the_provider_thinks_best() -> None:
    assert make_spec("mine", {}).hosts == 2
    options = {"hosts": "h1,h2,h3"}
    assert make_spec("mine", {"provider": "ssh", "options": options, "hosts": None}).hosts == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hosts": "many"}, "hosts='many' is not a valid option of launch."),
        ({"placement": 3}, "placement=3 is not a valid option of launch."),
        ({"hosts": 0}, "hosts is 0; it must be between 1 and "),
        ({"provider": "moon"}, "There is no provider 'moon'."),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError) as error:
        cluster.launch("mine", **options)
    assert str(error.value).startswith(message)
    with pytest.raises(TypeError, match="'host'"):
        cluster.launch("mine", host=2)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("provider", "remedy"),
    [
        ("local", "Leave --idle out"),
        ("ssh", "Leave --idle out"),
        ("slurm", "--ttl"),
        ("gcp", "--ttl"),
    ],
)
def test_hosts_that_cannot_end_by_themselves_are_no_idle_ones(
    snapshot: Snapshot, provider: str, remedy: str
) -> None:
    with snapshot.raises(SpecError) as error:
        plan_spec(ClusterSpec(name="a", provider=provider, idle=600.0))

    assert remedy in f"{error.value.what} {error.value.remedy}"
