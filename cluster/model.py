"""Every frozen value that flows between the layers.

A time is seconds, a size is bytes, a moment is seconds since the epoch (UTC). Values are decoded
strictly: an unknown field is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal

import msgspec

from cluster.errors import SpecError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,29}")
MOST_RANKS = 100_000
SHORTEST_TTL, LONGEST_TTL = 60.0, 30 * 24 * 3600.0  # seconds

Scalar = int | float | str
Status = Literal["planned", "running", "done", "failed", "interrupted"]
Aggregation = Literal["each rank", "one rank", "slowest rank", "mean of ranks", "all ranks"]
Flow = Literal["", "one way", "both ways", "between hosts", "between ranks"]
Factor = Literal["", "1", "(n-1)/n", "2(n-1)/n"]
Medium = Literal["", "network", "TCP", "collective", "GPU to GPU", "host to GPU", "GPU memory"]
Tell = Callable[[str, str], None]
"""Called with a machine and the state that it got to."""

NOTES = "notes"  # the file in a job's folder of what rank 0 notes, a line each
PROCESS = "process.{rank}.json"  # the file there of what a rank's process had of its host
HEADERS = 52  # bytes in a packet that are not data: IPv4 20, TCP 20, its timestamps 12


def nothing(host: str, state: str) -> None:
    """Hear of a host, and do nothing.

    Args:
        host: its name.
        state: that it got to.

    """


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every value: strict; each is frozen and keyword-only, and says so."""


class ClusterSpec(Value, frozen=True, kw_only=True):
    """What was asked for.

    Args:
        name: of the cluster: a letter or digit, then at most 29 of letters, digits, `_`, `-`.
        provider: where the machines come from, such as `local`.
        hosts: how many machines.
        ranks_per_host: MPI processes on each.
        placement: ask for machines close to one another (a placement group).
        instance: the provider's machine type.
        zone: the provider's zone.
        image: what the machines start from; the provider's choice for the instance, if not given.
        spot: ask for spare machines, which are cheaper, and may be taken away at any moment.
        accelerator: a kind of accelerator and how many of them each machine has, such as `t4:1`.
        ttl: seconds after which the machines end by themselves; the provider's choice, if not
            given.
        options: the provider's own options, as text; the provider checks them.

    Raises:
        SpecError: a field is out of its range.

    """

    name: str
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
    options: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Refuse what no provider could honour."""
        check_name(self.name)
        check_count("hosts", self.hosts)
        check_count("ranks_per_host", self.ranks_per_host)
        if self.ttl is not None and not SHORTEST_TTL <= self.ttl <= LONGEST_TTL:
            raise SpecError(
                f"--ttl is {self.ttl:g} s; it must be between a minute and 30 days.",
                remedy="Say how long the machines may live: --ttl 2h",
            )


def check_name(name: str) -> str:
    """Refuse a name that could be mistaken for something else by a shell, tmux or a cloud.

    Args:
        name: of a cluster.

    Returns:
        The name.

    Raises:
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
    """Refuse a number of things that is not positive.

    Args:
        field: what is counted, as the flag names it.
        count: how many.

    Returns:
        The count.

    Raises:
        SpecError: it is not between 1 and 100000.

    """
    if not 1 <= count <= MOST_RANKS:
        flag = field.replace("_", "-")
        raise SpecError(f"--{flag} is {count}; it must be between 1 and {MOST_RANKS}.")
    return count


class Access(Value, frozen=True, kw_only=True):
    """How SSH reaches a host.

    Args:
        host: an address, or an alias of the user's own `~/.ssh/config`.
        user: to log in as; whom the user's own settings name, if empty.
        port: of its sshd; that of the user's own settings, if 0.
        key: file of the private key; the user's own keys and agent, if empty.
        known_hosts: file of the host keys to trust; the user's own, if empty.
        alias: the name under which its key is in there; its address, if empty.
        pin: a key that is not known yet is accepted once, and written into `known_hosts`.

    """

    host: str
    user: str = ""
    port: int = 0
    key: str = ""
    known_hosts: str = ""
    alias: str = ""
    pin: bool = False


class Link(Value, frozen=True, kw_only=True):
    """What a host's network interface can do at most.

    Args:
        rate: bytes per second in each direction, on the line: everything counts.
        mtu: of the interface of the line: bytes of a packet without its Ethernet frame.
        encapsulation: bytes of each packet that an overlay takes for itself; VXLAN over IPv4: 50.
        flow: bytes per second in each direction of any one connection, where that has a limit of
            its own.
        source: who says so, such as `lab, tbf on both ends`.

    Raises:
        SpecError: no data could pass such a link.

    """

    rate: float
    mtu: int = 1500
    encapsulation: int = 0
    flow: float | None = None
    source: str

    def __post_init__(self) -> None:
        """Refuse a link that nothing could pass."""
        if not 0 < self.rate < math.inf:
            raise SpecError(f"The rate of a link is {self.rate:g} B/s; it must be more than 0.")
        if self.encapsulation < 0 or self.mtu - self.encapsulation <= HEADERS:
            raise SpecError(
                f"No data fits into packets of {self.mtu} B with {self.encapsulation} B of "
                f"encapsulation and {HEADERS} B of headers."
            )


class Figure(Value, frozen=True, kw_only=True):
    """What something can carry at most.

    Args:
        rate: bytes per second, in one direction.
        source: who says so.
        usual: the share of it that healthy hardware reaches; 0 if nobody we know has measured it.
        usual_source: who measured it.

    """

    rate: float
    source: str
    usual: float = 0.0
    usual_source: str = ""


class Hardware(Value, frozen=True, kw_only=True):
    """What hosts were measured, as someone said who knows them; each alike.

    Args:
        name: such as `p4d.24xlarge`, `A100` or what the user called it.
        gpu: the model of its GPUs; empty if that is not known.
        gpus: how many of them a host has; 0 if that is not known.
        nvlink: of one GPU, all its links together.
        bus: between a GPU and its host: PCIe, or what takes its place.
        memory: of a GPU, what it reads and writes counted together.
        switched: all links of a GPU reach any other one, by a switch.
        reduces: that switch can sum (NVLink SHARP).
        fabric: NVLink joins hosts, too, or may do so: GPUs then do without the network.
        nic: all network interfaces of a host together.
        nics: how many these are.
        rdma: they can do without TCP.
        mtu: bytes of a packet without its Ethernet frame, for TCP.
        flow: one TCP connection, where that has a limit of its own.

    """

    name: str
    gpu: str = ""
    gpus: int = 0
    nvlink: Figure | None = None
    bus: Figure | None = None
    memory: Figure | None = None
    switched: bool = False
    reduces: bool = False
    fabric: bool = False
    nic: Figure | None = None
    nics: int = 1
    rdma: bool = False
    mtu: int = 1500
    flow: Figure | None = None


class Machine(Value, frozen=True, kw_only=True):
    """A host that was got: facts, no connection.

    Args:
        name: `ID.ROLE.CLUSTER`, such as `0.mpi.mpi_test`.
        id: the provider's own name for it.
        address: where the other hosts reach it.
        shell: which shell runs commands there, such as `local`.
        folder: the one folder there that is ours.
        bin: the folder there that holds our `python3`, and an `mpirun` if we installed one.
        access: how SSH reaches it, if that is how.
        link: what its network can do at most, where that is known.

    """

    name: str
    id: str
    address: str
    shell: str
    folder: str
    bin: str
    access: Access | None = None
    link: Link | None = None


class Environment(Value, frozen=True, kw_only=True):
    """What a host needs before anything can be measured on it.

    Args:
        source: where Python libraries come from: the host's own package `index`, or this machine,
            the `controller`, which downloads them once; `auto` is the latter, else the former.
        mpi: prefix of a prepared MPI on the hosts, such as `/opt/amazon/openmpi`; if it is empty,
            Open MPI is installed with the libraries.
        image: of a container that the ranks run in; none, if it is empty.
        programs: beyond Python; each one's name is also that of its package.

    """

    source: Literal["auto", "index", "controller"] = "auto"
    mpi: str = ""
    image: str = ""
    programs: tuple[str, ...] = ("tmux",)


class EnvironmentOptions(Value, frozen=True, kw_only=True):
    """What is installed on machines.

    Args:
        source: of what is installed: `index` (the hosts' own package index), `controller` (wheels
            from here), or `auto`: from here, and where they cannot be had here, the index.
        mpi: prefix of a prepared MPI on the hosts, such as /opt/amazon/openmpi.
        image: of a container that the ranks run in, with docker or podman.

    """

    source: Literal["auto", "index", "controller"] = "auto"
    mpi: str = ""
    image: str = ""


class Layout(Value, frozen=True, kw_only=True):
    """Which hosts run how many ranks.

    Args:
        addresses: of the hosts, in the order of the ranks; the same one may come again.
        ranks_per_host: how many ranks each entry runs.
        cores: how many cores the ranks of one host may use (of the host that has fewest).
        sharing: how many of the hosts have the same cores (of those that most share).
        root: the ranks are started by the superuser.
        networks: the only ones that ranks may use, such as `10.0.0.0/24`; any, if empty.
        ssh_config: file on every host by which OpenSSH reaches the others; empty for one host.

    """

    addresses: tuple[str, ...]
    ranks_per_host: int = 1
    cores: int = 1
    sharing: int = 1
    root: bool = False
    networks: tuple[str, ...] = ()
    ssh_config: str = ""

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.addresses) * self.ranks_per_host

    @property
    def slots(self) -> dict[str, int]:
        """How many ranks each address runs, in the order of the ranks."""
        ranks = self.ranks_per_host
        return {a: self.addresses.count(a) * ranks for a in dict.fromkeys(self.addresses)}

    @property
    def places(self) -> tuple[str, ...]:
        """The address of each rank's host, in the order of the ranks."""
        return tuple(address for address, count in self.slots.items() for _ in range(count))

    @property
    def oversubscribed(self) -> bool:
        """Whether any host has more ranks than cores that they may use."""
        return max(self.slots.values()) * self.sharing > self.cores


class Completed(Value, frozen=True, kw_only=True):
    """A command that ended.

    Args:
        argv: the command.
        status: its exit status; 128 + N when signal N killed it.
        stdout: what it printed.
        stderr: what it complained.

    """

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


class Definition(Value, frozen=True, kw_only=True, omit_defaults=True):
    """How a metric is measured; it travels with the values.

    A field that has a default came later, and is left out of files and of the id while it has it:
    the ids of older runs stay what they are.

    Args:
        benchmark: that measures it.
        metric: its name.
        unit: of its summary; values in `s` under a unit of `B/s` are times in which
            `Measurement.bytes` moved.
        better: which direction is better.
        what: is measured, in words.
        clock: that is read.
        synchronisation: of the ranks before a value is taken.
        warm_up: what is done before the first value.
        aggregation: how the ranks' values become one series; foreign tools print one value for
            the `mean of ranks`, or for `all ranks` together.
        flow: which directions of a link the bytes of a value take at once; `one way` and
            `both ways` have a bound by its bandwidth, and nothing (as for a latency) has none.
            In a collective, the ranks of a host can share what passes its link `between hosts`, or
            each needs its own, `between ranks`.
        kernel: what runs the timed loop, if it is not Python.
        buffer: whose memory messages are in, if it is not the processor's.
        factor: of a collective of n ranks: its bus bandwidth over its algorithm bandwidth.
        rate: which of these two a summary is, if its values are times of another definition.
        rate_of: the id of that definition.
        medium: what the bytes of a value pass, where the hosts that were measured are known by
            name only: hardware described in words has a bound for it.

    """

    benchmark: str
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    what: str
    clock: str
    synchronisation: str
    warm_up: str
    aggregation: Aggregation
    flow: Flow = ""
    kernel: Literal["", "C"] = ""
    buffer: Literal["", "cuda"] = ""
    factor: Factor = ""
    rate: Literal["", "algorithm", "bus"] = ""
    rate_of: str = ""
    medium: Medium = ""

    @property
    def id(self) -> str:
        """A name that changes when a word of the definition does."""
        import hashlib  # noqa: PLC0415 - rarely needed, and slow to import

        digest = hashlib.blake2s(msgspec.json.encode(self), digest_size=4).hexdigest()
        return f"{self.benchmark}.{self.metric}-{digest}"


class Measurement(Value, frozen=True, kw_only=True):
    """All raw values of one metric, at one point of its parameters, as one rank took them.

    Args:
        metric: its name.
        definition: the id of its definition.
        unit: of the values.
        params: the point, such as `{"size": 8}` (bytes).
        rank: that took the values.
        host: the rank ran on.
        values: in the order they were taken; nothing is ever left out.
        bytes: that moved during each value; 0 if nothing was moved.
        complete: false if the run ended before all values were taken.

    """

    metric: str
    definition: str
    unit: str
    params: dict[str, Scalar]
    rank: int
    host: str
    values: tuple[float, ...]
    bytes: int = 0
    complete: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        """What tells this measurement from every other one of its run."""
        return (self.definition, self.rank, *sorted(self.params.items()))


class Planned(Value, frozen=True, kw_only=True):
    """A series that a run was to take.

    Args:
        metric: its name.
        params: the point, as far as it is known before.

    """

    metric: str
    params: dict[str, Scalar] = {}


class Shape(Value, frozen=True, kw_only=True):
    """What a series of values says beyond its median.

    Args:
        minimum: of the values.
        p25: the first quartile.
        p75: the third.
        maximum: of the values.
        outliers: how many values are more than three quartile ranges beyond a quartile; they are
            counted, and left in.
        drift: how much the median of the second half is above that of the first, as a part of it;
            none if it cannot be told.
        drifts: that is 3 % or more, and the 95 % intervals of the two medians do not meet.
        modes: the values that the series gathers around, if there are several.
        tail: how many times slower than the median the slowest hundredth is, at least.

    """

    minimum: float
    p25: float
    p75: float
    maximum: float
    outliers: int
    drift: float | None
    drifts: bool
    modes: tuple[float, ...]
    tail: float


class Summary(Value, frozen=True, kw_only=True):
    """What a series of values says.

    Args:
        metric: its name.
        unit: of the numbers below: `s` or `B/s`.
        better: which direction is better.
        params: the point; `rank` is among them where each rank has a series of its own.
        n: how many values.
        median: of the values.
        ci: the ends of the median's 95 % confidence interval; none for fewer than 6 values.
        p5: the 5th percentile.
        p95: the 95th percentile.
        p99: the 99th percentile.
        converged: half of the interval is at most 2.5 % of the median, with 20 values or more, and
            they do not drift.
        complete: false if the run ended before all values were taken.
        bound: the best that the link between the hosts allows, where that is known: the highest
            rate, or the shortest time.
        share: of the bound that the median reaches; above 1 it is faster than possible.
        limit: what sets the bound: how much of what, in which direction, and who says so.
        definition: the id of the metric's definition; empty if there is none.
        shape: of the series, where the values are known.

    """

    metric: str
    unit: str
    better: Literal["lower", "higher"]
    params: dict[str, Scalar]
    n: int
    median: float
    ci: tuple[float, float] | None
    p5: float
    p95: float
    p99: float
    converged: bool
    complete: bool = True
    bound: float | None = None
    share: float | None = None
    limit: str = ""
    definition: str = ""
    shape: Shape | None = None


class Interface(Value, frozen=True, kw_only=True):
    """A network interface of a host, with its IPv4 address.

    Args:
        name: such as `eth0`.
        address: IPv4.
        prefix: bits of the address that name its network.
        mtu: bytes of a packet without its frame.
        speed: bytes per second in each direction, as the driver of the hardware says, that of all
            members of a bond together; none where there is no hardware, or it does not say.
        flow: the same of any one connection, where a bond puts each on one of its members.
        slot: of PCIe, speed and width in use, such as `8.0 GT/s PCIe x16`.

    """

    name: str
    address: str
    prefix: int
    mtu: int
    speed: float | None = None
    flow: float | None = None
    slot: str = ""

    @property
    def network(self) -> str:
        """Its network, such as `10.0.0.0/24`."""
        import ipaddress  # noqa: PLC0415 - rarely needed

        return str(ipaddress.IPv4Interface(f"{self.address}/{self.prefix}").network)


class Tuning(Value, frozen=True, kw_only=True):
    """How a host is set up, as far as numbers depend on it; empty is what it does not say.

    Args:
        governor: of the processors' frequency; several are separated by ` | `.
        threads: hardware threads of a core: 1 where simultaneous threads are off; 0 if not known.
        numa: processors of each node of memory, such as `{"node0": "0-15"}`.
        huge_pages: when the kernel gives transparent ones: `always`, `madvise` or `never`.
        sysctls: settings of the kernel that bear on messages.
        board: vendor and product.
        firmware: vendor and version.
        microcode: of the processor.
        storage: type and device of the file system that our folder is on.

    """

    governor: str = ""
    threads: int = 0
    numa: dict[str, str] = {}
    huge_pages: str = ""
    sysctls: dict[str, str] = {}
    board: str = ""
    firmware: str = ""
    microcode: str = ""
    storage: str = ""


class Facts(Value, frozen=True, kw_only=True):
    """What a host is, as it said itself.

    Args:
        host: its name.
        home: our home folder there.
        user: who we are there.
        system: the distribution.
        kernel: name, release and architecture.
        cpu: the model.
        cores: processors online.
        usable_cores: that a process of ours may use: affinity and cgroup limits counted.
        cgroup_cpus: the processor limit of the control group, if any.
        cgroup_memory: the memory limit of the control group in bytes, if any.
        memory: in bytes.
        clock: the kernel's clock source.
        python: version.
        mpi: what `mpirun --version` says first, if there is one.
        tmux: version, if there is one.
        libraries: versions of the Python packages that matter.
        variables: environment variables from an allow-list.
        interfaces: its network interfaces, without loopback.
        reached: the address at which our SSH connection reached it; empty if there is none.
        boot: of its kernel: hosts that have the same one share its cores.
        programs: what each program that was asked for says of its version; where it is, if it says
            nothing.
        executable: the Python of our environment.
        gpus: the model of each GPU.
        gpu_driver: its version.
        gpu_slots: the PCIe slot of each GPU, as far as it and the host can use it, in Linux's
            words; empty where the driver does not know it.
        gpu_modules: of the kernel, by which others reach the memory of GPUs, such as
            nvidia_peermem.
        topology: the paths between GPUs and network cards, as `nvidia-smi topo -m` prints them; in
            a run, it is a file in `raw/`.
        mpi_flags: what Open MPI's `ompi_info` says of CUDA.
        physical_cores: the processors of each core that a process of ours may use, hyper-threads
            together; empty where the kernel does not say which are.
        tuning: how it is set up.

    """

    host: str
    home: str
    user: str
    system: str
    kernel: str
    cpu: str
    cores: int
    usable_cores: int
    cgroup_cpus: float | None
    cgroup_memory: int | None
    memory: int
    clock: str
    python: str
    mpi: str | None
    tmux: str | None
    libraries: dict[str, str]
    variables: dict[str, str]
    interfaces: tuple[Interface, ...] = ()
    reached: str = ""
    boot: str = ""
    programs: dict[str, str] = {}
    executable: str = ""
    gpus: tuple[str, ...] = ()
    gpu_driver: str = ""
    gpu_slots: tuple[str, ...] = ()
    gpu_modules: tuple[str, ...] = ()
    topology: str = ""
    mpi_flags: dict[str, str] = {}
    physical_cores: tuple[tuple[int, ...], ...] = ()
    tuning: Tuning = Tuning()


class Connection(Value, frozen=True, kw_only=True):
    """A TCP connection that is established.

    Args:
        here: its own end, address and port.
        there: the other end.

    """

    here: str
    there: str


class Process(Value, frozen=True, kw_only=True):
    """What the process of a rank had of its host when all values were taken.

    Args:
        rank: that it was.
        host: its name.
        boot: of its kernel: hosts that have the same one share its cores.
        processors: that it was allowed to use (its affinity mask).
        connections: by TCP to other hosts, of this process alone.

    """

    rank: int
    host: str
    boot: str = ""
    processors: tuple[int, ...] = ()
    connections: tuple[Connection, ...] = ()


class Expected(Value, frozen=True, kw_only=True):
    """What somebody expected of a run.

    Args:
        value: in `unit`.
        unit: `s`, `B/s` or any other; empty if nobody said, and that of the result is meant.

    """

    value: float
    unit: str = ""


class Condition(Value, frozen=True, kw_only=True):
    """What is special about a run, beside its benchmark's parameters.

    Args:
        name: to compare by; empty if it is no part of an experiment.
        variables: for the environment of every rank.
        notes: what a reader of its numbers must know.
        description: of the run, by who started it.
        expected: what it should come to, if anybody said.

    """

    name: str = ""
    variables: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    description: str = ""
    expected: Expected | None = None


class JobRecord(Value, frozen=True, kw_only=True):
    """A job that was started, as another process needs to find it again.

    Args:
        session: the name of its tmux session.
        folder: on the host, where its files are.
        run: the folder of its run, on this machine.
        benchmark: that it runs.
        at: when it was started.

    """

    session: str
    folder: str
    run: str
    benchmark: str
    at: float


class Price(Value, frozen=True, kw_only=True):
    """What one host costs while it exists.

    Args:
        hourly: US dollars for an hour of one host; storage, addresses and traffic come on top.
        at: the day that the price is of, such as `2026-11-01`.
        source: who says so.

    """

    hourly: float
    at: str
    source: str


class Receipt(Value, frozen=True, kw_only=True):
    """What machines cost, from the call that made them until they were gone, or until now.

    Args:
        hosts: how many.
        seconds: that they existed; a bill counts from a little later.
        price: of one, where that is known.
        dollars: in all, where that is known.
        final: they are gone.

    """

    hosts: int
    seconds: float
    price: Price | None = None
    dollars: float | None = None
    final: bool = False


class Record(Value, frozen=True, kw_only=True):
    """What `run.json` holds.

    Args:
        version: of this format.
        id: the name of the run's folder.
        benchmark: that was run.
        status: how far it came.
        at: when it was started.
        spec: the cluster asked for.
        machines: the machines got.
        params: of the benchmark, as JSON.
        command: the command line that started the ranks.
        argv: the command line of the process that started the run.
        definitions: of the metrics, by their ids.
        environment: facts of each host.
        notes: what a reader of the numbers must know.
        phases: seconds spent in each phase.
        receipt: what the machines cost, if they cost anything.
        exit_status: of the job, once it ended.
        reason: why it is not `done`.
        software: version of `cluster`.
        revision: of its sources, which changes when any of them does.
        variables: environment variables that were asked for, for every rank.
        condition: of an experiment with several, such as `mca:btl_tcp_links=4`; empty if it was
            none.
        description: by who started it.
        expected: what it should come to, if anybody said.
        planned: every series that it was to take, if the benchmark knows.
        hardware: of the hosts that an imported log was written on, where that is known.

    """

    version: int = 1
    id: str
    benchmark: str
    status: Status
    at: float
    spec: ClusterSpec
    machines: tuple[Machine, ...] = ()
    params: msgspec.Raw = msgspec.Raw(b"{}")
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
    expected: Expected | None = None
    planned: tuple[Planned, ...] = ()
    hardware: Hardware | None = None


class Plan(Value, frozen=True, kw_only=True):
    """What a provider would do.

    Args:
        lines: for a person to read.
        costs: whether it costs money while it runs.
        price: of one host, where that is known.
        ttl: seconds after which the machines end by themselves, if they do.
        gpus: of each machine, where that is known before it exists.

    """

    lines: tuple[str, ...]
    costs: bool = False
    price: Price | None = None
    ttl: float | None = None
    gpus: int | None = None


class Sighting(Value, frozen=True, kw_only=True):
    """A cluster that exists at a provider, whoever launched it where.

    Args:
        name: of the cluster.
        region: of the provider.
        host: the machine that launched it.
        addresses: of its machines, by which others reach them.
        states: of its machines, as the provider calls them.
        since: when it was launched, in seconds since the epoch; 0, if nobody knows.
        expires: when it ends by itself, in seconds since the epoch.
        price: of one machine, where that is known.

    """

    name: str
    region: str
    host: str = ""
    addresses: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    since: float = 0.0
    expires: float = 0.0
    price: Price | None = None


class Resource(Value, frozen=True, kw_only=True):
    """Something of ours that exists at a provider.

    Args:
        kind: such as `machine`.
        id: the provider's name for it.

    """

    kind: str
    id: str


class Output(Value, frozen=True, kw_only=True):
    """What a benchmark's ranks left behind.

    Args:
        stdout: of the whole job.
        ranks: the text of each rank's measurement file.

    """

    stdout: str = ""
    ranks: tuple[str, ...] = ()


class Progress(Value, frozen=True, kw_only=True):
    """How far a job is.

    Args:
        done: steps done, a part of one included.
        total: steps in all.
        what: is being done.

    """

    done: float
    total: int
    what: str
