"""The spec of a cluster and of its environment, and their checks."""

import re
from typing import Literal

from msgspec.structs import replace

from cluster.core.errors import SpecError
from cluster.core.model.hosts import ONE_GROUP
from cluster.core.model.value import Value

GROUP = re.compile(r"[a-z][a-z0-9_]{0,19}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")
MOST_RANKS = 100_000
SHORTEST_TTL, LONGEST_TTL = 60.0, 30 * 24 * 3600.0  # seconds
SHORTEST_IDLE = 60.0  # seconds


class Group(Value, frozen=True, kw_only=True):
    """Hosts of a cluster that have a type of their own; a field that is None is the cluster's."""

    hosts: int = 1
    instance: str | None = None
    accelerator: str | None = None
    image: str | None = None
    placement: bool | None = None  # in a placement group of its own
    spot: bool | None = None


def group_words(name: str, group: Group) -> str:
    """Write a group as `--group` takes it, followed by what `--group` cannot express."""
    fields = {key: value for key in group.__struct_fields__ if (value := getattr(group, key))}
    kind = f":{group.instance}" if group.instance else ""
    more = "".join(f",{k}={v}" for k, v in fields.items() if k not in ("hosts", "instance"))
    return f"{name}={group.hosts}{kind}{more}"


def parse_group(text: str) -> tuple[str, Group]:
    """Read `NAME=HOSTS[:INSTANCE]` (SpecError)."""
    name, _, rest = text.partition("=")
    hosts, _, instance = rest.partition(":")
    if not hosts.isdecimal():
        raise SpecError(
            f"--group {text!r} is not NAME=HOSTS or NAME=HOSTS:INSTANCE.",
            remedy="Such as: --group worker=4:g5.12xlarge --group ps=2:c5.xlarge",
        )
    return name, Group(hosts=int(hosts), instance=instance or None)


class SpecOptions(Value, frozen=True, kw_only=True):
    """All of a spec but the cluster's name: the options of `launch`, and the flags of `cluster up`.

    An option is declared here and nowhere else: field, type, default, and in this list its help.

    Args:
        provider: Where the machines come from.
        hosts: How many machines.
        ranks_per_host: MPI processes on each.
        placement: In a placement group.
        instance: The provider's machine type.
        zone: The provider's zone.
        image: Machine image.
        spot: Spot instances: cheaper, but the cloud may end them.
        accelerator: Accelerators of each machine, such as t4:1.
        ttl: Seconds after which the machines end.
        max_cost: Dollars that the machines may cost, after which they end.
        idle: Seconds without a job, SSH session or attached tmux, after which the machines end.
        options: Options of the provider.
        groups: Hosts of several types, each with a name.
    """

    provider: str = "local"
    hosts: int = 2
    ranks_per_host: int = 1
    placement: bool = False
    instance: str | None = None
    zone: str | None = None
    image: str | None = None
    spot: bool = False
    accelerator: str | None = None
    ttl: float | None = None
    max_cost: float | None = None
    idle: float | None = None
    options: dict[str, str] = {}
    groups: dict[str, Group] = {}


class ClusterSpec(SpecOptions, frozen=True, kw_only=True):
    """The spec of a cluster: its name and its options.

    Args:
        name: A letter or digit, then at most 29 of letters, digits, `_`, `-`.

    Raises:
        SpecError: a field is out of its range.
    """

    name: str

    def __post_init__(self) -> None:
        check_name(self.name)
        check_count("hosts", self.hosts)
        check_count("ranks_per_host", self.ranks_per_host)
        if self.ttl is not None and not SHORTEST_TTL <= self.ttl <= LONGEST_TTL:
            raise SpecError(
                f"--ttl is {self.ttl:g} s; it must be between a minute and 30 days.",
                remedy="Set how long the machines may live: --ttl 2h",
            )
        if self.idle is not None and not SHORTEST_IDLE <= self.idle <= LONGEST_TTL:
            raise SpecError(
                f"--idle is {self.idle:g} s; it must be between a minute and 30 days.",
                remedy="Set how long the machines may be unused: --idle 30min",
            )
        for name, group in self.groups.items():
            if GROUP.fullmatch(name) is None:  # it could be taken for numbers of hosts
                raise SpecError(
                    f"{name!r} cannot be the name of a group.",
                    means="A name is a small letter, then at most 19 small letters, digits or '_'.",
                    remedy="Choose another, such as worker.",
                )
            check_count("hosts", group.hosts)
        total = sum(group.hosts for group in self.groups.values())
        if self.groups and total != self.hosts:
            raise SpecError(
                f"--hosts is {self.hosts}, but the groups have {total}.",
                remedy="Leave --hosts out: the groups say how many there are.",
            )

    @property
    def parts(self) -> tuple["SpecPart", ...]:
        """Its groups; a cluster without groups is one part."""
        if not self.groups:
            return (SpecPart(group=ONE_GROUP, number=0, first=0, spec=self),)
        parts: list[SpecPart] = []
        for name, group in self.groups.items():
            fields = {field: getattr(group, field) for field in group.__struct_fields__}
            values = {field: value for field, value in fields.items() if value is not None}
            first = sum(part.spec.hosts for part in parts)
            # what all of them may cost is not what one may
            spec = replace(self, groups={}, max_cost=None, **values)
            parts.append(SpecPart(group=name, number=len(parts), first=first, spec=spec))
        return tuple(parts)

    def machine_name(self, number: int) -> str:
        """Name a machine by its number in the cluster, from 0, and by its group."""
        group = next(part.group for part in reversed(self.parts) if part.first <= number)
        return machine_name(self.name, number, group)


def machine_name(cluster: str, number: int, group: str = ONE_GROUP) -> str:
    """Return the name of a machine, counted from 0, such as `0.mpi.mpi_test`."""
    return f"{number}.{group}.{cluster}"


class SpecPart(Value, frozen=True, kw_only=True):
    """The hosts of a group."""

    group: str  # its name
    number: int  # of the group in its cluster, from 0
    first: int  # the number of its first host in the cluster
    spec: ClusterSpec  # of these hosts alone


def check_name(name: str) -> str:
    """Return a cluster's name if no shell, tmux or cloud can mistake it (SpecError)."""
    if NAME.fullmatch(name) is None:
        raise SpecError(
            f"{name!r} cannot be the name of a cluster.",
            means="A name is a letter or digit, then at most 29 letters, digits, '_' or '-'.",
            remedy="Choose another: mpi_test",
        )
    return name


def check_count(field: str, count: int) -> int:
    """Return a count, for a flag, if it is between 1 and 100000 (SpecError)."""
    if not 1 <= count <= MOST_RANKS:
        flag = field.replace("_", "-")
        raise SpecError(f"--{flag} is {count}; it must be between 1 and {MOST_RANKS}.")
    return count


class EnvironmentOptions(Value, frozen=True, kw_only=True):
    """What is installed on machines.

    Args:
        source: source of the packages: `index` (the hosts' own package index), `controller` (wheels
            from this machine), or `auto`: this machine first, then the index.
        mpi: prefix of a prepared MPI on the hosts, such as /opt/amazon/openmpi.
        image: container image for the ranks, run by docker or podman.
        python: Python on the hosts whose packages the ranks use too, such as
            /opt/pytorch/bin/python3.
    """

    source: Literal["auto", "index", "controller"] = "auto"
    mpi: str = ""
    image: str = ""
    python: str = ""


class Environment(EnvironmentOptions, frozen=True, kw_only=True):
    """What a host needs before anything can be measured on it."""

    # that it needs besides Python; each is named like its package
    programs: tuple[str, ...] = ("tmux",)
    libraries: tuple[str, ...] = ()  # Python libraries of a benchmark, such as `torch==2.13.0+cpu`
    remedy: str = ""  # for what is missing, where nobody can install it
    large: bool = True  # they are installed even if more than 100 MB are downloaded for them
