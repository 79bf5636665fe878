"""The lists of GPUs and hosts, in `gpus.toml` and `hosts.toml` beside this file."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from cluster.core.model.hardware import Figure
from cluster.core.model.value import Value
from cluster.core.units import parse_rate

GPUS, HOSTS, NVLINKS = "gpus.toml", "hosts.toml", "nvlinks.toml"


class ListedRate(Value, frozen=True, kw_only=True):
    """A rate, as it is written in a file."""

    rate: str  # such as `100gbit` or `1555 GB/s`
    source: str
    # the name in the corpus of the share that healthy hardware reaches, where that is unlike other
    # GPUs
    threshold: str = ""

    @property
    def figure(self) -> Figure:
        """The figure, in bytes per second."""
        return Figure(rate=parse_rate(self.rate), source=self.source, threshold=self.threshold)


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


class Maker(Value, frozen=True, kw_only=True):
    """What all hosts of one cloud or vendor have in common."""

    mtu: int
    flow: ListedRate | None = None


class HardwareHost(Value, frozen=True, kw_only=True):
    """A type of host; see the head of `hosts.toml`."""

    maker: str
    nic: str
    source: str
    nics: int = 1
    gpu: str = ""
    gpus: int = 0
    rdma: bool = False
    gpudirect: bool = True
    both_ways: ListedRate | None = None


class HardwareHosts(Value, frozen=True, kw_only=True):
    """All of `hosts.toml`."""

    makers: dict[str, Maker]
    hosts: dict[str, HardwareHost]


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
    listed = listed_nvlinks().get(architecture)
    if listed is None or links < 1:
        return None
    each = listed.figure
    return Figure(
        rate=each.rate * links, source=f"{links} x NVLink of {architecture}: {each.source}"
    )


@cache
def listed_hosts() -> HardwareHosts:
    """Read `hosts.toml`."""
    return msgspec.toml.decode(_text(HOSTS), type=HardwareHosts)


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text()
