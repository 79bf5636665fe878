"""What is recorded of a job and of a run."""

from __future__ import annotations

from functools import partial
from typing import Literal

import msgspec

from cluster.core.model.hardware import Hardware
from cluster.core.model.hosts import SIMULATED, Facts, Machine
from cluster.core.model.measurements import Definition, Planned
from cluster.core.model.resources import Receipt
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

Status = Literal["planned", "running", "done", "failed", "interrupted"]

NOTES_FILE = "notes"  # the file in a job's folder with the notes of rank 0, one per line


class ExpectedResult(Value, frozen=True, kw_only=True):
    """The result that the user expected of a run."""

    value: float  # in `unit`
    unit: str = ""  # `s`, `B/s` or any other; empty means the unit of the result


class Condition(Value, frozen=True, kw_only=True):
    """What distinguishes a run, besides its benchmark's parameters."""

    name: str = ""  # to compare by; empty if the run is not part of an experiment
    variables: dict[str, str] = {}  # for the environment of every rank
    description: str = ""  # of the run, by who started it
    expected: ExpectedResult | None = None  # the result that the user expects, if given
    launch_of: str = ""  # what all launches of one command share; empty for a single launch


class JobRecord(Value, frozen=True, kw_only=True):
    """A job that was started, as another process needs to find it again."""

    session: str  # the name of its tmux session
    folder: str  # on the host, where its files are
    run: str  # the folder of its run, on this machine
    benchmark: str  # that it runs
    at: float  # when it was started
    workdir: bool = False  # whether its ranks run in a copy of a folder of this machine


class Record(Value, frozen=True, kw_only=True):
    """What `run.json` holds.

    Args:
        version: Version of this format.
        id: Name of the run's folder.
        benchmark: Benchmark that was run.
        status: How far the run got.
        at: When it was started, in seconds since the epoch.
        spec: The cluster asked for.
        machines: Machines that it ran on, in the order of the ranks.
        params: Parameters of the benchmark, as JSON.
        command: Command line that started the ranks.
        argv: Command line of the process that started the run.
        definitions: Definitions of the metrics, by their ids.
        environment: Facts of each host.
        notes: What a reader of the numbers must know.
        phases: Seconds spent in each phase.
        receipt: What the machines cost, if they cost anything.
        exit_status: Exit status of the job, once it ended.
        reason: Why it is not `done`.
        software: Version of `cluster`.
        revision: Revision of its sources, which changes when any of them does.
        variables: Environment variables that the user set for every rank.
        condition: of an experiment with several, such as `mca:btl_tcp_links=4`; empty if it was
            none.
        description: Description by the user who started it.
        expected: The result that the user expects, if given.
        planned: Every series that it should measure, if the benchmark lists them.
        hardware: Hardware of the hosts that an imported log was written on, if known.
        launch_of: What all launches of one command share; empty for a single launch.
        order: Numbers that the machines have in their cluster, if the ranks were handed out along a
            placement (`--order near`); `machines` and `environment` are in this order, too.
    """

    version: int = 1
    id: str
    benchmark: str
    status: Status
    at: float
    spec: ClusterSpec
    machines: tuple[Machine, ...] = ()
    params: msgspec.Raw = msgspec.field(default_factory=partial(msgspec.Raw, b"{}"))
    command: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    definitions: dict[str, Definition] = {}
    environment: tuple[Facts, ...] = ()
    notes: tuple[str, ...] = ()
    phases: dict[str, float] = {}
    receipt: Receipt | None = None
    exit_status: int | None = None
    reason: str = ""
    software: str = ""
    revision: str = ""
    variables: dict[str, str] = {}
    condition: str = ""
    description: str = ""
    expected: ExpectedResult | None = None
    planned: tuple[Planned, ...] = ()
    hardware: Hardware | None = None
    launch_of: str = ""
    order: tuple[int, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether its values come from a simulation, and nothing was measured."""
        return any(machine.shell == SIMULATED for machine in self.machines)
