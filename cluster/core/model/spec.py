"""What was asked for: the spec of a cluster and its environment, and their checks."""

from __future__ import annotations

import re
from typing import Literal

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")
MOST_RANKS = 100_000
SHORTEST_TTL, LONGEST_TTL = 60.0, 30 * 24 * 3600.0  # seconds


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
        image: What the machines start from.
        spot: Spare machines: cheaper, but the cloud may end them.
        accelerator: Accelerators of each machine, such as t4:1.
        ttl: Seconds after which the machines end.
        max_cost: Dollars that the machines may cost, after which they end.
        options: Options of the provider.
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
    options: dict[str, str] = {}


class ClusterSpec(SpecOptions, frozen=True, kw_only=True):
    """What was asked for: a cluster's name, and its options.

    Args:
        name: Of the cluster: a letter or digit, then at most 29 of letters, digits, `_`, `-`.

    Raises:
        SpecError: a field is out of its range.
    """

    name: str

    def __post_init__(self) -> None:
        """Refuse what no provider could honour."""
        check_name(self.name)
        check_count("hosts", self.hosts)
        check_count("ranks_per_host", self.ranks_per_host)
        if self.ttl is not None and not SHORTEST_TTL <= self.ttl <= LONGEST_TTL:
            raise SpecError(
                f"--ttl is {self.ttl:g} s; it must be between a minute and 30 days.",
                remedy="Set how long the machines may live: --ttl 2h",
            )


def check_name(name: str) -> str:
    """Return a cluster's name if no shell, tmux or cloud can mistake it for something else.

    SpecError: it is not of the form `[A-Za-z0-9][A-Za-z0-9_-]{0,29}`.
    """
    if NAME.fullmatch(name) is None:
        raise SpecError(
            f"{name!r} cannot be the name of a cluster.",
            means="A name is a letter or digit, then at most 29 letters, digits, '_' or '-'.",
            remedy="Choose another: --name mpi_test",
        )
    return name


def check_count(field: str, count: int) -> int:
    """Return a count, for a flag, if it is between 1 and 100000 (SpecError)."""
    if not 1 <= count <= MOST_RANKS:
        flag = field.replace("_", "-")
        raise SpecError(f"--{flag} is {count}; it must be between 1 and {MOST_RANKS}.")
    return count


class Environment(Value, frozen=True, kw_only=True):
    """What a host needs before anything can be measured on it."""

    # where Python libraries come from: the host's own package `index`, or this machine, the
    # `controller`, which downloads them once; `auto` is the latter, else the former
    source: Literal["auto", "index", "controller"] = "auto"
    # prefix of a prepared MPI on the hosts, such as `/opt/amazon/openmpi`; if it is empty, Open MPI
    # is installed with the libraries
    mpi: str = ""
    image: str = ""  # of a container that the ranks run in; none, if it is empty
    # on the hosts, whose packages the ranks see beside their own; any, if it is empty
    python: str = ""
    # that it needs besides Python; each is named like its package
    programs: tuple[str, ...] = ("tmux",)
    libraries: tuple[str, ...] = ()  # Python libraries of a benchmark, such as `torch==2.13.0+cpu`


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
