"""Values of the devices of one host in the logs of other tools: a file for each kind of device.

The kinds are found by being in this folder; reports/words/devices.py has the words for each. A file
has `read`, which returns the pairs if the logs are of its kind, and may have `is_matrix`, which
tells whether a result is of no other kind.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple, Protocol, cast

from cluster.core.errors import SpecError
from cluster.core.model.logs import Parsed, Reading, Topology
from cluster.core.model.network.fleet import PairAssumption, PairLogs, PairMetric
from cluster.reports.words.devices import KINDS

NAMED = 3  # files in a message
SEVERAL = 2  # NICs, or nodes, from which logs are of the NICs, or nodes, of a host
SAME_NUMBERS = PairAssumption("same_numbers")


class LogText(NamedTuple):
    file: str
    text: str


class ReadLog(NamedTuple):
    log: LogText
    reading: Reading


class UnreadLog(NamedTuple):
    log: LogText
    why: str


class DeviceLogs(NamedTuple):
    """The logs of a check, and what is to be judged."""

    readings: Sequence[ReadLog]
    unread: Sequence[UnreadLog]
    metric: PairMetric
    series: str  # words in the name of the test, if the logs have several
    of_hosts: bool  # the logs name several pairs of hosts

    @property
    def results(self) -> list[Parsed]:
        return [result for log in self.readings for result in log.reading.results]

    @property
    def matrices(self) -> list[Topology]:
        """What connects devices: the output of nvidia-smi topo -m and numactl --hardware."""
        return [r.detail for r in self.results if isinstance(r.detail, Topology)]

    @property
    def gpu_matrix(self) -> Topology | None:
        return next((m for m in self.matrices if any(d.is_gpu for d in m.devices)), None)

    @property
    def node_matrix(self) -> Topology | None:
        return next((m for m in self.matrices if any(d.is_node for d in m.devices)), None)


class DeviceKindReader(Protocol):
    """A file of this folder."""

    def read(self, logs: DeviceLogs) -> PairLogs | None:
        """Return the values of its devices; none if the logs are of something else.

        Raises:
            SpecError: the logs are of this kind, and cannot be judged.
        """


def readers() -> dict[str, DeviceKindReader]:
    names = sorted(module.name for module in iter_modules(__path__))
    return {name: cast("DeviceKindReader", import_module(f"{__name__}.{name}")) for name in names}


def matrix_kinds(result: Parsed) -> list[str]:
    checks = ((name, getattr(reader, "is_matrix", None)) for name, reader in readers().items())
    return [name for name, is_matrix in checks if is_matrix and is_matrix(result)]


def only_matrix(logs: DeviceLogs, kind: str, noun: str, tool: str) -> ReadLog | None:
    """Return the only log with the matrix of a kind (SpecError); None if hosts have values, too."""
    kinds = {log.log.file: {k for r in log.reading.results for k in matrix_kinds(r)}
             for log in logs.readings}  # fmt: skip
    matches = [log for log in logs.readings if kind in kinds[log.log.file]]
    rest = [log for log in logs.readings if not kinds[log.log.file]]
    if not matches or any(result.measurements for log in rest for result in log.reading.results):
        return None
    numbers = sorted(set.union(*kinds.values()))
    if len(numbers) > 1:
        several = ", others of ".join(KINDS[name].several for name in numbers)
        raise SpecError(
            f"Some logs are of {several}; one kind is judged at a time.",
            remedy="Name only the logs of one kind.",
        )
    if len(matches) > 1:
        names = ", ".join(Path(log.log.file).name for log in matches[:NAMED])
        raise SpecError(
            f"{len(matches)} logs have {noun}, and one host is judged at a time: {names}.",
            remedy=f"Name one of them, and the log of {tool} of the same host.",
        )
    return matches[0]
