"""Host keys from guest attributes: they are known before the first connection to a machine.

The guest agent writes the public keys into the machine's guest attributes at its first boot, before
anybody can log in. Google allows ten queries of them per minute and machine
(cloud.google.com/compute/docs/metadata/manage-guest-attributes).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cluster.core.errors import Timeout, tail
from cluster.providers._cloud.api_errors import Failure
from cluster.providers.gcp.delete import AT_ONCE, console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.cloud.compute_v1.types.compute import GuestAttributes, Instance

    from cluster.providers.gcp.api import Project

Keys = tuple[str, ...]

PAUSES = (0.5, 0.5, 1.0, 2.0, 4.0)  # seconds after the first queries
PAUSE = 7.0  # seconds after each later query, so that no minute has more than ten


class HostKeys:
    """Reads the host keys of machines that are starting, within some seconds for all of them."""

    def __init__(self, project: Project, within: float) -> None:
        self._project = project
        self._within = within

    def wait(
        self, machines: tuple[Instance, ...], check: Callable[[], None]
    ) -> tuple[tuple[Instance, Keys], ...]:
        """Wait until every machine has reported its host keys (Timeout, Failure).

        `check` raises if a machine ended; it is called between two queries.
        """
        deadline = time.monotonic() + self._within
        keys: dict[str, Keys] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for pause in _pauses():
                late = [instance for instance in machines if not keys.get(instance.name)]
                keys |= zip(
                    (instance.name for instance in late), pool.map(self._query, late), strict=True
                )
                late = [instance for instance in late if not keys[instance.name]]
                if not late:
                    break
                check()
                if time.monotonic() + pause > deadline:
                    raise self._late(late[0])
                time.sleep(pause)
        return tuple((instance, keys[instance.name]) for instance in machines)

    def _late(self, instance: Instance) -> Timeout:
        output = tail(console(self._project, instance.zone.rpartition("/")[2], instance.name))
        return Timeout(
            f"{instance.name} has not reported its host keys within {self._within:.0f} s.",
            means=f"Its console:\n{output}" if output else "Its console is empty.",
            remedy="Its image needs Google's guest agent; wait longer: --option wait=600",
        )

    def _query(self, instance: Instance) -> Keys:
        try:
            answer: GuestAttributes = self._project.call(
                "instances",
                "get_guest_attributes",
                zone=instance.zone.rpartition("/")[2],
                instance=instance.name,
                query_path="hostkeys/",
            )
        except Failure as failure:
            if failure.kind != "missing":
                raise
            return ()
        return tuple(f"{item.key} {item.value}" for item in answer.query_value.items)


def _pauses() -> Iterator[float]:
    yield from PAUSES
    while True:
        yield PAUSE
