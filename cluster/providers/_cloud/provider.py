"""What a provider of any cloud does, in the order that leaks nothing; a cloud supplies the steps.

A cloud has places: a region of Amazon, a project of Google. A client asks one of them.
"""

from __future__ import annotations

from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from cluster.core import journal
from cluster.core.cleanup import on_failure
from cluster.core.errors import ProvisionError
from cluster.core.model.resources import Plan, Resource
from cluster.core.model.value import ignore
from cluster.providers import Provider
from cluster.providers._cloud import ownership
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.client import Client
from cluster.providers._cloud.launch import CloudOffer, Intent, LaunchJournal, intent_file
from cluster.providers._cloud.tags import Selection, new_tags, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.core.errors import ClusterError
    from cluster.core.model.hosts import Machine
    from cluster.core.model.resources import RemoteCluster
    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import StateCallback
    from cluster.providers._cloud.deletion import Deletion
    from cluster.providers._cloud.options import CloudOptions


ClientT = TypeVar("ClientT", bound=Client)
OfferT = TypeVar("OfferT", bound=CloudOffer)
PlaceT = TypeVar("PlaceT")
T = TypeVar("T")


class CloudProvider(Provider, Generic[ClientT, OfferT]):
    """Machines of a cloud, which cost money while they exist."""

    Options: ClassVar[type[CloudOptions]]

    resumes: ClassVar[bool] = True
    passing_states: ClassVar[frozenset[str]] = frozenset({"authentication"})  # users are made late

    intent: ClassVar[type[Intent[Any]]]
    """The intent of a launch with this cloud's own offer."""
    kinds: ClassVar[str]
    """What is looked for, for a person: `instances, disks, ...`."""
    place: ClassVar[str] = "{}"
    """How a place is called, for a person."""

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        """Ask nobody yet."""
        super().__init__(regions)
        self._offers: dict[bytes, OfferT] = {}

    # The steps of each cloud.

    @abstractmethod
    def is_set_up(self) -> bool:
        """Tell whether anybody here uses this cloud at all, without asking anybody."""

    @abstractmethod
    def place_of(self, spec: ClusterSpec) -> str:
        """Tell the place that a spec means."""

    @abstractmethod
    def default_place(self) -> str:
        """Tell the place of the environment; empty if there is none."""

    @abstractmethod
    def client(self, place: str, spec: ClusterSpec | None) -> ClientT:
        """Give the client of a place; `spec` is that of the cluster in question, where known."""

    @abstractmethod
    def plan_request(self, client: ClientT, spec: ClusterSpec) -> OfferT:
        """Find out everything that a launch needs, or refuse."""

    @abstractmethod
    def create_machines(
        self,
        client: ClientT,
        spec: ClusterSpec,
        cluster: journal.Journal,
        intent: Intent[OfferT],
        tell: StateCallback,
    ) -> tuple[Machine, ...]:
        """Make what the intent says, and wait until all machines run."""

    @abstractmethod
    def list_clusters(self, client: ClientT) -> tuple[RemoteCluster, ...]:
        """List our clusters in a place."""

    @abstractmethod
    def deletion(
        self, client: ClientT, whose: Selection, cluster: journal.Journal
    ) -> Deletion[Any]:
        """Give what finds and deletes things in a place, and those that a journal tells of."""

    @abstractmethod
    def translate_error(self, failure: Failure, left: str) -> ClusterError:
        """Say what a failure means, and what exists after it."""

    def abandon_intent(self, cluster: journal.Journal) -> None:
        """Let no launch go on with this intent: what it made is about to be taken away."""

    # What every cloud does with them.

    def plan(self, spec: ClusterSpec) -> Plan:
        """Find out everything that reading can tell, or refuse."""
        with self.translating_errors("Nothing was created."):
            offer = self._offer(spec)
        return Plan(
            lines=offer.lines, costs=True, price=offer.price, ttl=offer.ttl, gpus=offer.gpus
        )

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Make what machines need, and all of them in one call."""
        with self.translating_errors("Nothing is left."):
            client = self.client(self.place_of(spec), spec)
            ownership.select(journal, self.name, client)  # or it is refused
            intent = self._record_intent(client, spec, journal)
            this_launch = Selection(launches=(intent.tags.launch,))

            def clean_up() -> None:
                self.abandon_intent(journal)
                self._clean_up(self.deletion(client, this_launch, journal), journal, intent)

            with on_failure(clean_up):
                return self.create_machines(client, spec, journal, intent, tell)

    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask the cloud, in every place where it may be."""
        with self.translating_errors("It may still exist."):
            found = in_each(
                self.clients_of(name),
                lambda client: self.deletion(
                    client, self.selection(client, name), journal.for_cluster(name)
                ).found(),
            )
        return tuple(one.resource for there in found for one in there)

    def destroy(self, name: str) -> None:
        """Take away what carries our tags, in every place where it may be."""
        cluster = journal.for_cluster(name)
        with self.translating_errors("It may still exist."):
            chosen = [(one, self.selection(one, name)) for one in self.clients_of(name)]
            self.abandon_intent(cluster)
            deletions = tuple(self.deletion(*pair, cluster) for pair in chosen)
            in_each(deletions, lambda one: one.delete())

    def live(self) -> tuple[RemoteCluster, ...]:
        """Ask the cloud, wherever we ever made anything, which clusters of ours there are."""
        with self.translating_errors("Clusters may exist that are not shown."):
            clients = tuple(self.client(place, None) for place in self.everywhere())
            found = in_each(clients, self.list_clusters)
        return tuple(one for there in found for one in there)

    def looked_for(self, name: str) -> str:
        """Say what is looked for, and where."""
        places = ", ".join(self._places(name))
        return f"{self.kinds} in {self.place.format(places)}" if places else ""

    def clients_of(self, name: str) -> tuple[ClientT, ...]:
        """Give the clients of all places in which something of a cluster may be."""
        spec = next(reversed(specs_of(name)), None)
        return tuple(self.client(place, spec) for place in self._places(name))

    def everywhere(self) -> tuple[str, ...]:
        """Give the places to look in where no journal says which."""
        used = journal.used_regions(self.name)
        if not self.regions and not used and not self.is_set_up():
            return ()
        own = self.regions or (self.default_place(),)
        return tuple(dict.fromkeys(place for place in (*own, *used) if place))

    @contextmanager
    def translating_errors(self, left: str) -> Iterator[None]:
        """Turn what the cloud refused into what a person can use."""
        try:
            yield
        except Failure as failure:
            raise self.translate_error(failure, left) from failure

    def reachable_within(self, spec: ClusterSpec) -> float:
        """Tell what the option says: large types need more than others."""
        return msgspec.convert(spec.options, self.Options, strict=False).ready_within

    def _offer(self, spec: ClusterSpec) -> OfferT:
        """Decide once: what was shown is what will be made.

        A launch that goes on was decided before: its own machines would count against the limits
        of the account now, and its own groups would be in the way.
        """
        key = msgspec.json.encode(spec)
        if key not in self._offers:
            client = self.client(self.place_of(spec), spec)
            self._offers[key] = self._begun(spec) or self.plan_request(client, spec)
        return self._offers[key]

    def _begun(self, spec: ClusterSpec) -> OfferT | None:
        """Give what a launch of the same spec has decided that was interrupted."""
        path = intent_file(journal.for_cluster(spec.name), self.name)
        if specs_of(spec.name)[-1:] != (spec,) or not path.exists():
            return None
        offer: OfferT = msgspec.json.decode(path.read_bytes(), type=self.intent).offer
        return offer

    def _record_intent(
        self, client: ClientT, spec: ClusterSpec, cluster: journal.Journal
    ) -> Intent[OfferT]:
        """Write down what is about to be made; a launch that was begun before goes on."""

        def decide() -> Intent[OfferT]:
            offer = self._offer(spec)
            expires = client.now() + offer.ttl
            tags = new_tags(spec.name, client.owner, expires, user=client.user)
            return self.intent(tags=tags, offer=offer)

        orders = LaunchJournal(self.name, client.name, cluster)
        return orders.record_intent(self.intent, client.account, decide)

    def _clean_up(
        self, deletion: Deletion[Any], cluster: journal.Journal, intent: Intent[OfferT]
    ) -> None:
        """Take away what a failed launch made, or say what may be left of it, and until when."""
        remains = what_remains(cluster, intent)
        try:
            with self.translating_errors(remains):
                deletion.delete()
        except ProvisionError as error:
            if remains in error.means:
                raise
            raise type(error)(
                error.what, means=f"{error.means} {remains}", remedy=error.remedy
            ) from error

    def _places(self, name: str) -> tuple[str, ...]:
        """Give the places in which something of a cluster may be."""
        if entries := journal.for_cluster(name).entries():
            asked = [entry.region for entry in entries if isinstance(entry, journal.Requested)]
            return tuple(dict.fromkeys([*asked, *self.regions]))
        return self.everywhere()

    def selection(self, client: ClientT, name: str) -> Selection:
        """Tell what finds everything of a cluster in a place, or refuse whoever did not launch it.

        Args:
            client: of the place.
            name: of the cluster.

        Returns:
            Whose things are meant.

        Raises:
            Denied: somebody else launched it.

        """
        return ownership.select(journal.for_cluster(name), self.name, client)


def what_remains(cluster: journal.Journal, intent: Intent[Any]) -> str:
    """Say what may be left of a launch, what it costs, and when it ends.

    Args:
        cluster: its journal, which has the ids of what the cloud said that it made.
        intent: of the launch.

    Returns:
        A sentence, and what to type.

    """
    entries = cluster.entries()
    ids = [id_ for one in entries if isinstance(one, journal.Answered) for id_ in one.ids]
    named = f": {', '.join(ids)}" if ids else ""
    price = intent.offer.price
    each = f"cost ${price.hourly:.2f} an hour each, and " if price else ""
    return (
        f"What the launch had made may still exist{named}, and cost money. Its machines {each}"
        f"end by themselves at {timestamp(intent.tags.expires)}; all else, such as reserved "
        f"addresses, stays until you type: cluster down {intent.tags.name}"
    )


def specs_of(name: str) -> tuple[ClusterSpec, ...]:
    """Give the specs that a cluster was launched with, by its journal, the last one last."""
    entries = journal.for_cluster(name).entries()
    return tuple(entry.spec for entry in entries if isinstance(entry, journal.Intended))


def in_each(places: tuple[PlaceT, ...], do: Callable[[PlaceT], T]) -> list[T]:
    """Do something in each place, in all at once."""
    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        return list(pool.map(do, places))
