"""Delete resources until none is listed: a cloud needs time to delete, and even to list, them."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from cluster.core.errors import ProvisionError
from cluster.core.model.resources import Resource
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.providers._cloud.api_errors import PASSING, Failure
from cluster.providers._cloud.tags import Selection, Tags

Entries = tuple[journal.Entry, ...]  # of a cluster's journal
WITHIN = 600.0  # seconds for everything to be gone
FIRST_POLL, LONGEST_POLL = 0.1, 2.0  # seconds between two rounds


class CloudResource(Value, frozen=True, kw_only=True):
    kind: str  # for a person, such as `volume`
    id: str  # for a person; it identifies the resource in the cloud's console
    state: str = ""  # as the cloud calls it; empty if it has none
    tags: Tags | None  # of the resource; none if it has none of cluster's

    @property
    def resource(self) -> Resource:
        state = f" ({self.state})" if self.state else ""
        return Resource(kind=f"{self.kind}{state}", id=self.id)


R = TypeVar("R", bound=CloudResource)


class Deletion(ABC, Generic[R]):
    """Finds and deletes selected resources in one place of a cloud, such as `us-east-1`."""

    kinds: ClassVar[str]
    """The kinds of resources that are searched for, for a person: `instances, disks, ...`."""
    types: ClassVar[Sequence[Any]]
    """Those besides machines, in the order in which they can be deleted."""
    place: ClassVar[str] = "{}"
    """How messages name a place, such as `the project {}`."""

    def __init__(self, client: Any, selection: Selection, entries: Entries | None = None) -> None:  # noqa: ANN401
        """Select resources; of a journal, also those that it names (empty: it was lost)."""
        self._client = client
        self._selection = selection
        self._entries = entries
        self._place = self.place.format(client.name)
        self._refused_at: float | None = None

    @abstractmethod
    def _machines(self) -> Sequence[R]:
        """List the machines that exist."""

    @abstractmethod
    def _resources_of(self, type_: Any) -> Sequence[R]:  # noqa: ANN401 - each cloud has its own
        """List the resources of one of the `types`."""

    @abstractmethod
    def _delete(self, resources: Sequence[R]) -> None:
        """Start to delete resources; those still in use are deleted in a later round."""

    def resources(self) -> tuple[R, ...]:
        return (*self._machines(), *(r for type_ in self.types for r in self._resources_of(type_)))

    @abstractmethod
    def _late_resources(self) -> tuple[Resource, ...]:
        """Return resources that may exist although the cloud does not list them yet."""

    def _unproven(self) -> tuple[Resource, ...]:
        """Return machines that are not listed any more, although nothing shows that they ended."""
        return ()

    def delete(self) -> None:
        """Delete all selected resources, and repeat until none is listed.

        ProvisionError: something is left. Failure: a call was refused; all else is gone.
        """
        delete_until_gone(lambda: self._round() or self._late_resources(), self._place)

    def delete_machines(self) -> None:
        """Delete the machines, and wait until they are gone (ProvisionError, Failure)."""
        delete_until_gone(self._attempt_machines, self._place)

    def list_except(self, keep: Collection[str]) -> Sequence[R]:
        return [machine for machine in self._machines() if machine.id not in keep]

    def delete_except(self, keep: Collection[str]) -> None:
        """Delete all machines besides some, wait until they are gone, then delete what they used.

        ProvisionError: some are left. Failure: the cloud refused a call.
        """
        delete_until_gone(
            lambda: self._attempt(self.list_except(keep)) or self._late_resources(), self._place
        )
        self._delete(self._leftovers())

    def _leftovers(self) -> Sequence[R]:
        """List what costs money although the machine that used it is gone."""
        return ()

    def _round(self) -> tuple[Resource, ...]:
        """Delete what can be deleted now, machines first, then by kind; return what still existed.

        A kind that the account may not list or delete does not keep the others from deletion. Its
        failure is raised once the others are gone, or after `listing_delay`, because a resource of
        that kind may still use some of them.
        """
        if machines := self._attempt_machines() or self._unproven():
            return machines
        remaining: tuple[Resource, ...] = ()
        refusals: list[Failure] = []
        for type_ in self.types:
            try:
                remaining += self._attempt(self._resources_of(type_))
            except Failure as failure:
                if failure.kind in PASSING:
                    raise
                refusals.append(failure)
        if refusals:
            self._refused_at = self._refused_at or time.monotonic()
            if not remaining or time.monotonic() - self._refused_at > listing_delay():
                raise refusals[0]
        return remaining

    def _attempt_machines(self) -> tuple[Resource, ...]:
        return self._attempt(self._machines())

    def _attempt(self, targets: Sequence[R]) -> tuple[Resource, ...]:
        self._delete(targets)
        return tuple(target.resource for target in targets)


def listing_delay() -> float:
    """Return the seconds after which a cloud lists all that it created; set by `CLUSTER_LATE`.

    docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html gives no figure; other tools
    wait for up to 30 s.
    """
    return float(os.environ.get("CLUSTER_LATE", "30"))


def delete_until_gone(attempt: Callable[[], tuple[Resource, ...]], place: str) -> None:
    """Repeat a round of deletion until nothing is left, also if calls are throttled or lost.

    A page of a proxy, which each call has waited for to pass, ends it. ProvisionError: something is
    left after `WITHIN` seconds. Failure: a call was refused, or got no answer in that time.
    """
    deadline, pause = time.monotonic() + WITHIN, FIRST_POLL
    while True:
        try:
            remaining = attempt()
        except Failure as failure:
            is_over = failure.kind == "foreign" or time.monotonic() > deadline
            if failure.kind not in PASSING or is_over:
                raise
        else:
            if not remaining:
                return
            if time.monotonic() > deadline:
                raise ProvisionError(
                    f"{len(remaining)} resource(s) were not seen to be gone in {place}: "
                    + ", ".join(f"{resource.kind} {resource.id}" for resource in remaining),
                    means="Deletion was retried, and the cloud still lists them.",
                    remedy="Try again: cluster more gc -y",
                )
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_POLL)
