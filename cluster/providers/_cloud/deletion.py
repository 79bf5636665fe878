"""Taking away until nothing is left: a cloud takes a while to do, and even to list, what it did."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from cluster.core.errors import ProvisionError
from cluster.core.model.resources import Resource
from cluster.core.model.value import Value
from cluster.providers._cloud.api_errors import PASSING, Failure
from cluster.providers._cloud.tags import Tags

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WITHIN = 600.0  # seconds for everything to be gone
FIRST_POLL, LONGEST_POLL = 0.1, 2.0  # seconds between two looks


class CloudResource(Value, frozen=True, kw_only=True):
    """Something of ours that exists in a cloud.

    Args:
        kind: for a person, such as `volume`.
        id: by which a person finds it.
        state: as the cloud calls it; empty where it has none.
        tags: that it carries.

    """

    kind: str
    id: str
    state: str = ""
    tags: Tags | None

    @property
    def resource(self) -> Resource:
        """The same for whoever wonders what is left."""
        state = f" ({self.state})" if self.state else ""
        return Resource(kind=f"{self.kind}{state}", id=self.id)


R = TypeVar("R", bound=CloudResource)


class Deletion(ABC, Generic[R]):
    """What exists of ours in one place of a cloud, and its end.

    Args:
        where: the place, for a person, such as `us-east-1`.

    """

    def __init__(self, where: str) -> None:
        """Nothing is asked yet."""
        self._where = where
        self._refused_at: float | None = None

    @abstractmethod
    def _machines(self) -> Sequence[R]:
        """List the machines that exist."""

    @abstractmethod
    def _others(self) -> Sequence[Callable[[], Sequence[R]]]:
        """Give what lists each other kind of thing, in the order in which they can go."""

    @abstractmethod
    def _delete(self, there: Sequence[R]) -> None:
        """Begin to delete; what is still in use goes in a later round."""

    def found(self) -> tuple[R, ...]:
        """List everything that exists.

        Returns:
            It.

        """
        return (*self._machines(), *(one for list_ in self._others() for one in list_()))

    @abstractmethod
    def _unlisted(self) -> tuple[Resource, ...]:
        """Give what may exist though it is not listed yet."""

    def delete(self) -> None:
        """Take away everything, and look until nothing is listed.

        Raises:
            ProvisionError: something is left.
            Failure: the cloud refused a call; what does not need that call is gone.

        """
        delete_until_gone(lambda: self._round() or self._unlisted(), self._where)

    def delete_machines(self) -> None:
        """Take away the machines, and wait until they are gone.

        Raises:
            ProvisionError: some are left.
            Failure: the cloud refused a call.

        """
        delete_until_gone(lambda: self._attempt(self._machines()), self._where)

    def _round(self) -> tuple[Resource, ...]:
        """Take away what can go now: machines first, then kind by kind; give what was there.

        A kind that may not be listed or deleted keeps no other; its failure is raised once the
        others are gone, or have had as long as a cloud needs: some may be in use by that kind.
        """
        if machines := self._attempt(self._machines()):
            return machines
        left: tuple[Resource, ...] = ()
        refused: list[Failure] = []
        for list_ in self._others():
            try:
                left += self._attempt(list_())
            except Failure as failure:
                if failure.kind in PASSING:
                    raise
                refused.append(failure)
        if refused:
            self._refused_at = self._refused_at or time.monotonic()
            if not left or time.monotonic() - self._refused_at > listing_delay():
                raise refused[0]
        return left

    def _attempt(self, there: Sequence[R]) -> tuple[Resource, ...]:
        self._delete(there)
        return tuple(one.resource for one in there)


def listing_delay() -> float:
    """Give the seconds after which a cloud lists whatever it made; `CLUSTER_LATE` changes it.

    Source: docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html has no figure; the
    other tools wait for up to 30.
    """
    return float(os.environ.get("CLUSTER_LATE", "30"))


def delete_until_gone(attempt: Callable[[], tuple[Resource, ...]], where: str) -> None:
    """Attempt to take things away until none is there, also while the cloud does not answer.

    Args:
        attempt: takes away what can go now, and tells what was there.
        where: for a person, such as `us-east-1`.

    Raises:
        ProvisionError: something is left.
        Failure: the cloud refused a call, or has not answered all the time.

    """
    deadline, pause = time.monotonic() + WITHIN, FIRST_POLL
    while True:
        try:
            left = attempt()
        except Failure as failure:
            if failure.kind not in PASSING or time.monotonic() > deadline:
                raise
        else:
            if not left:
                return
            if time.monotonic() > deadline:
                raise _left(left, where)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_POLL)


def _left(left: tuple[Resource, ...], where: str) -> ProvisionError:
    return ProvisionError(
        f"{len(left)} resource(s) still exist in {where}: "
        + ", ".join(f"{one.kind} {one.id}" for one in left),
        means="They were to go, and the cloud was asked again and again.",
        remedy="Try again: cluster gc -y",
    )
