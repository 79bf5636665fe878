"""A launch in a cloud: its intent is on disk before the first call, and each request before it.

So a launch that is continued after a crash, by any process, sends the same calls.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from cluster.core import decoders
from cluster.core.errors import (
    Capacity,
    ClusterError,
    ProvisionError,
    Quota,
    SpecError,
    Timeout,
    tail,
)
from cluster.core.model.hosts import Access, Link, Machine
from cluster.core.model.resources import Price
from cluster.core.model.spec import SpecPart, machine_name
from cluster.core.model.value import StateCallback, Value
from cluster.core.state import files, journal, ssh_keys
from cluster.core.state.files import make_private, state_folder
from cluster.providers._cloud.api_errors import PASSING, Failure, Kind, retry
from cluster.providers._cloud.deletion import Deletion
from cluster.providers._cloud.options import CloudOptions
from cluster.providers._cloud.tags import Selection, Tags

NEXT_ZONE = ("capacity", "unsupported")  # kinds of failures after which another zone is tried
POLL = 1.0  # seconds between two checks
ATTEMPTS = 3  # at a site that fails with an internal error of the cloud
PAUSE = 1.0  # seconds between two of them
SHORTAGES = "shortages.jsonl"  # trying these zones again at once wastes time and calls
REMEMBERED = 180.0  # seconds; as Karpenter does (pkg/cache/cache.go, UnavailableOfferingsTTL)
M = TypeVar("M")


class Client(Protocol):
    """Calls the API of a cloud in one place: a region of Amazon, a project of Google."""

    name: str

    @property
    def account(self) -> str:
        """The account that is billed: its number or name in the cloud."""

    @property
    def owner(self) -> str:
        """The identity of the caller in that account, without the session."""

    @property
    def user(self) -> str:
        """The caller's name in the cloud's policies; empty if these use `owner`."""

    def now(self) -> float:
        """Return the time of the cloud's clock, in seconds since the epoch."""

    def console(self, machine: str) -> str:
        """Read the console of a machine by its id; empty if there is none, or it is not read."""


class Site(Value, frozen=True, kw_only=True):
    """Where a launch may create its machines."""

    zone: str  # of the cloud
    subnet: str = ""  # its id at Amazon; the launch creates one, if empty


class Demand(Value, frozen=True, kw_only=True):
    """What a group of hosts takes of something that all groups share, and how much is free."""

    what: str  # in words, and unlike any other, such as `instances of cr-0123`
    count: int
    free: float
    remedy: str
    zone: str = ""  # the only one that it matters in
    is_quota: bool = False

    @property
    def error(self) -> ClusterError:
        return (Quota if self.is_quota else SpecError)(
            f"The groups need {self.count} {self.what} together; {self.free:g} are free.",
            remedy=self.remedy,
        )


class CloudOffer(Value, frozen=True, kw_only=True):
    """What a launch would create: the fields that all clouds have."""

    sites: tuple[Site, ...]  # to try one after another
    demands: tuple[Demand, ...] = ()
    allow: str  # the network that may connect by SSH
    ttl: float  # seconds until the machines end by themselves
    region: str = ""  # of all resources, at clouds that have regions
    link: Link | None  # of their network interfaces, if that is known
    price: Price | None  # of one machine for an hour, if that is known
    lines: tuple[str, ...]  # the plan, for a person
    gpus: int = 0  # of each machine
    reservation: str = ""  # that they use: its id at Amazon, its name at Google
    queue: float = 0.0  # seconds that they may wait there before they start


class InstanceView(Value, frozen=True, kw_only=True):
    """The fields of an instance that all clouds have."""

    id: str  # of the instance in the cloud
    alias: str  # its name in known_hosts: an address may be reused, an id never is
    private: str  # its address in the cluster's network
    public: str  # its public address; empty if it has none


class ListedMachine(Value, Generic[M], frozen=True, kw_only=True):
    instance: M  # in the cloud's own form
    view: InstanceView
    number: int  # of the machine, from 0
    state: str  # in the cloud's words
    ready: bool  # it runs, and has the addresses that were asked for


class EndedMachine(Value, frozen=True, kw_only=True):
    """A machine that ended although no launch or teardown of ours ended it."""

    id: str
    state: str  # in the cloud's words
    why: str  # in the cloud's words; empty if it does not say
    # the cloud took the machine back, or had no room for it; another zone may have
    is_reclaimed: bool = False

    def story(self, name: str) -> str:
        return f"{name} ({self.id}) has ended: {self.why or 'the cloud does not say why'}"

    def failure(self, name: str) -> Failure:
        """Return the failure after which a launch tries the next zone."""
        return Failure("capacity", operation="", code=self.state, message=self.story(name))

    def error(self, name: str) -> ProvisionError:
        return (Capacity if self.is_reclaimed else ProvisionError)(
            f"{self.story(name)}.",
            means=f"Its state is {self.state}, so it is not waited for.",
            remedy="Launch again, in another zone: --option zones=a,b"
            if self.is_reclaimed
            else "Launch again; if it ends again, choose another zone or another --image.",
        )


ClientT = TypeVar("ClientT", bound=Client)
OptionsT = TypeVar("OptionsT", bound=CloudOptions)
OfferT = TypeVar("OfferT", bound=CloudOffer)


class Intent(Value, Generic[OfferT], frozen=True, kw_only=True):
    """Everything that determines the calls of a launch."""

    tags: Tags  # of all its resources
    offers: dict[str, OfferT]  # what the launch creates, by groups of hosts
    # the numbers of the hosts that the machines are to be, if a cluster gets new ones
    places: tuple[int, ...] = ()


class LaunchJournal:
    """Records the calls of one launch in the journal, and its `place`: a region or project."""

    def __init__(self, provider: str, place: str, cluster_journal: journal.Journal) -> None:
        self._provider = provider
        self._place = place
        self._cluster_journal = cluster_journal

    def record_owner(self, tags: Tags, account: str) -> None:
        """Record who is about to create resources, and by which tags they are found."""
        self._cluster_journal.append(
            journal.Owned(
                provider=self._provider,
                region=self._place,
                account=account,
                owner=tags.owner,
                launch=tags.launch,
                expires=tags.expires,
            )
        )

    def note(self, kind: str, token: str) -> None:
        """Record what the next call creates, and the token by which it is found or recognised."""
        self._cluster_journal.append(
            journal.Requested(
                provider=self._provider, region=self._place, kind=kind, token=token, at=time.time()
            )
        )

    def record_created(self, token: str, *ids: str) -> None:
        """Record what a call created, by which it is found if its tags are removed."""
        self._cluster_journal.append(journal.Answered(token=token, ids=ids))

    @contextmanager
    def requesting(self, kind: str, token: str) -> Iterator[None]:
        """Record a call for what costs money before it is sent; if it is refused, that as well.

        After one that was throttled or lost, it is not known whether something was created.
        """
        self.note(kind, token)
        try:
            yield
        except Failure as failure:
            if failure.kind not in PASSING:
                self.record_created(token)
            raise

    def record_phase(self, phase: str, seconds: float) -> None:
        self._cluster_journal.append(journal.Timed(phase=phase, seconds=seconds))

    def resume_at(self, tokens: Sequence[str]) -> int:
        """Return which of some calls a resumed launch goes on with: the last one that was sent."""
        entries = self._cluster_journal.entries()
        requests = {entry.token for entry in entries if isinstance(entry, journal.Requested)}
        return max((index for index, token in enumerate(tokens) if token in requests), default=0)


class CloudLaunch(ABC, Generic[ClientT, OptionsT, OfferT, M]):
    """What a cloud does for a group of hosts; `create_machines` decides what is done when."""

    provider: ClassVar[str]
    """The name of the cloud."""
    operation: ClassVar[str]
    """The call that creates machines, as the cloud names it."""
    deletion: ClassVar[type[Deletion[Any]]]
    """What finds and deletes resources there."""
    passing: ClassVar[frozenset[Kind]] = frozenset()
    """Failures of that call after which it is sent again, if the client does not do so itself."""

    def __init__(
        self,
        client: ClientT,
        part: SpecPart,
        options: OptionsT,
        cluster_journal: journal.Journal,
        intent: Intent[OfferT],
        on_state: StateCallback,
    ) -> None:
        spec = part.spec
        self.client = client
        self._part = part
        self._spec = spec
        self._cluster_journal = cluster_journal
        self._tags, self.offer = intent.tags, intent.offers[part.group]
        self._is_addition = bool(intent.places)
        self._places = intent.places or tuple(range(part.first, part.first + spec.hosts))
        self._selection = Selection(launches=(intent.tags.launch,))
        self.options = options
        self.hosts = spec.hosts
        self.instance = spec.instance or ""
        self.journal = LaunchJournal(self.provider, client.name, cluster_journal)
        self.on_state = on_state

    @abstractmethod
    def token(self, site: Site, attempt: int = 0) -> str:
        """Return the token by which the cloud recognises a repeated call for the machines."""

    @abstractmethod
    def prepare(self) -> None:
        """Create what all groups need; of a cluster that gets more machines, find it."""

    def prepare_group(self, first: Self) -> None:
        """Use what the launch of the first group prepared, and create what this group needs."""

    @abstractmethod
    def create(self, site: Site, token: str) -> tuple[str, ...]:
        """Request the machines at a site, in one call; return the ids of those that it created."""

    @abstractmethod
    def list(self, site: Site, ids: tuple[str, ...]) -> Sequence[ListedMachine[M]]:
        """List the machines, in the order of their numbers."""

    @abstractmethod
    def check(self, site: Site, rows: Sequence[ListedMachine[M]], seconds: float) -> None:
        """Raise if a machine has ended, or if one should be listed after these seconds."""

    @abstractmethod
    def settle(self, site: Site, machines: tuple[M, ...]) -> None:
        """Record what belongs to machines that run, and trust their host keys."""

    def delete(self) -> None:
        """Delete all machines of the launch, and wait until they are gone."""
        self.deletion(self.client, self._selection).delete_machines()

    def leave(self, site: Site) -> None:
        """Delete what else was made for a site alone: the machines will be at another."""

    def machine(self, number: int, view: InstanceView) -> Machine:
        known_hosts = self._cluster_journal.folder / ssh_keys.KNOWN
        return machine(self.name(number), view, self.options, known_hosts, self.offer.link)

    @property
    def suffix(self) -> str:
        """What distinguishes the names of this group's resources from those of the first."""
        return f"-g{self._part.number}" if self._part.number else ""

    def name(self, number: int) -> str:
        return machine_name(self._spec.name, self._places[number], self._part.group)

    def end(self, number: int, end: EndedMachine) -> Exception:
        """Return what to raise for a machine that ended while it is waited for."""
        return end.failure(self.name(number)) if end.is_reclaimed else end.error(self.name(number))


AnyLaunch = CloudLaunch[Any, Any, Any, M]


def create_machines(launches: Sequence[AnyLaunch[M]]) -> tuple[Machine, ...]:
    """Create all machines at the first site that has room for them, and wait until they run.

    A site at which the cloud itself fails is tried again. The launches of all groups have the same
    sites. Failure: of a kind that another site does not change, or all sites have failed.
    ProvisionError: a machine did not start.
    """
    first = launches[0]
    sites = first.offer.sites
    index = first.journal.resume_at([first.token(site) for site in sites])
    for site in sites[index:]:
        for attempt in range(ATTEMPTS):
            try:
                return _create_at(launches, site, attempt)
            except Failure as failure:
                is_internal = failure.kind == "internal" and attempt < ATTEMPTS - 1
                if not is_internal and failure.kind not in NEXT_ZONE:
                    raise
                if not is_internal and site == sites[-1]:
                    raise with_places(failure, [item.zone for item in sites]) from failure
            first.delete()
            if not is_internal:
                break
            time.sleep(PAUSE)
        for launch in launches:
            launch.leave(site)
    raise AssertionError("an offer has a site")


def _create_at(launches: Sequence[AnyLaunch[M]], site: Site, attempt: int) -> tuple[Machine, ...]:
    """Request all machines at a site, and wait until they run; a partial launch is useless."""
    start = time.monotonic()
    ids = []
    for launch in launches:
        with _noting_capacity(launch, site):
            token = launch.token(site, attempt)
            with launch.journal.requesting(journal.INSTANCES, token):
                new_ids = retry(partial(launch.create, site, token), kinds=launch.passing)
            launch.journal.record_created(token, *new_ids)
            if len(new_ids) < launch.hosts:
                outcome = f"gave {len(new_ids)} of {launch.hosts} machines"
                raise too_few_machines(launch.operation, site.zone, outcome)
            ids.append(new_ids)
    launches[0].journal.record_phase("create", time.monotonic() - start)
    machines: list[Machine] = []
    start = time.monotonic()
    for launch, created_ids in zip(launches, ids, strict=True):
        with _noting_capacity(launch, site):
            rows = _wait(launch, site, created_ids, start)
            launch.settle(site, tuple(machine.instance for machine in rows))
        machines += (launch.machine(machine.number, machine.view) for machine in rows)
    launches[0].journal.record_phase("running", time.monotonic() - start)
    return tuple(machines)


@contextmanager
def _noting_capacity(launch: AnyLaunch[M], site: Site) -> Iterator[None]:
    try:
        yield
    except Failure as failure:
        if failure.kind == "capacity" and not launch.offer.reservation:
            note_shortage(site.zone, launch.instance)
        raise


class Shortage(Value, frozen=True, kw_only=True):
    zone: str  # of the cloud
    instance: str  # the machine type
    at: float  # when, in seconds since the epoch


def note_shortage(zone: str, instance: str) -> None:
    path = _shortages()
    make_private(path.parent)
    entry = Shortage(zone=zone, instance=instance, at=time.time())
    files.append(path, msgspec.json.encode(entry) + b"\n")


def zones_without_capacity(instance: str) -> frozenset[str]:
    """Return the zones that had no capacity within the last three minutes."""
    since = time.time() - REMEMBERED
    try:
        text = _shortages().read_bytes()
    except OSError:
        return frozenset()
    shortages = (decoders.decode(line, Shortage) for line in files.complete_lines(text))
    return frozenset(s.zone for s in shortages if s.instance == instance and s.at > since)


def _shortages() -> Path:
    return state_folder() / SHORTAGES


def _wait(
    launch: AnyLaunch[M], site: Site, ids: tuple[str, ...], start: float
) -> Sequence[ListedMachine[M]]:
    """Wait until the machines of a group run and have their addresses."""
    while True:
        rows = launch.list(site, ids)
        states = {machine.number: machine.state.lower() for machine in rows}
        for number in range(launch.hosts):
            launch.on_state(launch.name(number), states.get(number, "not listed yet"))
        launch.check(site, rows, time.monotonic() - start)
        late = [machine for machine in rows if not machine.ready]
        seconds = time.monotonic() - start
        if len(rows) == launch.hosts and not late:
            return rows
        if late and seconds > launch.options.wait:
            slowest = late[0]
            last_lines = tail(launch.client.console(slowest.view.id))
            raise Timeout(
                f"{launch.name(slowest.number)} ({slowest.view.id}) is not ready after "
                f"{seconds:.0f} s: {slowest.state} ({len(late)} of {launch.hosts} are late).",
                means=f"Its console:\n{last_lines}" if last_lines else "Its console is empty.",
                remedy="Wait longer: --option wait=600; or try another zone: --option zones=a,b",
            )
        time.sleep(POLL)


def intent_file(cluster_journal: journal.Journal, provider: str) -> Path:
    return cluster_journal.folder / f"{provider}.json"


def with_places(failure: Failure, places: list[str]) -> Failure:
    if len(places) == 1:
        return failure
    return Failure(
        failure.kind,
        operation=failure.operation,
        code=failure.code,
        message=f"{failure.message.rstrip('.')}. It was tried in {', '.join(places)}",
        request=failure.request,
    )


def too_few_machines(operation: str, place: str, problem: str) -> Failure:
    """Return the failure (capacity) of a zone that `gave 3 of 4 machines`."""
    message = f"{place} {problem}; a partial launch is useless, so its machines were terminated"
    return Failure("capacity", operation=operation, code="too few machines", message=message)


def machine(
    name: str, view: InstanceView, options: CloudOptions, known_hosts: Path, link: Link | None
) -> Machine:
    folder = f".cluster-{name.rpartition('.')[2]}"
    return Machine(  # noqa: S604 - "shell" names a plug-in
        name=name,
        id=view.id,
        address=view.private,
        shell="ssh",
        folder=folder,
        bin=f"{folder}/env/bin",
        access=Access(
            host=(options.is_public and view.public) or view.private,
            user=options.user,
            port=22,
            key=str(known_hosts.with_name(ssh_keys.LOGIN)),
            known_hosts=str(known_hosts),
            alias=view.alias,
            jump=options.jump,
        ),
        link=link,
    )
