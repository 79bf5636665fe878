"""Hosts: how they are reached, what they are, how ranks are laid out on them, what a sync sent."""

import math
from collections.abc import Iterable

from cluster.core.errors import SpecError
from cluster.core.model.value import Value

PROCESS_FILE = (
    "process.{rank}.json"  # the file in a job's folder with the cores and connections of a rank
)
ONE_GROUP = "mpi"  # of all hosts of a cluster without groups
SIMULATED = "simulated"  # the shell of hosts that exist in a simulation only
HEADER_BYTES = 52  # bytes in a packet that are not data: IPv4 20, TCP 20, its timestamps 12
FIGURES = ("processor", "memory", "sent", "received")


class Access(Value, frozen=True, kw_only=True):
    """How SSH reaches a host."""

    host: str  # an address, or an alias of the user's own `~/.ssh/config`
    user: str = ""  # to log in as; if empty, that of the user's own SSH settings
    port: int = 0  # of its sshd; that of the user's own settings, if 0
    key: str = ""  # file of the private key; the user's own keys and agent, if empty
    known_hosts: str = ""  # file of the host keys to trust; the user's own, if empty
    alias: str = ""  # the name under which its key is in there; its address, if empty
    # a key that is not known yet is accepted once, and written into `known_hosts`
    pin: bool = False
    # the hosts on the way to it, such as `me@bastion`, as `ssh -J` takes them; those of the user's
    # own settings, if empty
    jump: str = ""


LAST_PORT = 65535


def parse_access(word: str, kind: str = "machine", example: str = "h1") -> Access:
    """Read how a user names a host that is reached by SSH, such as `alice@h1:2222`.

    Each part but the name may be missing. SpecError: it is no host; `kind` and `example` are for
    the message.
    """
    user, _, place = word.rpartition("@")
    host, colon, port = place.partition(":")
    number = int(port) if port.isdigit() else 0
    if not host or host.startswith("-") or (colon and not 1 <= number <= LAST_PORT):
        shapes = f"{example}, alice@{example}, {example}:2222 or alice@{example}:2222"
        raise SpecError(f"{word!r} is not a {kind}.", remedy=f"Write {shapes}.")
    return Access(host=host, user=user, port=number)


def ssh_command(access: Access, line: str, *options: str) -> list[str]:
    """Return the command that runs a line of shell on a host, and never asks for a password."""
    quiet = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
    return ["ssh", *quiet, *options, *ssh_words(access), line]


def ssh_words(access: Access) -> list[str]:
    """Return the arguments of `ssh` that reach a host as we do: options, then the host."""
    user = ["-l", access.user] if access.user else []
    port = ["-p", str(access.port)] if access.port else []
    # Each key of the agent counts as an attempt, and sshd allows only a few.
    key = ["-i", access.key, "-o", "IdentitiesOnly=yes"] if access.key else []
    known_hosts = ["-o", f"UserKnownHostsFile={access.known_hosts}"] if access.known_hosts else []
    alias = ["-o", f"HostKeyAlias={access.alias}"] if access.alias else []
    jump = ["-J", access.jump] if access.jump else []
    return [*user, *port, *key, *known_hosts, *alias, *jump, access.host]


class Link(Value, frozen=True, kw_only=True):
    """What a host's network interface can do at most (SpecError: no data could pass it)."""

    rate: float  # bytes per second in each direction, on the line: everything counts
    mtu: int = 1500  # of the interface of the line: bytes of a packet without its Ethernet frame
    # bytes of each packet for the headers of an overlay; VXLAN over IPv4: 50
    encapsulation: int = 0
    # bytes per second in each direction of a single connection, if it has a limit of its own
    flow: float | None = None
    source: str  # where the figures are from, such as `lab, tbf on both ends`
    # the libfabric provider that carries MPI's messages, such as `efa`; empty if TCP carries them
    fabric: str = ""
    adapters: int = 0  # of that fabric, which libfabric must list on the host; 0: not known

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise SpecError(f"The rate of a link is {self.rate:g} B/s; it must be more than 0.")
        if self.encapsulation < 0 or self.mtu - self.encapsulation <= HEADER_BYTES:
            raise SpecError(
                f"No payload fits into packets of {self.mtu} B with {self.encapsulation} B of "
                f"encapsulation and {HEADER_BYTES} B of headers."
            )


class Machine(Value, frozen=True, kw_only=True):
    """A host, as its provider created or found it: data about it, no connection.

    Args:
        name: `ID.ROLE.CLUSTER`, such as `0.mpi.mpi_test`.
        id: The provider's own name for it.
        address: Address at which the other hosts reach it.
        shell: Shell that runs commands there, such as `local`.
        folder: The only folder on it that belongs to cluster.
        bin: The folder on it with our `python3`, and an `mpirun` if we installed one.
        access: How SSH reaches it; None if it is not reached by SSH.
        link: What its network can do at most, if that is known.
        job: The scheduler's job that holds it; empty if none does.
    """

    name: str
    id: str
    address: str
    shell: str
    folder: str
    bin: str
    access: Access | None = None
    link: Link | None = None
    job: str = ""


def group_of(machine: Machine) -> str:
    """Return the group of a machine, which is in its name."""
    return machine.name.split(".")[1]


class Allocation(Value, frozen=True, kw_only=True):
    """How a batch system names the hosts that it lent to a job."""

    job: str  # the id of the job
    names: tuple[str, ...]  # of the hosts, in the order of the layout's addresses
    system: str = "slurm"  # such as `slurm`
    pmi: str = ""  # how srun tells ranks about one another: the value of its `--mpi`


class Layout(Value, frozen=True, kw_only=True):
    """Which hosts run how many ranks."""

    # of the hosts, in the order of the ranks; an address may occur several times
    addresses: tuple[str, ...]
    ranks_per_host: int = 1  # how many ranks each entry runs
    cores: int = 1  # how many cores the ranks of one host may use (the fewest of any host)
    sharing: int = 1  # how many hosts run on the same cores (the most of any)
    root: bool = False  # the ranks are started by the superuser
    # the only ones that ranks may use, such as `10.0.0.0/24`; any, if empty
    networks: tuple[str, ...] = ()
    # file on every host by which OpenSSH reaches the others; empty for one host
    ssh_config: str = ""
    # the job of a batch system that has the hosts; None if there is none
    allocation: Allocation | None = None

    @property
    def size(self) -> int:
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
    """How a command ended."""

    argv: tuple[str, ...]  # the command
    status: int  # its exit status; 128 + N when signal N killed it
    stdout: str  # its standard output
    stderr: str  # its standard error


class Interface(Value, frozen=True, kw_only=True):
    """A network interface of a host, with its IPv4 address."""

    name: str  # such as `eth0`
    address: str  # IPv4
    prefix: int  # bits of the address that name its network
    mtu: int  # bytes of a packet without its frame
    # bytes per second in each direction, as the driver reports it, for a bond the sum of its
    # members; none without hardware, or if the driver does not report it
    speed: float | None = None
    # the same for a single connection, if a bond sends each over one of its members
    flow: float | None = None
    slot: str = ""  # speed and width of its PCIe slot in use, such as `8.0 GT/s PCIe x16`
    duplex: str = ""  # of a cable: `full` or `half`

    @property
    def network(self) -> str:
        """Its network, such as `10.0.0.0/24`; its address and prefix if that is no IPv4 address."""
        import ipaddress  # noqa: PLC0415 - rarely needed

        text = f"{self.address}/{self.prefix}"
        try:
            return str(ipaddress.IPv4Interface(text).network)
        except ValueError:
            return text


class Tuning(Value, frozen=True, kw_only=True):
    """The settings of a host that affect measurements; empty if the host does not report them."""

    governor: str = ""  # of the processors' frequency; several are separated by ` | `
    threads: int = 0  # hardware threads of a core: 1 if SMT is off; 0 if not known
    numa: dict[str, str] = {}  # processors of each NUMA node, such as `{"node0": "0-15"}`
    huge_pages: str = ""  # when the kernel gives transparent ones: `always`, `madvise` or `never`
    sysctls: dict[str, str] = {}  # settings of the kernel that affect messages
    board: str = ""  # vendor and product
    firmware: str = ""  # vendor and version
    microcode: str = ""  # of the processor
    storage: str = ""  # type and device of the file system that our folder is on
    # whether its processors are those of a virtual machine (x86: the flag `hypervisor`)
    virtual: bool = False


class Facts(Value, frozen=True, kw_only=True):
    """The properties of a host, as it reports them."""

    host: str  # its name
    home: str  # the home folder of our user
    user: str  # that we are logged in as
    system: str  # the distribution
    kernel: str  # name, release and architecture
    cpu: str  # the model
    cores: int  # processors online
    usable_cores: int  # processors that a rank may use, given its affinity and cgroup limits
    cgroup_cpus: float | None  # the processor limit of the control group, if any
    cgroup_memory: int | None  # the memory limit of the control group in bytes, if any
    memory: int  # in bytes
    clock: str  # the kernel's clock source
    python: str  # version
    mpi: str | None  # the first line of `mpirun --version`, if there is one
    tmux: str | None  # version, if there is one
    libraries: dict[str, str]  # versions of the Python packages that matter
    variables: dict[str, str]  # environment variables from an allow-list
    interfaces: tuple[Interface, ...] = ()  # its network interfaces, without loopback
    reached: str = ""  # the address at which our SSH connection reached it; empty without SSH
    boot: str = ""  # the boot id of its kernel; hosts with the same id run on the same cores
    # the version that each requested program prints; its path if it prints none
    programs: dict[str, str] = {}
    executable: str = ""  # the Python of our environment
    gpus: tuple[str, ...] = ()  # the model of each GPU
    gpu_driver: str = ""  # the version of the GPUs' driver
    # the PCIe slot of each GPU, with the speed and width that both the GPU and the host support, as
    # Linux writes them; empty if the driver does not report it
    gpu_slots: tuple[str, ...] = ()
    # kernel modules that let other devices access the memory of GPUs, such as nvidia_peermem
    gpu_modules: tuple[str, ...] = ()
    # the paths between GPUs and network cards, as `nvidia-smi topo -m` prints them; in a run, it is
    # a file in `raw/`
    topology: str = ""
    mpi_flags: dict[str, str] = {}  # what Open MPI's `ompi_info` says about CUDA
    # the processors of each core that a rank may use, hyper-threads together; empty if the kernel
    # does not report which processors share a core
    physical_cores: tuple[tuple[int, ...], ...] = ()
    tuning: Tuning = Tuning()  # its settings that affect measurements


class Connection(Value, frozen=True, kw_only=True):
    """A TCP connection that is established."""

    here: str  # its own end, address and port
    there: str  # the other end


class ProcessorTimes(Value, frozen=True, kw_only=True):
    """How a host's processors spent a period, in seconds of one processor."""

    took: float = 0.0  # seconds of the clock
    processors: int = 1  # of the host
    used: float = 0.0  # by all processes of the host
    own: float = 0.0  # by this process, and by those that it started and that have ended
    stolen: float = 0.0  # by other virtual machines, while a process wanted to run


class RankProcess(Value, frozen=True, kw_only=True):
    """Cores and connections of a rank's process, read after its last value."""

    rank: int  # its number
    host: str  # the name of its host
    boot: str = ""  # the boot id of the host's kernel; hosts with the same id run on the same cores
    processors: tuple[int, ...] = ()  # that it was allowed to use (its affinity mask)
    connections: tuple[Connection, ...] = ()  # TCP connections of this process to other hosts
    sent: tuple[tuple[str, int], ...] = ()  # bytes by interface of its host, while it measured
    times: ProcessorTimes = ProcessorTimes()  # while it measured
    before: ProcessorTimes = ProcessorTimes()  # before, while all ranks slept


class TaskUsage(Value, frozen=True, kw_only=True):
    """What a host did while a task ran there, by `FIGURES`: all its processors and interfaces."""

    median: dict[str, float]  # shares, and bytes per second, of 10 s
    peak: dict[str, float]


class GpuUsage(Value, frozen=True, kw_only=True):
    """One GPU at one moment; None for what its driver does not say."""

    busy: float | None = None  # the share of the last sample in which a kernel ran
    memory: float | None = None  # the share that is in use
    power: float | None = None  # in watts


class HostUsage(Value, frozen=True, kw_only=True):
    """One interval of one host."""

    host: str = ""
    at: float  # its end, in seconds since the epoch
    seconds: float  # its length
    processor: float  # the share of all processors that was busy
    memory: float  # the share that is in use
    sent: float  # bytes per second, by the interface of the cluster
    received: float
    trouble: dict[str, float] = {}  # what went up: `agent.hardware.counters.trouble`
    jobs: dict[str, float] = {}  # that run: for how many seconds each has printed nothing
    gpus: tuple[GpuUsage, ...] = ()  # of this host, at most 10 s ago
    cost: float = 0.0  # of a processor, the share that the watching itself took
    # of what tests proved that the link carries; none where no test did
    sent_share: float | None = None
    received_share: float | None = None
    reason: str = ""  # why the host does not answer; then every figure is 0


class SyncFigures(Value, frozen=True, kw_only=True):
    """What a sync sent and removed, and what it did not."""

    there: str  # the folder on the hosts
    hosts: tuple[str, ...]
    files: int  # in the folder, without folders
    sent: int = 0  # different files that were sent
    sent_bytes: int = 0  # over the line of this machine, to all hosts
    passed_on: int = 0  # bytes that hosts sent to one another instead
    removed: tuple[str, ...] = ()  # paths on any host that were removed
    left_out: tuple[str, ...] = ()  # paths here that were not sent; those of folders end with `/`
    outward: tuple[str, ...] = ()  # links that lead out of the folder, which were sent as links
    # files that changed whenever they were sent; their copies may be torn
    changed: tuple[str, ...] = ()


def full_names(names: Iterable[str]) -> dict[str, str]:
    """Return the longest name of each host, by each of its names among these.

    `n1.a.org` and `n1.b.org` are two hosts; `n1` beside both of them is neither. Names without a
    letter, such as addresses, are what they are.
    """
    unique = set(names)
    longer: dict[str, list[str]] = {name: [] for name in unique}
    for name in unique:
        labels = name.split(".")
        for count in range(1, len(labels)):
            short = ".".join(labels[:count])
            if short in unique and any(map(str.isalpha, short)):
                longer[short].append(name)
    full = {}
    for name, longer_names in longer.items():  # the longest, if all are parts of it
        longest = max(longer_names, key=len, default=name)
        is_one = all(f"{longest}.".startswith(f"{other}.") for other in longer_names)
        full[name] = longest if is_one else name
    return full
