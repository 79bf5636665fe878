"""A launch in a cloud: its intent is on disk before the first call, and each request before it.

So a launch that is continued after a crash, by any process, sends the same calls.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

import msgspec

from cluster.core import journal, ssh_keys
from cluster.core.errors import Capacity, ProvisionError, Timeout, tail
from cluster.core.model.hosts import Link, machine_name
from cluster.core.model.resources import Price
from cluster.core.model.value import Value
from cluster.providers._cloud import capacity_cache
from cluster.providers._cloud.api_errors import PASSING, Failure
from cluster.providers._cloud.client import Client
from cluster.providers._cloud.options import CloudOptions
from cluster.providers._cloud.tags import Selection, Tags

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import StateCallback

NEXT_ZONE = ("capacity", "unsupported")  # kinds of failures after which another zone is tried
POLL = 1.0  # seconds between two checks
M = TypeVar("M")


class CloudOffer(Value, frozen=True, kw_only=True):
    """What a launch would create: the fields that all clouds have.

    Args:
        allow: the network that may connect by SSH.
        ttl: seconds until the machines end by themselves.
        link: of their network interfaces, if that is known.
        price: of one machine for an hour, if that is known.
        lines: the plan, for a person.
        gpus: of each machine.

    """

    allow: str
    ttl: float
    link: Link | None
    price: Price | None
    lines: tuple[str, ...]
    gpus: int = 0


class ListedMachine(Value, Generic[M], frozen=True, kw_only=True):
    """A machine of a launch, as its cloud lists it.

    Args:
        instance: in the cloud's own form.
        number: of the machine, from 0.
        id: that the cloud gave it.
        state: in the cloud's words.
        ready: it runs, and has the addresses that were asked for.

    """

    instance: M
    number: int
    id: str
    state: str
    ready: bool


class EndedMachine(Value, frozen=True, kw_only=True):
    """A machine that ended although no launch or teardown of ours ended it.

    Args:
        state: in the cloud's words.
        why: in the cloud's words; empty if it does not say.
        taken: the cloud took the machine back, or had no room for it; another zone may have.

    """

    id: str
    state: str
    why: str
    taken: bool = False

    def story(self, name: str) -> str:
        """Return what happened, without a full stop."""
        return f"{name} ({self.id}) has ended: {self.why or 'the cloud does not say why'}"

    def failure(self, name: str) -> Failure:
        """Return the failure after which a launch tries the next zone."""
        return Failure("capacity", operation="", code=self.state, message=self.story(name))

    def error(self, name: str) -> ProvisionError:
        """Return the error for a machine of this name."""
        return (Capacity if self.taken else ProvisionError)(
            f"{self.story(name)}.",
            means=f"Its state is {self.state}, so it is not waited for.",
            remedy="Launch again, in another zone: --option zones=a,b"
            if self.taken
            else "Launch again; if it ends again, choose another zone or another --image.",
        )


ClientT = TypeVar("ClientT", bound=Client)
OptionsT = TypeVar("OptionsT", bound=CloudOptions)
Offer = TypeVar("Offer", bound=CloudOffer)
S = TypeVar("S")
T = TypeVar("T")


class Intent(Value, Generic[Offer], frozen=True, kw_only=True):
    """Everything that determines the calls of a launch.

    Args:
        tags: of all its resources.
        offer: what the launch creates.
        places: the numbers of the hosts that the machines are to be, if a cluster gets new ones.

    """

    tags: Tags
    offer: Offer
    places: tuple[int, ...] = ()


class LaunchJournal:
    """Records the calls of one launch in the cluster's journal.

    Args:
        provider: the name of the cloud.
        place: the region or project, in which a later search looks.
        cluster_journal: the journal of the cluster.

    """

    def __init__(self, provider: str, place: str, cluster_journal: journal.Journal) -> None:
        self._provider = provider
        self._place = place
        self._cluster_journal = cluster_journal

    def record_intent(
        self, of: type[Intent[Offer]], account: str, decide: Callable[[], Intent[Offer]]
    ) -> Intent[Offer]:
        """Record what is about to be created, or read the intent of the launch to continue."""
        path = intent_file(self._cluster_journal, self._provider)
        if path.exists():
            return msgspec.json.decode(path.read_bytes(), type=of)
        intent = decide()
        self.record_owner(intent.tags, account)
        ssh_keys.write_secret(path, msgspec.json.encode(intent))
        journal.remember_region(self._provider, self._place)
        return intent

    def record_owner(self, tags: Tags, account: str) -> None:
        """Record who is about to create resources, and by which tags they are found."""
        self._cluster_journal.append(
            journal.Owned(
                provider=self._provider,
                region=self._place,
                account=account,
                owner=tags.owner,
                launch=tags.launch,
            )
        )

    def note(self, kind: str, token: str) -> None:
        """Record what the next call creates.

        Args:
            token: by which the resource is found, or by which the cloud recognises a repeated call.

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

    def made(self, token: str, *ids: str) -> None:
        """Record what a call created, by which it is found if its tags are removed."""
        self._cluster_journal.append(journal.Answered(token=token, ids=ids))

    def machines(self, token: str, ask: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Request machines, and record how long the call took.

        Raises:
            Failure: the call failed; if throttled or lost, it may have created machines.

        """
        began = time.monotonic()
        ids = self.request(journal.INSTANCES, token, ask)
        self.timed("create", time.monotonic() - began)
        return ids

    def request(self, kind: str, token: str, ask: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Request what costs money: record the call before it is sent, then the ids it returned.

        Raises:
            Failure: the call failed; if throttled or lost, it may have created resources.

        """
        self.note(kind, token)
        try:
            ids = ask()
        except Failure as failure:
            if failure.kind not in PASSING:
                self.made(token)
            raise
        self.made(token, *ids)
        return ids

    def timed(self, phase: str, seconds: float) -> None:
        """Record how long a phase took.

        Args:
            phase: such as `running`.

        """
        self._cluster_journal.append(journal.Timed(phase=phase, seconds=seconds))

    def resume_at(self, sites: tuple[S, ...], token: Callable[[S], str]) -> int:
        """Return the site at which a resumed launch goes on: the last one that it has tried.

        Returns:
            The index of the site; 0 if none was tried.

        """
        known = {
            entry.token
            for entry in self._cluster_journal.entries()
            if isinstance(entry, journal.Requested)
        }
        asked = [number for number, site in enumerate(sites) if token(site) in known]
        return max(asked, default=0)


class CloudLaunch(Generic[ClientT, OptionsT, Offer]):
    """One launch in a cloud; each cloud's subclass creates the resources.

    Args:
        client: of the region or project in which to create them.
        spec: what the user asked for.
        options: of the spec.
        cluster_journal: the journal of the cluster.
        intent: what to create.
        on_state: called with a machine's name and the state that it has reached.

    """

    provider: ClassVar[str]
    """The name of the cloud."""

    def __init__(
        self,
        client: ClientT,
        spec: ClusterSpec,
        options: OptionsT,
        cluster_journal: journal.Journal,
        intent: Intent[Offer],
        on_state: StateCallback,
    ) -> None:
        self._client = client
        self._spec = spec
        self._options = options
        self._cluster_journal = cluster_journal
        self._journal = LaunchJournal(self.provider, client.name, cluster_journal)
        self._tags, self._offer = intent.tags, intent.offer
        self._added = bool(intent.places)
        self._places = intent.places or tuple(range(spec.hosts))
        self._whose = Selection(launches=(intent.tags.launch,))
        self._on_state = on_state

    def _wait(
        self,
        look: Callable[[], Sequence[ListedMachine[M]]],
        check: Callable[[Sequence[ListedMachine[M]], float], None],
        console: Callable[[M], str],
    ) -> tuple[M, ...]:
        """Wait until all machines run and have their addresses.

        Args:
            check: raises if one has ended, or if one should be listed after these seconds.

        """
        began = time.monotonic()
        while True:
            found = look()
            states = {one.number: one.state.lower() for one in found}
            for number in range(self._spec.hosts):
                self._on_state(self._name(number), states.get(number, "not listed yet"))
            check(found, time.monotonic() - began)
            late = [one for one in found if not one.ready]
            seconds = time.monotonic() - began
            if len(found) == self._spec.hosts and not late:
                self._journal.timed("running", seconds)
                return tuple(one.instance for one in found)
            if late and seconds > self._options.wait:
                raise self._late(late, seconds, console(late[0].instance))
            time.sleep(POLL)

    def _late(
        self, late: Sequence[ListedMachine[M]], seconds: float, console: str
    ) -> ProvisionError:
        slowest, said = late[0], tail(console)
        return Timeout(
            f"{self._name(slowest.number)} ({slowest.id}) is not ready after {seconds:.0f} s: "
            f"{slowest.state} ({len(late)} of {self._spec.hosts} are late).",
            means=f"Its console:\n{said}" if said else "Its console is empty.",
            remedy="Wait longer: --option wait=600; or try another zone: --option zones=a,b",
        )

    def _end(self, number: int, one: EndedMachine) -> Exception:
        """Return what to raise for a machine that ended while it is waited for."""
        name = self._name(number)
        return one.failure(name) if one.taken else one.error(name)

    def _name(self, number: int) -> str:
        return machine_name(self._spec.name, self._places[number])


def intent_file(cluster_journal: journal.Journal, provider: str) -> Path:
    """Return the path of the file with a launch's intent."""
    return cluster_journal.folder / f"{provider}.json"


def try_zones(
    sites: tuple[S, ...],
    ask: Callable[[S], T],
    *,
    first: int = 0,
    zone: Callable[[S], str],
    instance: str,
    give_back: Callable[[], None],
) -> T:
    """Try one site after another, until one has room for all machines.

    Args:
        sites: at least one.

    Raises:
        Failure: of a kind that another zone does not change, or all sites have failed.

    """
    for site in sites[first:]:
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
    """Add the zones that were tried to the message of a failure."""
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
    """Return the failure of a zone that created fewer machines than requested.

    Args:
        what: the zone did, such as `gave 3 of 4 machines`.

    Returns:
        A failure of the kind `capacity`.

    """
    message = f"{where} {what}; a partial launch is useless, so its machines were terminated"
    return Failure("capacity", operation=operation, code="too few machines", message=message)
