"""Hardware by name or description: instance types, GPU models, machines that the user describes.

Every figure comes from `gpus.toml` and `hosts.toml` beside this file, or from the user; each keeps
its source.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources

import msgspec

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.results.limits import SAID, Figure, Hardware, slot_bandwidth
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.value import Scalar, Value
from cluster.core.text.units import format_rate, parse_rate

_YES_NO = {"yes": True, "no": False}
THROUGH_SLOTS = ("PIX", "PXB", "PHB", "NODE", "SYS")  # paths through PCIe, as nvidia-smi names them
_BONDED = re.compile(r"NV(\d+)")
_PLAIN = re.compile(r"[^a-z0-9]+")
_GENERATIONS = {"gen1": 2.5, "gen2": 5.0, "gen3": 8.0, "gen4": 16.0, "gen5": 32.0, "gen6": 64.0}
_SLOT = re.compile(r"(gen[1-6])\s*x(\d{1,2})")
LINK, MEMORY = "pcie_link", "gpu_memory_peak"  # metrics of the benchmark `gpu`


class Described(Value, frozen=True, kw_only=True):
    """A machine that a user describes, on the command line or in a TOML file."""

    name: str = ""
    host: str = ""
    gpu: str = ""
    gpus: int | None = None
    nvlink: str = ""  # of one GPU, all its links in one direction, such as `300GB/s`
    pcie: str = ""  # the slot of a GPU: `gen4 x16`, or as Linux writes it
    memory: str = ""  # of a GPU, such as `1555GB/s`
    nic: str = ""  # the rate of each network interface, such as `100gbit`
    nics: int | None = None
    rdma: bool | None = None
    mtu: int | None = None
    flow: str = ""  # the limit of one TCP connection, such as `10gbit`
    source: str = ""


def find(text: str) -> Hardware:
    """Find hardware by its name or description (SpecError: the name or a key is unknown).

    It is `p4d.24xlarge`, `h100`, `nic=100gbit,gpus=8,gpu=a100`, or a name followed by such pairs,
    which override the listed figures.
    """
    first, *rest = [word.strip() for word in text.split(",")]
    if "=" in first or not first:
        first, rest = "", [first, *rest]
    words = dict(_pair(word) for word in rest if word)
    if not first and not words:
        raise SpecError("--hardware is empty.", remedy=_remedy())
    description = _decode({"host": first, **words}, f"--hardware {text}")
    return _build(description, text) if words else _by_name(first)


def in_toml(content: bytes, path: str) -> Hardware:
    """Read hardware from a TOML file with the keys of `find` (SpecError)."""
    try:
        words = msgspec.toml.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpecError(f"{path} is not valid TOML: {error}") from error
    return _build(_decode(words, path), path)


def of_devices(models: Iterable[str]) -> Hardware | None:
    """Return the hardware of the GPUs that a log names, of one model: its name, if not listed."""
    kinds = {_gpu_key(model) or model for model in models}
    if len(kinds) != 1:
        return None
    if (key := kinds.pop()) not in listed_gpus():
        return Hardware(name=key)
    return _with_gpu(Hardware(name=listed_gpus()[key].names[0]), key)


def with_logged_gpus(hardware: Hardware | None, models: Sequence[str]) -> Hardware | None:
    """Add the GPUs that a log names to hardware that the user named, who takes precedence."""
    if hardware is None:
        return of_devices(models)
    keys = {_gpu_key(model) for model in models}
    if hardware.gpu or len(keys) != 1 or (key := keys.pop()) is None:
        return hardware
    return _with_gpu(hardware, key)


def of_point(hardware: Hardware | None, params: Mapping[str, Scalar]) -> Hardware | None:
    """Return the hardware of a point: `gpu` is the model, if a file has several."""
    gpu = params.get("gpu")
    return with_logged_gpus(hardware, [gpu]) if isinstance(gpu, str) else hardware


def with_fabric(hardware: Hardware | None, *, fabric: bool) -> Hardware | None:
    """Record that NVLink also joins the hosts, if the log says so."""
    if hardware is None or not fabric:
        return hardware
    return msgspec.structs.replace(hardware, fabric=True)


def with_links(hardware: Hardware | None, links: int) -> Hardware | None:
    """Add the NVLinks that a log shows: bridges of boards, or links without a switch.

    `links` are the most between two of its GPUs, as `nvidia-smi topo -m` counts them. The bridges
    become its NVLink if its boards may have bridges, and the log shows links between them. Fewer
    links than a GPU has join a pair without a switch.
    """
    if hardware is None or not links:
        return hardware
    if hardware.nvlink is None and hardware.bridge is not None:
        return msgspec.structs.replace(hardware, nvlink=hardware.bridge)
    gpu = listed_gpus().get(_gpu_key(hardware.gpu) or "")
    if hardware.nvlink is None or gpu is None or links >= gpu.nvlinks:
        return hardware
    pair = nvlink(gpu.architecture, links)
    return msgspec.structs.replace(hardware, pair=pair, switched=False, reduces=False)


def contradicting_gpu(hardware: Hardware | None, models: Sequence[str]) -> str:
    """Return a GPU that a log names, if it is not the user's; empty if one names none."""
    if hardware is None or not hardware.gpu:
        return ""
    key = _gpu_key(hardware.gpu)
    foreign = [m for m in models if _gpu_key(m) not in (None, key)]
    return foreign[0] if foreign else ""


def names() -> tuple[str, ...]:
    """List all names that `find` knows."""
    return (*listed_gpus(), *listed_hosts())


def _by_name(name: str) -> Hardware:
    lowercase = name.lower()
    entry = listed_hosts().get(lowercase) or listed_hosts().get(f"standard_{lowercase}")
    if entry is not None:
        maker, host = listed_makers()[entry[0]], entry[1]
        rate = parse_rate(host.nic)
        several = f"{host.nics} x " if host.nics > 1 else ""
        hardware = Hardware(
            name=name,
            gpus=host.gpus,
            nic=Figure(
                rate=rate * host.nics, source=f"{several}{format_rate(rate)}: {name}, {host.source}"
            ),
            nics=host.nics,
            rdma=host.rdma,
            gpudirect=host.gpudirect,
            both_ways=None if host.both_ways is None else host.both_ways.figure,
            mtu=maker.mtu,
            flow=None if maker.flow is None else maker.flow.figure,
        )
        return _with_gpu(hardware, host.gpu) if host.gpu else hardware
    key = lowercase if lowercase in listed_gpus() else _gpu_key(name)
    if key is None:
        raise SpecError(f"There is no hardware {name!r} in our lists.", remedy=_remedy())
    return _with_gpu(Hardware(name=name), key)


def _remedy() -> str:
    hosts = ", ".join(list(listed_hosts())[:60:6])
    return (
        f"GPUs: {', '.join(listed_gpus())}; hosts such as {hosts}; "
        "or describe it: --hardware nic=100gbit,gpus=8,gpu=a100"
    )


def _with_gpu(hardware: Hardware, key: str) -> Hardware:
    gpu = listed_gpus()[key]
    links = gpu.nvlink.figure if gpu.nvlink else nvlink(gpu.architecture, gpu.nvlinks)
    return msgspec.structs.replace(
        hardware,
        gpu=gpu.names[0],
        nvlink=links,
        bus=gpu.bus.figure if gpu.bus else slot_bandwidth(gpu.slot),
        memory=None if gpu.memory is None else gpu.memory.figure,
        bridge=None if gpu.bridge is None else gpu.bridge.figure,
        joins=gpu.joins,
        raised=gpu.raised,
        fabric=gpu.fabric,
        switched=gpu.switched,
        reduces=gpu.reduces,
    )


def is_efa(hardware: Hardware) -> bool:
    """Tell whether the network of hardware is EFA: that of an EC2 type which has it."""
    name = hardware.name.split(",")[0].strip()
    maker, host = listed_hosts().get(name.lower(), ("", None))
    has_efa = host is not None and host.rdma and maker == "amazon"
    return has_efa and hardware.nic == _by_name(name).nic


def is_amd(hardware: Hardware) -> bool:
    """Tell whether its GPUs are AMD's, which Infinity Fabric joins."""
    return (_gpu_key(hardware.gpu) or "").startswith("mi")


def peak_flops(model: str) -> Figure | None:
    """Return a GPU's peak FLOP per second in single precision, without tensor cores, if listed."""
    key = _gpu_key(model)
    cores = listed_gpus()[key].fp32 if key else None
    return cores.peak if cores else None


def between(model: str, path: str, slot: str) -> Figure | None:
    """Return the bandwidth between two GPUs of a host, in one direction; None if not known.

    The path is one of `nvidia-smi topo -m`: `NV4`, `PIX`, `SYS`. The rate is that of the bonded
    NVLinks, or of the slot that all bytes pass.
    """
    key = _gpu_key(model)
    if match := _BONDED.fullmatch(path):
        return nvlink(listed_gpus()[key].architecture, int(match[1])) if key else None
    return slot_bandwidth(slot) if path in THROUGH_SLOTS else None


@cache
def _gpu_key(model: str) -> str | None:
    """Find the listed GPU with the longest name that the name of a model contains."""
    plain = f" {_plain(model)} "
    fits = [
        (len(name), key)
        for key, gpu in listed_gpus().items()
        for name in gpu.names
        if f" {_plain(name)} " in plain
    ]
    return max(fits)[1] if fits else None


def _plain(name: str) -> str:
    return _PLAIN.sub(" ", name.lower()).strip()


def _build(words: Described, text: str) -> Hardware:
    base = _by_name(words.host) if words.host else Hardware(name=words.name or text)
    if words.gpu:
        key = _gpu_key(words.gpu) or (words.gpu if words.gpu in listed_gpus() else None)
        if key is None:
            raise SpecError(f"There is no GPU {words.gpu!r} in our lists.", remedy=_remedy())
        base = _with_gpu(base, key)
    source = words.source or SAID
    changes: dict[str, object] = {"name": words.name or text}
    values = {field: getattr(words, field) for field in ("gpus", "nics", "rdma", "mtu")}
    changes |= {field: value for field, value in values.items() if value is not None}
    for field, rate in (("nvlink", words.nvlink), ("memory", words.memory), ("flow", words.flow)):
        if rate:
            changes[field] = Figure(
                rate=parse_rate(rate), source=source, is_stated=not words.source
            )
    if words.pcie:
        changes["bus"] = _slot(words.pcie)
    if words.nic:
        nics = words.nics or 1
        several = f"{nics} x " if nics > 1 else ""
        changes["nics"] = nics
        changes["nic"] = Figure(
            rate=parse_rate(words.nic) * nics, source=f"{several}{words.nic}: {source}"
        )
    return msgspec.structs.replace(base, **changes)


def _slot(text: str) -> Figure:
    short = _SLOT.fullmatch(text.lower())
    words = f"{_GENERATIONS[short[1]]} GT/s PCIe x{short[2]}" if short else text
    bandwidth = slot_bandwidth(words)
    if bandwidth is None:
        raise SpecError(
            f"{text!r} is no slot of PCIe.", remedy="Write pcie=gen4x16, or 16.0 GT/s PCIe x16."
        )
    return bandwidth


def _pair(word: str) -> tuple[str, object]:
    key, equals, value = (part.strip() for part in word.partition("="))
    if not equals or key in ("name", "host") or key not in Described.__struct_fields__:
        fields = [field for field in Described.__struct_fields__ if field not in ("name", "host")]
        raise SpecError(
            f"--hardware does not understand {word!r}.",
            remedy=f"Write KEY=VALUE, with a KEY of {', '.join(fields)}.",
        )
    return key, _YES_NO.get(value, value)


def _decode(words: dict[str, object], place: str) -> Described:
    try:
        return decoders.convert(words, Described, strict=False)
    except msgspec.ValidationError as error:
        raise SpecError(
            f"{place}: {error}", remedy="Such as: nic=100gbit,nics=4,gpus=8,gpu=a100,rdma=yes"
        ) from error


GPUS, HOSTS, NVLINKS = "gpus.toml", "hosts.toml", "nvlinks.toml"


class ListedRate(Value, frozen=True, kw_only=True):
    """A rate, as it is written in a file."""

    rate: str  # such as `100gbit` or `1555 GB/s`
    source: str
    part: str = ""  # what it is of, if the source says more than that
    # the name in the corpus of the share that healthy hardware reaches, where that is unlike other
    # GPUs
    threshold: str = ""

    @property
    def figure(self) -> Figure:
        """The figure, in bytes per second."""
        return Figure(
            rate=parse_rate(self.rate), source=self.source, part=self.part, threshold=self.threshold
        )


class ListedPeak(ListedRate, frozen=True, kw_only=True):
    """A peak, which results are compared with, so that everybody can look it up."""

    url: str


class ListedCores(Value, frozen=True, kw_only=True):
    """The cores of a GPU for single precision."""

    cores: int
    MHz: int
    source: str
    url: str

    @property
    def peak(self) -> Figure:
        """The peak in single precision, without tensor cores, in FLOP per second."""
        flops = 2.0 * self.cores * self.MHz * 1e6
        return Figure(rate=flops, source=f"{self.source}, {self.url}")


class HardwareGpu(Value, frozen=True, kw_only=True):
    """A model of GPU; see the head of `gpus.toml`."""

    names: tuple[str, ...]
    architecture: str = ""
    nvlinks: int = 0
    nvlink: ListedRate | None = None
    slot: str = ""
    bus: ListedRate | None = None
    memory: ListedPeak | None = None
    fp32: ListedCores | None = None
    bridge: ListedRate | None = None
    joins: int = 2
    fabric: bool = False
    switched: bool = False
    reduces: bool = False
    raised: bool = False


class HardwareHost(Value, frozen=True, kw_only=True):
    """A type of host; see the head of `hosts.toml`."""

    nic: str
    source: str
    nics: int = 1
    gpu: str = ""
    gpus: int = 0
    rdma: bool = False
    gpudirect: bool = True
    both_ways: ListedRate | None = None


class Maker(Value, frozen=True, kw_only=True):
    """The hosts of one cloud or vendor, and what they have in common."""

    hosts: dict[str, HardwareHost]
    mtu: int
    flow: ListedRate | None = None


@cache
def listed_gpus() -> dict[str, HardwareGpu]:
    """Read `gpus.toml`: the GPUs by their keys."""
    return msgspec.toml.decode(_text(GPUS), type=dict[str, HardwareGpu])


@cache
def listed_nvlinks() -> dict[str, ListedRate]:
    """Read `nvlinks.toml`: one NVLink by the architecture of its GPU."""
    return msgspec.toml.decode(_text(NVLINKS), type=dict[str, ListedRate])


def nvlink(architecture: str, links: int) -> Figure | None:
    """Return the rate of a GPU's NVLinks in one direction: 450 GB/s for 18 of Hopper."""
    entry = listed_nvlinks().get(architecture)
    if entry is None or links < 1:
        return None
    part = f"{links} x NVLink of {architecture}"
    rate = parse_rate(entry.rate) * links
    return Figure(rate=rate, source=f"{part}: {entry.source}", part=part)


@cache
def listed_makers() -> dict[str, Maker]:
    """Read `hosts.toml`."""
    return msgspec.toml.decode(_text(HOSTS), type=dict[str, Maker])


@cache
def listed_hosts() -> dict[str, tuple[str, HardwareHost]]:
    """Return all hosts by their names, each with its maker."""
    makers = listed_makers().items()
    return {name: (key, host) for key, maker in makers for name, host in maker.hosts.items()}


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text()


def of_measured(measurements: Iterable[Measurement]) -> Hardware | None:
    """Return the hardware of a run of `gpu`, if all GPUs of its host are alike and have links.

    It has no bus where the links of the GPUs differ, and no memory where the peaks do: a bound of
    one would be wrong for another.
    """
    rates = [m for m in measurements if m.metric in (LINK, MEMORY)]
    models = {str(m.params["model"]) for m in rates}
    if not any(m.metric == LINK for m in rates) or len(models) != 1:
        return None
    model = models.pop()
    base = of_devices([model]) or Hardware(name=model)
    slots = {str(m.params["slot"]) for m in rates if m.metric == LINK}
    bus = slot_bandwidth(slots.pop()) if len(slots) == 1 else None
    if bus is not None:
        bus = msgspec.structs.replace(bus, source=f"{bus.source} (in use)")
    memory = [m for m in rates if m.metric == MEMORY]
    peak = None if memory else base.memory
    if len({m.values[0] for m in memory}) == 1:
        clock, bits = (int(memory[0].params[name]) for name in ("MHz", "bits"))
        source = f"{2 * clock} MT/s, {bits} bit (nvidia-smi)"
        peak = Figure(rate=memory[0].values[0], source=source)
    return msgspec.structs.replace(base, bus=bus, memory=peak)
