"""Amazon EC2: clusters with placement groups that never leak."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, TypeVar

import msgspec

from cluster.core import journal
from cluster.core.errors import ClusterError
from cluster.core.model.billing import Plan, RemoteCluster, Resource
from cluster.core.model.value import Value, ignore
from cluster.core.ssh_keys import KNOWN
from cluster.providers import Provider, refuse
from cluster.providers._cloud.api_errors import Failure
from cluster.providers._cloud.deletion import REMAINS, listing_delay
from cluster.providers._cloud.launch import INSTANCES, Intent
from cluster.providers._cloud.machine import machine
from cluster.providers._cloud.options import TTL
from cluster.providers.aws import api, power
from cluster.providers.aws.create import PROVIDER, AwsLaunch, record_intent
from cluster.providers.aws.delete import (
    LOOKED_FOR,
    AwsDeletion,
    AwsUnlisted,
    cluster_filter,
    console,
    launch_filter,
)
from cluster.providers.aws.errors import to_cluster_error
from cluster.providers.aws.inventory import list_clusters, regions
from cluster.providers.aws.options import AwsOffer, AwsOptions
from cluster.providers.aws.plan import REGION, make_offer, region_of
from cluster.providers.aws.request import instance_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.core.model.value import StateCallback
    from cluster.providers.aws.api import Region

T = TypeVar("T")


class AwsProvider(Provider):
    """Machines of Amazon EC2, which cost money while they exist."""

    Options: ClassVar[type[Value]] = AwsOptions
    resumes: ClassVar[bool] = True
    rotates_host_keys: ClassVar[bool] = True
    ready_within: ClassVar[float] = 300.0
    passing_states: ClassVar[frozenset[str]] = frozenset({"authentication"})  # by cloud-init

    def __init__(self, regions: tuple[str, ...] = ()) -> None:
        """Ask nobody yet; regions of other clouds are not for us."""
        super().__init__(tuple(one for one in regions if REGION.fullmatch(one)))
        self._regions: dict[str, Region] = {}
        self._offers: dict[bytes, AwsOffer] = {}

    def plan(self, spec: ClusterSpec) -> Plan:
        """Find out everything that reading can tell, or refuse."""
        refuse(spec, {"accelerator": "the machine type says it, such as --instance p4d.24xlarge"})
        with _translating_errors("Nothing was created."):
            offer = self._offer(spec)
        return Plan(
            lines=offer.lines, costs=True, price=offer.price, ttl=offer.ttl, gpus=offer.gpus
        )

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Make the groups, the key, and all machines in one call."""
        options = _options(spec)
        region = self._region(region_of(spec, options))
        with _translating_errors("Nothing is left."):
            intent = record_intent(region, spec, journal, lambda: self._offer(spec))
            try:
                return AwsLaunch(region, spec, options, journal, intent, tell).make()
            except (Failure, ClusterError, KeyboardInterrupt):
                with _translating_errors(REMAINS.format(spec.name)):
                    self._end(region, journal, intent)
                raise

    def find(self, name: str) -> tuple[Resource, ...]:
        """Ask Amazon, in every region where it may be."""
        with _translating_errors("It may still exist."):
            found = self._in_each(
                self._places(name),
                lambda region: AwsDeletion(region, cluster_filter(name, region.owner)).found(),
            )
        return tuple(one for there in found for one in there)

    def destroy(self, name: str) -> None:
        """Take away what carries our tags, in every region where it may be."""
        book = journal.for_cluster(name)
        with _translating_errors("It may still exist."):
            expected = _unlisted(book)
            self._in_each(
                self._places(name),
                lambda region: AwsDeletion(region, cluster_filter(name, region.owner)).end(
                    expected
                ),
            )

    def live(self) -> tuple[RemoteCluster, ...]:
        """Ask Amazon, wherever we ever made anything, which clusters of ours there are."""
        with _translating_errors("Clusters may exist that are not shown."):
            found = self._in_each(self._everywhere(), list_clusters)
        return tuple(one for there in found for one in there)

    def all_regions(self) -> tuple[str, ...]:
        """Ask Amazon which regions this account has."""
        if not self._everywhere():
            return ()
        with _translating_errors("Nothing was looked for."):
            return regions(self._region(self._everywhere()[0]))

    def stop(self, name: str, machines: tuple[Machine, ...]) -> None:
        """Stop the instances; their disks stay, and cost a little."""
        with _translating_errors("They go on."):
            [place] = self._places(name)
            region = self._region(place)
            power.stop(region, cluster_filter(name, region.owner), machines)

    def start(
        self, name: str, machines: tuple[Machine, ...], tell: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Start the instances; their time to live begins anew."""
        spec = _spec(name)
        options = _options(spec)
        with _translating_errors("They are as they were."):
            [place] = self._places(name)
            region = self._region(place)
            found = power.start(
                region,
                cluster_filter(name, region.owner),
                machines,
                public=options.public,
                ttl=spec.ttl or TTL,
                tell=tell,
            )
        known = journal.for_cluster(name).folder / KNOWN
        return tuple(
            machine(was.name, instance_view(one), options, known, was.link)
            for was, one in zip(machines, found, strict=True)
        )

    def looked_for(self, name: str) -> str:
        """Say what is looked for, and where."""
        places = ", ".join(self._places(name))
        return f"{LOOKED_FOR} in {places}" if places else ""

    def console(self, machine: Machine) -> str:
        """Give what a machine said on its serial console."""
        name = machine.name.rpartition(".")[2]
        return "".join(console(self._region(place), machine.id) for place in self._places(name))

    def _offer(self, spec: ClusterSpec) -> AwsOffer:
        """Decide once: what was shown is what will be made."""
        key = msgspec.json.encode(spec)
        if key not in self._offers:
            options = _options(spec)
            region = self._region(region_of(spec, options))
            self._offers[key] = make_offer(region, spec, options)
        return self._offers[key]

    def _region(self, name: str) -> Region:
        if name not in self._regions:
            self._regions[name] = api.Region(name)
        return self._regions[name]

    def _end(self, region: Region, book: journal.Journal, intent: Intent[AwsOffer]) -> None:
        """Take away what one launch made, and nothing of any other."""
        AwsDeletion(region, launch_filter(intent.tags)).end(_unlisted(book))

    def _places(self, name: str) -> tuple[str, ...]:
        """Give the regions in which something of a cluster may be."""
        book = journal.for_cluster(name)
        if entries := book.entries():
            asked = [entry.region for entry in entries if isinstance(entry, journal.Requested)]
            return tuple(dict.fromkeys([*asked, *self.regions]))
        return self._everywhere()

    def _everywhere(self) -> tuple[str, ...]:
        """Give the regions to look in where no journal says which."""
        if not self.regions and not journal.used_regions(PROVIDER) and not api.is_set_up():
            return ()
        own = self.regions or (api.default_region(),)
        return tuple(dict.fromkeys(one for one in (*own, *journal.used_regions(PROVIDER)) if one))

    def _in_each(self, places: tuple[str, ...], do: Callable[[Region], T]) -> list[T]:
        """Do something in each region, in all at once."""
        regions = [self._region(place) for place in places]
        with ThreadPoolExecutor(max_workers=max(1, len(regions))) as pool:
            return list(pool.map(do, regions))


def _options(spec: ClusterSpec) -> AwsOptions:
    return msgspec.convert(spec.options, AwsOptions, strict=False)


def _unlisted(book: journal.Journal) -> AwsUnlisted:
    """Tell from a journal what Amazon may not list yet; without one, anything may be."""
    entries = book.entries()
    if not entries:
        return AwsUnlisted(until=time.time() + listing_delay())
    orders = [e for e in entries if isinstance(e, journal.Requested) and e.kind == INSTANCES]
    answers = {e.token: e.ids for e in entries if isinstance(e, journal.Answered)}
    unanswered = [order.at for order in orders if order.token not in answers]
    return AwsUnlisted(
        ids=frozenset(id_ for ids in answers.values() for id_ in ids),
        listed=max((order.at for order in orders), default=0.0) + listing_delay(),
        until=max(unanswered) + listing_delay() if unanswered else 0.0,
    )


def _spec(name: str) -> ClusterSpec:
    entries = journal.for_cluster(name).entries()
    return next(entry.spec for entry in reversed(entries) if isinstance(entry, journal.Intended))


@contextmanager
def _translating_errors(left: str) -> Iterator[None]:
    """Turn what Amazon refused into what a person can use."""
    try:
        yield
    except Failure as failure:
        raise to_cluster_error(failure, left=left) from failure
