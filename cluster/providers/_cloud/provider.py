"""A provider for any cloud, in an order of steps that leaks nothing; each cloud has its own steps.

A cloud has places: a region of Amazon, a project of Google. A client calls the API in one of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

import msgspec

from cluster import providers
from cluster.core import decoders
from cluster.core.errors import ClusterError, Denied, ProvisionError, SpecError, on_failure
from cluster.core.model.hosts import Machine, group_of
from cluster.core.model.network.placement import NetworkLayer, ProviderTopology
from cluster.core.model.resources import Plan, Price, RemoteCluster, Resource
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import StateCallback, ignore
from cluster.core.state import journal, ssh_keys
from cluster.core.text.units import lifetime, price_line
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.deletion import Deletion, Entries, listing_delay
from cluster.providers._cloud.launch import (
    NEXT_ZONE,
    ClientT,
    CloudLaunch,
    CloudOffer,
    Demand,
    EndedMachine,
    Intent,
    LaunchJournal,
    OfferT,
    OptionsT,
    create_machines,
    intent_file,
    with_places,
)
from cluster.providers._cloud.options import TTL, CloudOptions, words
from cluster.providers._cloud.public_address import open_lines
from cluster.providers._cloud.tags import Selection, Tags, new_tags, timestamp

PlaceT = TypeVar("PlaceT")
T = TypeVar("T")
ENDING = "shutting-down"  # Amazon's state of a machine that was terminated
NEXT_REGION = (*NEXT_ZONE, "quota")  # kinds of failures after which another region is tried
SHORTEST = 60.0  # seconds that a machine is created for: Google's least is 30


class Choice(NamedTuple, Generic[OfferT]):
    """A region in which a launch may create its machines."""

    spec: ClusterSpec  # for this region alone
    offers: dict[str, OfferT]  # by groups of hosts

    @property
    def offer(self) -> OfferT:
        return next(iter(self.offers.values()))

    @property
    def cost(self) -> str:
        price = mean_price(self.spec, self.offers)
        return price_line(price, self.spec.hosts, self.offer.ttl)

    @property
    def lines(self) -> list[str]:
        return [
            f"{name}: {line}" if self.spec.groups else line
            for name, offer in self.offers.items()
            for line in offer.lines
        ]


class Choices(NamedTuple, Generic[OfferT]):
    """The regions to try one after another, and lines of the plan about all but the first."""

    possible: tuple[Choice[OfferT], ...]
    lines: tuple[str, ...] = ()


class CloudProvider(
    providers.Provider,
    providers.Regional,
    providers.Searchable,
    providers.Resumes,
    providers.PreparesHosts,
    providers.Boots,
    providers.ReportsStates,
    providers.KnowsTopology,
    providers.Revocable,
    providers.Replaces,
    providers.MountsFiles,
    Generic[ClientT, OptionsT, OfferT],
):
    """Machines of a cloud, which cost money while they exist."""

    Options: ClassVar[type[CloudOptions]]

    # sshd answers before the guest agent or cloud-init has created the user.
    transient_states: ClassVar[frozenset[str]] = frozenset({"authentication"})

    intent: ClassVar[type[Intent[Any]]]
    """The type of a launch's intent, with the offer of this cloud."""
    launch: ClassVar[type[CloudLaunch[Any, Any, Any, Any]]]
    """The steps that create a group of hosts as an intent describes it."""

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        super().__init__(regions)
        self._plans: dict[bytes, Choices[OfferT]] = {}

    # The steps of each cloud.

    @abstractmethod
    def is_set_up(self) -> bool:
        """Tell whether this machine is set up for the cloud, without any call."""

    @abstractmethod
    def place_of(self, spec: ClusterSpec) -> str:
        """Return the place that a spec asks for."""

    @abstractmethod
    def default_place(self) -> str:
        """Return the place that the environment or the login sets; empty if there is none."""

    @abstractmethod
    def client(self, place: str, spec: ClusterSpec | None) -> ClientT:
        """Return the client of a place; `spec` is that of the cluster, if it is known."""

    @abstractmethod
    def plan_request(self, client: ClientT, spec: ClusterSpec) -> OfferT:
        """Decide everything that a launch would create, or refuse it."""

    @abstractmethod
    def offer_near(self, client: ClientT, offer: OfferT, peer: Machine) -> OfferT:
        """Narrow the offer of a launch to the place of one of its machines."""

    @abstractmethod
    def running(self, client: ClientT, selection: Selection) -> Sequence[tuple[Tags, Any]]:
        """List the machines of a selection that exist, each with its tags, in the cloud's form."""

    @abstractmethod
    def remote_cluster(self, client: ClientT, tags: Tags, machines: Sequence[Any]) -> RemoteCluster:
        """Describe a cluster of which these machines, maybe none, exist."""

    @abstractmethod
    def translate_error(self, failure: Failure, remains: str) -> ClusterError:
        """Turn a failure into an error for the user; `remains` says what exists after it."""

    def region_names(self, spec: ClusterSpec) -> Sequence[str]:
        """Return all regions of the cloud; empty if it does not list them (Failure)."""
        return ()

    def abandon_intent(self, cluster: journal.Journal) -> None:
        """Make sure that no launch continues this intent: its resources are about to be deleted."""

    def find_ends(
        self, client: ClientT, selection: Selection, machines: tuple[Machine, ...]
    ) -> dict[str, EndedMachine]:
        """Return which machines of a cluster the cloud knows to have ended, by their names."""
        return {}

    def locate(
        self, client: ClientT, name: str, entries: Entries, ids: tuple[str, ...]
    ) -> ProviderTopology:
        """Read where the machines of a cluster are in the cloud's network, by their ids."""
        return ProviderTopology(reason=f"the provider {self.name!r} knows no switches")

    # What is the same for every cloud.

    def plan(self, spec: ClusterSpec) -> Plan:
        with self.translating_errors("Nothing was created."):
            choices = self._choices(spec)
        first = choices.possible[0]
        warnings = open_lines(first.offer.allow)
        prices = [mean_price(item.spec, item.offers) for item in choices.possible]
        is_known = len({price and price.hourly for price in prices}) == 1
        by_group = {name: offer.price for name, offer in first.offers.items() if is_known}
        return Plan(
            lines=(*warnings, *first.lines, *choices.lines),
            costs=True,
            price=prices[0] if is_known else None,
            prices=by_group if spec.groups else {},
            ttl=first.offer.ttl,
            link=next((offer.link for offer in first.offers.values() if offer.link), None),
            gpus=min(offer.gpus for offer in first.offers.values()),
            warnings=warnings,
        )

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Create what the machines need, then the machines, in one call for each group.

        A region that has no room is left, with nothing of the launch in it, for the next.
        """
        with self.translating_errors("Nothing is left."):
            possible = self._choices(spec).possible
            for choice in possible:
                try:
                    return self._create_in(choice, journal, on_state)
                except Failure as failure:
                    if failure.kind not in NEXT_REGION:
                        raise
                    if choice is possible[-1]:
                        places = [item.offer.region for item in possible]
                        raise with_places(failure, places) from failure
                intent_file(journal, self.name).unlink(missing_ok=True)
            raise AssertionError("a launch has a region")

    def _create_in(
        self, choice: Choice[OfferT], journal: journal.Journal, on_state: StateCallback
    ) -> tuple[Machine, ...]:
        spec = choice.spec
        client = self.client(self.place_of(spec), spec)
        self.selection(client, spec.name, journal.entries())  # refuses another user's cluster
        intent = self._record_intent(client, choice, journal)
        this_launch = Selection(launches=(intent.tags.launch,))

        def clean_up() -> None:
            self.abandon_intent(journal)
            entries = journal.entries()
            remains = what_remains(journal.name, entries, intent)
            with self.translating_errors(remains):
                try:
                    self.launch.deletion(client, this_launch, entries).delete()
                except ProvisionError as error:
                    means = f"{error.means} {remains}"
                    raise type(error)(error.what, means=means, remedy=error.remedy) from error

        parts = spec.parts
        launches = [
            self.launch(client, part, self.options_of(part.spec), journal, intent, on_state)
            for part in parts
        ]
        with on_failure(clean_up):
            launches[0].prepare()
            for launch in launches:
                launch.prepare_group(launches[0])
            return create_machines(launches)

    def add(
        self,
        spec: ClusterSpec,
        peer: Machine,
        places: tuple[int, ...],
        journal: journal.Journal,
        on_state: StateCallback = ignore,
    ) -> tuple[Machine, ...]:
        """Create machines in one call, as a launch of their own among the resources of the first.

        They end when the cluster's other machines do.
        """
        with self.translating_errors("The cluster is as it was."):
            spec = self.regional_spec(spec)
            client = self.client(self.place_of(spec), spec)
            entries = journal.entries()
            self.selection(client, spec.name, entries)  # refuses another user's cluster
            first = self._intent_of(journal)
            seconds = max(SHORTEST, (expiry(entries) or first.tags.expires) - client.now())
            part = next(part for part in spec.parts if part.group == group_of(peer))
            offer = self.offer_near(client, first.offers[part.group], peer)
            expires = client.now() + seconds
            intent = self.intent(
                tags=new_tags(spec.name, client.owner, expires, user=client.user),
                offers={part.group: msgspec.structs.replace(offer, ttl=seconds)},
                places=places,
            )
            LaunchJournal(self.name, client.name, journal).record_owner(intent.tags, client.account)
            host_spec = msgspec.structs.replace(part.spec, hosts=len(places))
            part = msgspec.structs.replace(part, spec=host_spec)
            options = self.options_of(part.spec)
            launch = self.launch(client, part, options, journal, intent, on_state)
            launch.prepare()
            launch.prepare_group(launch)
            return create_machines([launch])

    def states(self, name: str, machines: tuple[Machine, ...]) -> tuple[str, ...]:
        with self._deletions(name) as deletions:
            by_place = in_each(deletions, lambda item: item.list_except(()))
        states = {item.id: item.state.lower() for rows in by_place for item in rows}
        rows = (states.get(machine.id, providers.ENDED) for machine in machines)
        return tuple(providers.ENDED if item == ENDING else item for item in rows)

    def list_except(self, name: str, keep: tuple[Machine, ...]) -> tuple[Resource, ...]:
        ids = {machine.id for machine in keep}
        with self._deletions(name) as deletions:
            by_place = in_each(deletions, lambda item: item.list_except(ids))
        return tuple(item.resource for rows in by_place for item in rows)

    def delete_except(self, name: str, keep: tuple[Machine, ...]) -> None:
        ids = {machine.id for machine in keep}
        with self._deletions(name) as deletions:
            in_each(deletions, lambda deletion: deletion.delete_except(ids))

    def find(self, name: str) -> tuple[Resource, ...]:
        with self._deletions(name) as deletions:
            by_place = in_each(deletions, lambda item: item.resources())
        return tuple(item.resource for rows in by_place for item in rows)

    def destroy(self, name: str) -> None:
        with self._deletions(name) as deletions:
            self.abandon_intent(journal.for_cluster(name))
            in_each(deletions, lambda deletion: deletion.delete())

    def revocation_reason(
        self, spec: ClusterSpec, machines: tuple[Machine, ...]
    ) -> ProvisionError | None:
        """Return why a machine ended; none if all exist, or if the cloud does not answer."""
        ends: dict[str, EndedMachine] = {}
        try:
            entries = journal.entries_of(spec.name)
            for client in self.clients_of(entries):
                ends |= self.find_ends(client, self.selection(client, spec.name, entries), machines)
        except (Failure, ClusterError):  # who does not answer does not say that it is over
            return None
        first = min(ends, key=lambda name: not ends[name].is_reclaimed, default=None)
        return ends[first].error(first) if first else None

    def describe_unreachable(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> str:
        error = self.revocation_reason(spec, machines)
        return error.what.rstrip(".") if error else ""

    def topology(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
        entries = journal.entries_of(spec.name)
        if not entries:
            return ProviderTopology(reason="the machines do not exist any more")
        with self.translating_errors("The machines are as they were."):
            client = self.clients_of(entries)[0]
            ids = tuple(machine.id for machine in machines)
            return self.locate(client, spec.name, entries, ids)

    def live(self) -> tuple[RemoteCluster, ...]:
        with self.translating_errors("Clusters may exist that are not shown."):
            clients = tuple(self.client(place, None) for place in self.everywhere())
            by_place = in_each(clients, self._clusters_in)
        return tuple(cluster for rows in by_place for cluster in rows)

    def _clusters_in(self, client: ClientT) -> list[RemoteCluster]:
        """List the caller's clusters in a place, also those with only a group or key left."""
        selection = Selection(owner=client.owner)
        resources = self.launch.deletion(client, selection).resources()
        tags_by_name = {item.tags.name: item.tags for item in resources if item.tags}
        by_name: dict[str, list[Any]] = {name: [] for name in tags_by_name}
        for tags, machine in self.running(client, selection):
            by_name.setdefault(tags.name, []).append(machine)
        return [
            self.remote_cluster(client, tags, by_name[name])
            for name, tags in sorted(tags_by_name.items())
        ]

    def search_scope(self, name: str) -> str:
        return self._scope(journal.entries_of(name))

    def _scope(self, entries: Entries) -> str:
        places = ", ".join(self._places(entries))
        deletion = self.launch.deletion
        return f"{deletion.kinds} in {deletion.place.format(places)}" if places else ""

    def describe_search(self, name: str) -> str:
        entries = journal.entries_of(name)
        with self.translating_errors(what_remains(name, entries)):
            clients = self.clients_of(entries)
            if not clients:
                return ""
            account = clients[0].account
            place = "" if account == clients[0].name else f" in the account {account}"
            return f"{self._scope(entries)}, as {clients[0].owner}{place}"

    def listing_delay(self) -> float:
        return listing_delay()

    def clients_of(self, entries: Entries) -> tuple[ClientT, ...]:
        """Return the clients of all places in which a cluster may have resources, its own first."""
        spec = next(reversed(specs_of(entries)), None)
        return tuple(self.client(place, spec) for place in self._places(entries))

    def everywhere(self) -> tuple[str, ...]:
        """Return the places to search if no journal names them."""
        regions = journal.used_regions(self.name)
        if not self.regions and not regions and not self.is_set_up():
            return ()
        places = self.regions or (self.default_place(),)
        return tuple(dict.fromkeys(place for place in (*places, *regions) if place))

    @contextmanager
    def translating_errors(self, remains: str) -> Iterator[None]:
        """Turn failures of the cloud into errors for the user; `remains` says what exists after."""
        try:
            yield
        except Failure as failure:
            raise self.translate_error(failure, remains) from failure

    def reachable_within(self, spec: ClusterSpec) -> float:
        """Return the option `ready_within`: large types boot more slowly."""
        return self.options_of(spec).ready_within

    def options_of(self, spec: ClusterSpec) -> OptionsT:
        return cast("OptionsT", decoders.convert(spec.options, self.Options, strict=False))

    def console(self, machine: Machine) -> str:
        name = machine.name.rpartition(".")[2]
        clients = self.clients_of(journal.entries_of(name))
        return "".join(client.console(machine.id) for client in clients)

    def regional_spec(self, spec: ClusterSpec) -> ClusterSpec:
        """Return a spec for the region that its cluster is in, or else for the first to try."""
        specs = regional_specs(spec, self.options_of(spec))
        cluster = journal.for_cluster(spec.name)
        if len(specs) == 1 or not intent_file(cluster, self.name).exists():
            return specs[0]
        return in_region(spec, next(iter(self._intent_of(cluster).offers.values())).region)

    def _choices(self, spec: ClusterSpec) -> Choices[OfferT]:
        """Decide once per spec, so that a launch creates exactly what its plan showed.

        An interrupted launch continues with the offer in its intent. To decide again would count
        its own machines against the account's limits, and refuse the names of its own groups.
        """
        key, offers = msgspec.json.encode(spec), self._find_interrupted(spec)
        if key not in self._plans or offers:
            options = self.options_of(spec)
            specs = regional_specs(spec, options)
            if names := words(options.regions):
                with suppress(Failure):  # without permission to list them, they are tried
                    check_region_names(names, self.region_names(spec))
            answers: list[dict[str, OfferT] | ClusterError] = []
            if offers:
                offer = next(iter(offers.values()))
                matches = [spec.zone in (offer.region, offer.sites[0].zone) for spec in specs]
                specs = specs[matches.index(True) if any(matches) else 0 :]
                answers.append(offers)
            answers += in_each(specs[len(answers) :], self._try_plan)
            self._plans[key] = choose(specs, answers)
        return self._plans[key]

    def _try_plan(self, spec: ClusterSpec) -> dict[str, OfferT] | ClusterError:
        try:
            with self.translating_errors("Nothing was created."):
                return self._plan_groups(self.client(self.place_of(spec), spec), spec)
        except ClusterError as error:
            return error

    def _plan_groups(self, client: ClientT, spec: ClusterSpec) -> dict[str, OfferT]:
        offers = {part.group: self.plan_request(client, part.spec) for part in spec.parts}
        if spec.groups and spec.max_cost is not None:  # the price of all says when it is reached
            ttl = lifetime(spec, mean_price(spec, offers), TTL)
            return self._plan_groups(client, msgspec.structs.replace(spec, ttl=ttl, max_cost=None))
        return in_same_zones(offers)

    def _find_interrupted(self, spec: ClusterSpec) -> dict[str, OfferT] | None:
        """Return the offers of an interrupted launch of the same spec; none if there is none."""
        cluster = journal.for_cluster(spec.name)
        is_recorded = intent_file(cluster, self.name).exists()
        is_same = is_recorded and specs_of(cluster.entries())[-1:] == (spec,)
        return self._intent_of(cluster).offers if is_same else None

    def _record_intent(
        self, client: ClientT, choice: Choice[OfferT], cluster: journal.Journal
    ) -> Intent[OfferT]:
        """Record what is about to be created, or give the intent of the launch to continue."""
        path = intent_file(cluster, self.name)
        if path.exists():
            return self._intent_of(cluster)
        expires = client.now() + choice.offer.queue + choice.offer.ttl
        tags = new_tags(choice.spec.name, client.owner, expires, user=client.user)
        intent = self.intent(tags=tags, offers=choice.offers)
        LaunchJournal(self.name, client.name, cluster).record_owner(tags, client.account)
        ssh_keys.write_secret(path, msgspec.json.encode(intent))
        journal.remember_region(self.name, client.name)
        return intent

    @contextmanager
    def _deletions(self, name: str) -> Iterator[tuple[Deletion[Any], ...]]:
        """Yield the deletion of a cluster's resources in every place where it may have some."""
        entries = journal.entries_of(name)
        with self.translating_errors(what_remains(name, entries)):
            places = [(c, self.selection(c, name, entries)) for c in self.clients_of(entries)]
            yield tuple(self.launch.deletion(*place, entries) for place in places)

    def _intent_of(self, cluster: journal.Journal) -> Intent[OfferT]:
        path = intent_file(cluster, self.name)
        if not path.exists():
            raise SpecError(
                f"It is not known any more how {cluster.name} was launched: {path} is missing.",
                means="Machines like its own cannot be created.",
                remedy=f"Take it down, and launch it again: cluster down {cluster.name}",
            )
        intent: Intent[OfferT] = decoders.decode(path.read_bytes(), self.intent)
        return intent

    def _places(self, entries: Entries) -> tuple[str, ...]:
        if entries:
            regions = [entry.region for entry in entries if isinstance(entry, journal.Requested)]
            return tuple(dict.fromkeys([*reversed(regions), *self.regions]))
        return self.everywhere()

    def selection(self, client: ClientT, name: str, entries: Entries) -> Selection:
        """Select a cluster's resources in a place (Denied: they are of another user's launch)."""
        records = (entry for entry in entries if isinstance(entry, journal.Owned))
        matches = [e for e in records if (e.provider, e.region) == (self.name, client.name)]
        for entry in matches:
            if (entry.account, entry.owner) != (client.account, client.owner):
                raise Denied(
                    f"The cluster {name} was launched by {entry.owner} in the account "
                    f"{entry.account}; you are {client.owner} in the account {client.account}.",
                    means="Your login cannot see what is left of it, so nothing was searched or "
                    "deleted: it may still run, and cost money.",
                    remedy=f"Log in as {entry.owner}, and type the same again.",
                )
        if not matches:
            return Selection(owner=client.owner, name=name)
        return Selection(launches=tuple(dict.fromkeys(entry.launch for entry in matches)))


def in_region(spec: ClusterSpec, region: str) -> ClusterSpec:
    options = {key: value for key, value in spec.options.items() if key != "regions"}
    return msgspec.structs.replace(spec, zone=region, options=options)


def check_region_names(names: Sequence[str], all_names: Sequence[str]) -> None:
    """Refuse names that no region of the cloud has, with the nearest ones (SpecError)."""
    unknown = [name for name in names if name not in all_names]
    if unknown and all_names:
        nearest = (get_close_matches(name, all_names, 1, 0.0)[0] for name in names)
        raise SpecError(
            f"--option regions={','.join(names)} names {', '.join(unknown)}, which is no region.",
            remedy=f"Use --option regions={','.join(dict.fromkeys(nearest))}",
        )


def regional_specs(spec: ClusterSpec, options: CloudOptions) -> tuple[ClusterSpec, ...]:
    """Return a spec for each region that the options name, or the spec as it is (SpecError)."""
    regions = tuple(dict.fromkeys(words(options.regions)))
    if regions and (spec.zone or options.zones):
        raise SpecError(
            "A launch tries regions or zones, not both.",
            means="In each of the regions, all zones that offer the type are tried.",
            remedy="Leave --zone and --option zones= out, or --option regions=",
        )
    return tuple(in_region(spec, region) for region in regions) or (spec,)


def mean_price(spec: ClusterSpec, offers: Mapping[str, CloudOffer]) -> Price | None:
    """Return the price of a machine, on average over the groups; none if one is not known."""
    prices = [(part.spec.hosts, offers[part.group].price) for part in spec.parts]
    known_prices = [(hosts, price) for hosts, price in prices if price is not None]
    if len(known_prices) < len(prices):
        return None
    hourly = sum(hosts * price.hourly for hosts, price in known_prices) / spec.hosts
    return msgspec.structs.replace(known_prices[0][1], hourly=hourly)


def choose(
    specs: Sequence[ClusterSpec], answers: Sequence[Mapping[str, OfferT] | ClusterError]
) -> Choices[OfferT]:
    """Return the regions that have what a launch needs (ClusterError: none has)."""
    pairs = list(zip(specs, answers, strict=True))
    failures = [(spec.zone, answer) for spec, answer in pairs if isinstance(answer, ClusterError)]
    choices = tuple(Choice(spec, dict(a)) for spec, a in pairs if not isinstance(a, ClusterError))
    if not choices:
        error = failures[0][1]
        if len(failures) == 1:
            raise error
        means = "\n".join(f"{region}: {error.what}" for region, error in failures)
        raise type(error)("No region can be used.", means=means, remedy=error.remedy) from error
    rest = (f"else {item.spec.zone}: {item.offer.lines[0]}; {item.cost}" for item in choices[1:])
    unavailable = (f"not in {region}: {error.what}" for region, error in failures)
    return Choices(choices, (*rest, *unavailable))


def what_remains(name: str, entries: Entries, intent: Intent[Any] | None = None) -> str:
    """Say, without any call, what may be left of a cluster, its cost and end, and the command."""
    launches = [entry for entry in entries if isinstance(entry, journal.Intended)]
    if not launches:
        return "It may still exist."
    ids = [id_ for entry in entries if isinstance(entry, journal.Answered) for id_ in entry.ids]
    names = f": {', '.join(dict.fromkeys(ids))}" if ids else ""
    rows = (entry for entry in entries if isinstance(entry, journal.Requested))
    requests = [entry.at for entry in rows if entry.kind == journal.INSTANCES]
    if not requests:
        return (
            f"No machine was requested; what else the launch had made may still exist{names}, and "
            f"stays until you type: cluster down {name}"
        )
    spec = launches[-1].spec
    price = mean_price(spec, intent.offers) if intent else launches[-1].price
    mean = " on average" if spec.groups else ""
    cost = f"cost ${price.hourly:.2f} an hour each{mean}, and " if price else ""
    ends = intent.tags.expires if intent else requests[-1] + (launches[-1].ttl or TTL)
    return (
        f"What the launch had made may still exist{names}, and cost money. Its machines {cost}"
        f"end by themselves at {timestamp(expiry(entries) or ends)}; all else, such as reserved "
        f"addresses, stays until you type: cluster down {name}"
    )


def in_same_zones(offers: dict[str, OfferT]) -> dict[str, OfferT]:
    """Narrow the offers of all groups to zones with room for all (SpecError, Quota: there is none).

    Each group was planned as if it were alone.
    """
    short = unmet(offers)
    full = {demand.zone for demand in short}
    by_group = {group: [site.zone for site in offer.sites] for group, offer in offers.items()}
    first, *rest = by_group.values()
    common = [zone for zone in first if all(zone in zones for zones in rest) and zone not in full]
    for demand in short:
        if not (demand.zone and common):
            raise demand.error
    if first and not common:
        raise SpecError(
            "The groups have no zone in common.",
            means="; ".join(f"{group}: {', '.join(zones)}" for group, zones in by_group.items()),
            remedy="Choose other machine types, or a region that has all of them: --zone REGION",
        )
    return {
        group: msgspec.structs.replace(
            offer, sites=tuple(s for zone in common for s in offer.sites if s.zone == zone)
        )
        for group, offer in offers.items()
    }


def unmet(offers: Mapping[str, CloudOffer]) -> list[Demand]:
    """Return the demands of all groups together that exceed what is free."""
    sums: dict[str, Demand] = {}
    for demand in (demand for offer in offers.values() for demand in offer.demands):
        before = sums[demand.what].count if demand.what in sums else 0
        sums[demand.what] = msgspec.structs.replace(demand, count=before + demand.count)
    return [demand for demand in sums.values() if demand.count > demand.free]


def expiry(entries: Entries) -> float | None:
    """Return when the machines of a cluster end by themselves: a start makes it later."""
    times = [entry.expires for entry in entries if isinstance(entry, journal.Created)]
    return times[-1] if times else None


def specs_of(entries: Entries) -> tuple[ClusterSpec, ...]:
    return tuple(entry.spec for entry in entries if isinstance(entry, journal.Intended))


def in_each(places: tuple[PlaceT, ...], do: Callable[[PlaceT], T]) -> list[T]:
    """Call a function for each place, for all at the same time, and return the results in order."""
    if len(places) == 1:
        return [do(places[0])]
    with ThreadPoolExecutor(max_workers=max(1, len(places))) as pool:
        return list(pool.map(do, places))


def network_layers(
    names: Sequence[str], locations: Sequence[Sequence[str]], *, machines: int = 0
) -> tuple[NetworkLayer, ...]:
    """Group hosts by the layers that the cloud names; a location may be empty or cut off."""
    layers = []
    for depth, name in enumerate(names):
        numbers: dict[tuple[str, ...], int] = {}  # by a node and those above: ids repeat elsewhere
        groups = tuple(
            numbers.setdefault(tuple(location[: depth + 1]), len(numbers))
            if depth < len(location) and location[depth]
            else None
            for location in locations
        )
        if any(group is not None for group in groups):
            switch = depth < len(names) - machines
            layers.append(NetworkLayer(name=name, groups=groups, switch=switch))
    return tuple(reversed(layers))
