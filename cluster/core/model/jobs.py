"""Jobs: commands on some hosts of a cluster, one task on each, as another process finds them."""

from typing import Literal

from cluster.core.model.hosts import TaskUsage
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value

State = Literal["starting", "running", "done", "failed", "stopped", "lost", "unreachable"]
MOST_OUTPUT = 1 << 30  # bytes
BATCH = "batch"  # the provider of a run whose hosts a batch system lent to a script


class TaskSpec(Value, frozen=True, kw_only=True):
    """What the agent runs on one host: the file `task.json` in the task's folder."""

    argv: tuple[str, ...]  # the command; a line of shell is `("sh", "-c", LINE)`
    line: str = ""  # that line, as the user typed it; empty if the command is not one
    cwd: str = ""  # on the host; relative to the home folder if it does not begin with `/`
    # variables beyond those of the login, `PATH` with what goes before the host's own
    env: dict[str, str] = {}
    timeout: float | None = None  # seconds, after which the task is ended; None for no limit
    # seconds without a line after which it is ended, unless its ranks go on; None for no limit
    hang_after: float | None = None
    grace: float = 10.0  # seconds between SIGTERM and SIGKILL
    most_output: int = MOST_OUTPUT  # bytes that are kept of what it prints, without the oldest


class FileJob(Value, frozen=True, kw_only=True):
    """A job of a launch file: a command, and the options of `Cluster.start`."""

    command: str  # for `sh`
    on: str = ""  # the hosts, such as `0`, `1:` or a group; all, if empty
    cwd: str = ""  # a folder on the hosts
    env: dict[str, str] = {}
    timeout: float | None = None  # seconds
    hang_after: float | None = None  # seconds
    grace: float = 10.0  # seconds
    restarts: int = 0
    after: str = ""  # a job above that has to end first, or as JOB:PORT, to listen there

    @property
    def task(self) -> TaskSpec:
        """What runs on each host, as it is checked."""
        return TaskSpec(
            argv=("sh", "-c", self.command),
            cwd=self.cwd,
            env=self.env,
            timeout=self.timeout,
            hang_after=self.hang_after,
            grace=self.grace,
        )


LaunchStepKind = Literal["prove", "set_up", "send", "job", "wait", "fetch", "down"]


class LaunchStep(Value, frozen=True, kw_only=True):
    """What follows a launch, as its file says."""

    kind: LaunchStepKind
    names: tuple[str, ...] = ()  # of a job, or of those that are waited for
    job: FileJob = FileJob(command="")
    count: int = 0  # of the hosts of a job, or the lines of the script
    seconds: float = 0.0  # in which all hosts are proven
    source: str = ""  # the folder that is sent or fetched
    target: str = ""  # where it goes


class TaskEnd(Value, frozen=True, kw_only=True):
    # of its command; 128 + N if signal N killed it, 124 after its timeout, 127 if there is no such
    # command; -1 if nobody saw its end
    exit_status: int
    state: State  # never one of a task that goes on
    at: float  # when, in seconds since the epoch
    reason: str = ""  # why it is not `done`, or what else was noticed at its end; empty if nothing
    dropped: int = 0  # bytes of its oldest output that were not kept
    usage: TaskUsage | None = None  # of its host meanwhile; none if it ran for less than a second


class TaskState(Value, frozen=True, kw_only=True, tag="state"):
    """The state of a task, as its host reports it."""

    state: State
    began: float = 0.0  # when its command was started, in seconds since the epoch; 0 before
    quiet: float = 0.0  # seconds since it has printed something, while it runs
    end: TaskEnd | None = None
    processes: int = 0  # that run in it, or that it has left behind


class TaskOutput(Value, frozen=True, kw_only=True, tag="output"):
    """Some more of a task's output, in the format of its file `output`."""

    text: str
    end: int  # bytes of the file up to the end of `text`
    dropped: int = 0  # bytes before it that are not kept
    now: float  # the host's own time, in seconds since its epoch: its clock may be wrong


class Task(Value, frozen=True, kw_only=True):
    """One command of a job, on one host."""

    host: str  # the name of the machine
    rank: int  # of the task in its job, from 0
    folder: str  # on the host
    session: str  # its tmux session there
    cwd: str = ""  # on the host, where its command runs


class Attempt(Value, frozen=True, kw_only=True):
    """An earlier start of a job, which lost hosts."""

    at: float  # when it was started, in seconds since the epoch
    folder: str  # here, for its output
    lost: dict[str, str]  # what became of the hosts that were lost, by their names
    replaced: tuple[str, ...] = ()  # those that have new machines since; the others are the same


class NamedJob(Value, frozen=True, kw_only=True):
    """A job with a name: what was asked for, and where its tasks are."""

    name: str
    spec: TaskSpec  # what each task runs; variables of a task itself are not in it
    tasks: tuple[Task, ...]
    at: float  # when it was started, in seconds since the epoch
    by: str  # who started it, as `claims.encode` writes it
    folder: str  # here, for its output once it has ended
    port: int = 29500  # at the first host, where the ranks of torch.distributed meet
    restarts: int = 0  # how often it may be started again after the loss of a host
    attempts: tuple[Attempt, ...] = ()  # its earlier starts


class BatchRequest(Value, frozen=True, kw_only=True):
    """What a batch script measures."""

    benchmark: str  # its name
    params: dict[str, str] = {}  # of it, as text
    starter: str  # of the ranks, such as `srun` or `srun:pmix`
    hosts: int  # how many
    ranks_per_host: int = 1  # ranks of each
    timeout: float = 600.0  # seconds that the ranks may take
    name: str = "batch"  # under which the run is kept
    describe: str = ""  # what the run is for

    @property
    def spec(self) -> ClusterSpec:
        """The cluster that a run of it records."""
        return ClusterSpec(
            name=self.name, provider=BATCH, hosts=self.hosts, ranks_per_host=self.ranks_per_host
        )
