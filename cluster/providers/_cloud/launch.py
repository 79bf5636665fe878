"""A launch in a cloud: what was decided is on disk before anything, and each order before its call.

So the same launch, begun again by whoever comes after a crash, makes the same calls.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import msgspec

from cluster.core import journal, ssh_keys
from cluster.core.model.hosts import Link
from cluster.core.model.resources import Price
from cluster.core.model.value import Value
from cluster.providers._cloud import capacity_cache
from cluster.providers._cloud.api_errors import PASSING, Failure
from cluster.providers._cloud.client import Client
from cluster.providers._cloud.options import CloudOptions
from cluster.providers._cloud.tags import Selection, Tags

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import StateCallback

NEXT_ZONE = ("capacity", "unsupported")  # kinds of failures that another zone may not have


class CloudOffer(Value, frozen=True, kw_only=True):
    """What a cloud would make, as far as it is the same for all of them.

    Args:
        allow: the network that SSH is open to.
        ttl: seconds until the machines end by themselves.
        link: what their network can do, where that is known.
        price: of one machine for an hour, where that is known.
        lines: the same for a person.
        gpus: of each machine.

    """

    allow: str
    ttl: float
    link: Link | None
    price: Price | None
    lines: tuple[str, ...]
    gpus: int = 0


ClientT = TypeVar("ClientT", bound=Client)
OptionsT = TypeVar("OptionsT", bound=CloudOptions)
Offer = TypeVar("Offer", bound=CloudOffer)
S = TypeVar("S")
T = TypeVar("T")


class Intent(Value, Generic[Offer], frozen=True, kw_only=True):
    """Everything that a launch asks for; the same file, the same calls.

    Args:
        tags: that everything will carry; their field in the file is called `mark`.
        offer: what was decided.

    """

    tags: Tags = msgspec.field(name="mark")
    offer: Offer


class LaunchJournal:
    """What one launch asks a cloud for, in the cluster's journal.

    Args:
        provider: the name of the cloud.
        place: in it, as a later search needs it: a region or a project.
        book: of the cluster.

    """

    def __init__(self, provider: str, place: str, book: journal.Journal) -> None:
        """Write nothing yet."""
        self._provider = provider
        self._place = place
        self._cluster_journal = book

    def record_intent(
        self, of: type[Intent[Offer]], account: str, decide: Callable[[], Intent[Offer]]
    ) -> Intent[Offer]:
        """Write down what is about to be made; a launch that was begun before goes on.

        Args:
            of: the intent's type.
            account: of whoever launches.
            decide: gives what was decided.

        Returns:
            The intent, on disk.

        """
        path = intent_file(self._cluster_journal, self._provider)
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=of)
        intent = decide()
        self._cluster_journal.append(
            journal.Owned(
                provider=self._provider,
                region=self._place,
                account=account,
                owner=intent.tags.owner,
                launch=intent.tags.launch,
            )
        )
        ssh_keys.write_secret(path, msgspec.json.encode(intent))
        journal.remember_region(self._provider, self._place)
        return intent

    def note(self, kind: str, token: str) -> None:
        """Write down what the next call makes.

        Args:
            kind: of thing.
            token: by which it is found, or by which the cloud knows the call again.

        """
        self._cluster_journal.append(
            journal.Requested(
                provider=self._provider,
                region=self._place,
                kind=kind,
                token=token,
                at=time.time(),
            )
        )

    def machines(self, token: str, ask: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Request machines, and write down how long the call took.

        Args:
            token: by which the cloud knows the call again.
            ask: the call; gives the ids of the machines.

        Returns:
            The ids.

        Raises:
            Failure: it was refused; if it is one that passes, nobody knows whether it was done.

        """
        began = time.monotonic()
        ids = self.request(journal.INSTANCES, token, ask)
        self.timed("create", time.monotonic() - began)
        return ids

    def request(self, kind: str, token: str, ask: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Request what costs money: write down before the call that it is sent, then its ids.

        Args:
            kind: of thing.
            token: of this call and no other.
            ask: the call; gives the ids of what was made.

        Returns:
            The ids.

        Raises:
            Failure: it was refused; if it is one that passes, nobody knows whether it was done.

        """
        self.note(kind, token)
        try:
            ids = ask()
        except Failure as failure:
            if failure.kind not in PASSING:
                self._cluster_journal.append(journal.Answered(token=token))
            raise
        self._cluster_journal.append(journal.Answered(token=token, ids=ids))
        return ids

    def timed(self, phase: str, seconds: float) -> None:
        """Write down how long a phase took.

        Args:
            phase: such as `running`.
            seconds: of it.

        """
        self._cluster_journal.append(journal.Timed(phase=phase, seconds=seconds))

    def left(self, sites: tuple[S, ...], token: Callable[[S], str]) -> tuple[S, ...]:
        """Give the sites that are still to be asked: a launch that goes on begins with the last.

        Args:
            sites: of the offer, in their order.
            token: gives that of the order of machines at a site.

        Returns:
            The last one that was asked, and those after it.

        """
        known = {
            entry.token
            for entry in self._cluster_journal.entries()
            if isinstance(entry, journal.Requested)
        }
        asked = [number for number, site in enumerate(sites) if token(site) in known]
        return sites[max(asked, default=0) :]


class CloudLaunch(Generic[ClientT, OptionsT, Offer]):
    """One launch in a cloud; each cloud makes what its machines need.

    Args:
        client: asks the place where it is made: a region or a project.
        spec: what is asked.
        options: of it.
        book: the journal of the cluster.
        intent: what was decided.
        tell: called with a machine and the state that it got to.

    """

    provider: ClassVar[str]
    """The name of the cloud."""

    def __init__(
        self,
        client: ClientT,
        spec: ClusterSpec,
        options: OptionsT,
        book: journal.Journal,
        intent: Intent[Offer],
        tell: StateCallback,
    ) -> None:
        """Begin with nothing made."""
        self._client = client
        self._spec = spec
        self._options = options
        self._cluster_journal = book
        self._journal = LaunchJournal(self.provider, client.name, book)
        self._tags, self._offer = intent.tags, intent.offer
        self._whose = Selection(launches=(intent.tags.launch,))
        self._tell = tell


def intent_file(book: journal.Journal, provider: str) -> Path:
    """Give the file of a launch's intent.

    Args:
        book: of the cluster.
        provider: the name of the cloud.

    Returns:
        Its path.

    """
    return book.folder / f"{provider}.json"


def try_zones(
    sites: tuple[S, ...],
    ask: Callable[[S], T],
    *,
    zone: Callable[[S], str],
    instance: str,
    give_back: Callable[[], None],
) -> T:
    """Ask site after site, until one has room for all machines.

    Args:
        sites: at least one.
        ask: makes the machines at one.
        zone: gives a site's zone.
        instance: the type of the machines.
        give_back: takes away the part that a site may have made before it refused.

    Returns:
        What the first site gave that has them all.

    Raises:
        Failure: no other zone can help against it, or the last one has no room either.

    """
    for site in sites:
        try:
            return ask(site)
        except Failure as failure:
            if failure.kind == "capacity":
                capacity_cache.note(zone(site), instance)
            if failure.kind not in NEXT_ZONE:
                raise
            if site == sites[-1]:
                raise _with_zones(failure, [zone(one) for one in sites]) from failure
        give_back()
    raise AssertionError("an offer has a site")


def _with_zones(failure: Failure, tried: list[str]) -> Failure:
    """Add the zones that refused before the last one did."""
    if len(tried) == 1:
        return failure
    return Failure(
        failure.kind,
        operation=failure.operation,
        code=failure.code,
        message=f"{failure.message.rstrip('.')}. It was tried in {', '.join(tried)}",
        request=failure.request,
    )


def too_few_machines(operation: str, where: str, what: str) -> Failure:
    """Say that a zone gave fewer machines than it was asked for.

    Args:
        operation: that was called.
        where: the zone.
        what: it did.

    Returns:
        A failure for want of capacity.

    """
    message = f"{where} {what}; a part is of no use, and was given back"
    return Failure("capacity", operation=operation, code="too few machines", message=message)
