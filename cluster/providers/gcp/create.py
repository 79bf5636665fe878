"""Create machines: each request is on disk before its call, and each call can be repeated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar, Self

import msgspec

from cluster.core.errors import Timeout, tail
from cluster.core.state import ssh_keys
from cluster.providers._cloud import deletion
from cluster.providers._cloud.api_errors import UNLISTED, Failure, ignoring, retry
from cluster.providers._cloud.launch import (
    ATTEMPTS,
    PAUSE,
    CloudLaunch,
    ListedMachine,
    Site,
    too_few_machines,
)
from cluster.providers._cloud.options import name_taken_error
from cluster.providers.gcp import fabrics, flex_start
from cluster.providers.gcp.api import Project, count_created
from cluster.providers.gcp.delete import AT_ONCE, GcpDeletion
from cluster.providers.gcp.errors import call_name, singular
from cluster.providers.gcp.instances import DELETED, ENDED, alias, ended_machine, instance_view
from cluster.providers.gcp.labels import (
    DIGITS,
    description_of,
    filter_of,
    is_of,
    label,
    parse_description,
    request_id,
)
from cluster.providers.gcp.options import GcpOffer, GcpOptions
from cluster.providers.gcp.request import firewalls, request

if TYPE_CHECKING:
    from google.cloud.compute_v1.types.compute import GuestAttributes, Instance

# Of guest attributes: Google allows ten a minute and machine
# (cloud.google.com/compute/docs/metadata/manage-guest-attributes).
PAUSES = (0.5, 0.5, 1.0, 2.0, 4.0)  # seconds after the first queries
QUERY_PAUSE = 7.0  # seconds after each later query


class GcpLaunch(CloudLaunch[Project, GcpOptions, GcpOffer, "Instance"]):
    provider: ClassVar[str] = "gcp"
    operation: ClassVar[str] = "instances.bulkInsert"
    deletion: ClassVar[type[GcpDeletion]] = GcpDeletion
    _since = ""  # when Google got the call for the machines
    _listed_names: frozenset[str] = frozenset()  # names of those that it has listed

    def token(self, site: Site, attempt: int = 0) -> str:
        """Return the zone, and the request id of the call for the machines there."""
        return f"{site.zone}/{request_id(self._tags, _again(site.zone + self.suffix, attempt))}"

    def prepare(self) -> None:
        """Create the network and the firewall rules; a cluster has them.

        The name of the first rule prevents two launches of one name.
        """
        if self._is_addition:
            return
        if not self.offer.network:
            network = {  # with a subnet in every region
                "name": label(self._tags),
                "description": description_of(self._tags),
                "auto_create_subnetworks": True,
            }
            self._create_named("networks", network)
        first, *rest = firewalls(self.offer, self._tags)
        self._create_named("firewalls", first)
        self._make_all("firewalls", rest)

    def prepare_group(self, first: Self) -> None:
        """Create the placement policy, without a VM count: with one, machines wait for others."""
        if self._is_addition or not self._spec.placement:
            return
        body = {
            "name": label(self._tags) + self.suffix,
            "description": description_of(self._tags),
            "group_placement_policy": {"collocation": "COLLOCATED"},
        }
        self._make_all("resource_policies", [body], region=self.offer.region)

    def create(self, site: Site, token: str) -> tuple[str, ...]:
        """Create all machines; even a successful operation may have created too few."""
        self._listed_names = frozenset()
        fabric, nics = self.offer.fabric, self.offer.nics
        if fabric and not self._is_addition:
            for collection, bodies in fabrics.bodies(fabric, nics, self._tags, site.zone):
                scope = {"region": self.offer.region} if collection == "subnetworks" else {}
                self._make_all(collection, bodies, **scope)
        login = ssh_keys.load_or_create(self._cluster_journal.folder / ssh_keys.LOGIN)
        body = request(
            self._spec,
            self.options,
            self.offer,
            self._tags,
            login.public,
            self._stem,
            label(self._tags) + self.suffix,
            nics or (fabrics.nics(fabric, self._tags, site.zone) if fabric else ()),
        )
        _, _, id_ = token.partition("/")
        if self.offer.queue:
            return self._wait_in_queue(site.zone, id_, body["instance_properties"])
        operation = self.client.begin(
            "instances",
            "bulk_insert",
            zone=site.zone,
            request_id=id_,
            bulk_insert_instance_resource_resource=body,
        )
        self._since = operation.insert_time
        return self._names(count_created(self.client.finish(self.operation, operation)))

    def _wait_in_queue(self, zone: str, id_: str, properties: flex_start.Body) -> tuple[str, ...]:
        name, machines = f"{self._stem}-{id_[-4:]}", self._names(self.hosts)
        template, group = flex_start.bodies(name, properties, description_of(self._tags))
        self._make_all("instance_templates", [template])
        self._make_all("instance_group_managers", [group], zone=zone)
        scope = {"zone": zone, "instance_group_manager": name}
        self._since = flex_start.enter(self.client, scope, machines, id_)
        for state in flex_start.states(self.client, scope, self.offer.queue):
            for number in range(self.hosts):
                self.on_state(self.name(number), state)
        expires = self.client.now() + self.offer.ttl  # it waited less than it might have
        tags = msgspec.structs.replace(self._tags, expires=expires)
        self.journal.record_owner(tags, self.client.account)
        return machines

    def leave(self, site: Site) -> None:
        """Delete the networks for RDMA: they are of the zone, and count against the quota."""
        if self.offer.fabric and not (self.offer.nics or self._is_addition):
            nics = fabrics.nics(self.offer.fabric, self._tags, site.zone)
            of_zone = [nic for nic in nics if nic.kind != fabrics.GVNIC]
            names = {name for nic in of_zone for name in (nic.network, nic.subnet)}
            self.deletion(self.client, self._selection).delete_networks(names)

    def list(self, site: Site, ids: tuple[str, ...]) -> list[ListedMachine[Instance]]:
        answer: tuple[Instance, ...] = self.client.all(
            "instances", zone=site.zone, filter=filter_of(self._selection)
        )
        rows = (row for row in answer if is_of(self._selection, row.description))
        own_rows = (row for row in rows if row.name.rpartition("-")[0] == self._stem)
        machines = []
        for number, instance in enumerate(sorted(own_rows, key=lambda row: row.name)):
            view, state = instance_view(instance), instance.status
            is_connected = bool(view.private and (view.public or not self.options.is_public))
            ready = state == "RUNNING" and is_connected
            machines.append(
                ListedMachine(instance=instance, view=view, number=number, state=state, ready=ready)
            )
        return machines

    def check(self, site: Site, rows: Sequence[ListedMachine[Instance]], seconds: float) -> None:
        """Fail if a machine ended, is not listed in time, or vanished.

        The last is how Google shows a lack of capacity.
        """
        zone, names = site.zone, frozenset(machine.instance.name for machine in rows)
        for machine in rows:
            instance = machine.instance
            if (state := instance.status) in ENDED:
                target = str(instance.id)
                end = ended_machine(self.client, zone, instance.name, state, target=target)
                raise self.end(machine.number, end)
        expected = self._names(self.hosts)
        if missing := next((name for name in expected if name not in names), None):
            end = ended_machine(self.client, zone, missing, DELETED, since=self._since)
            if end.why:
                raise self.end(expected.index(missing), end)
        if gone_names := self._listed_names - names:
            outcome = f"showed {len(gone_names)} machines that then vanished"
            raise too_few_machines(self.operation, zone, outcome)
        self._listed_names |= names
        if len(rows) < self.hosts and seconds > deletion.listing_delay():
            outcome = f"lists {len(rows)} of {self.hosts} machines"
            raise too_few_machines(self.operation, zone, outcome)

    def settle(self, site: Site, machines: tuple[Instance, ...]) -> None:
        """Trust the host keys that machines report; those of a launch that continues are pinned."""
        known_hosts = self._cluster_journal.folder / ssh_keys.KNOWN
        pins = ssh_keys.known_aliases(known_hosts)
        new = tuple(instance for instance in machines if alias(instance) not in pins)
        deadline = time.monotonic() + self.options.wait
        keys: dict[str, tuple[str, ...]] = {}
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for pause in chain(PAUSES, repeat(QUERY_PAUSE)):
                late = [instance for instance in new if not keys.get(instance.name)]
                names = [instance.name for instance in late]
                keys |= zip(names, pool.map(self._host_keys, late), strict=True)
                late = [instance for instance in late if not keys[instance.name]]
                if not late:
                    break
                self.check(site, self.list(site, ()), 0.0)
                if time.monotonic() + pause > deadline:
                    output = tail(self.client.console(instance_view(late[0]).id))
                    raise Timeout(
                        f"{late[0].name} has not reported its host keys within "
                        f"{self.options.wait:.0f} s.",
                        means=f"Its console:\n{output}" if output else "Its console is empty.",
                        remedy="Its image needs Google's guest agent; wait longer: "
                        "--option wait=600",
                    )
                time.sleep(pause)
        ssh_keys.add_known_hosts(
            known_hosts, [(alias(instance), key) for instance in new for key in keys[instance.name]]
        )

    def _host_keys(self, instance: Instance) -> tuple[str, ...]:
        """Read them from the guest attributes; none until the guest agent has written them."""
        try:
            answer: GuestAttributes = self.client.call(
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

    def _names(self, count: int) -> tuple[str, ...]:
        return tuple(f"{self._stem}-{number:0{DIGITS}}" for number in range(1, count + 1))

    @property
    def _stem(self) -> str:
        """How names of machines begin; those that are added have a letter where others have digits.

        So the first name in the order of the alphabet shows how all of them begin.
        """
        stem = label(self._tags) + self.suffix
        return f"{stem}-r{self._tags.launch[:4]}" if self._is_addition else stem

    # What machines need.

    def _make_all(self, collection: str, bodies: Sequence[dict[str, Any]], **scope: str) -> None:
        self._insert(collection, bodies, **scope)
        for body in bodies:
            self._record_created(collection, body, *scope.values())

    def _create_named(self, collection: str, body: dict[str, Any]) -> None:
        """Create a named resource, and refuse a name that another launch has.

        A call of this launch whose reply was lost may have created it already.
        """
        self._insert(collection, [body])
        scope = {singular(collection): body["name"]}
        existing = retry(lambda: self.client.call(collection, "get", **scope), kinds=UNLISTED)
        tags = parse_description(existing.description)
        if tags is None or tags.launch != self._tags.launch:
            raise name_taken_error(self._spec.name, f"the project {self.client.name}")
        self._record_created(collection, body)

    def _record_created(self, collection: str, body: dict[str, Any], *scope: str) -> None:
        token = request_id(self._tags, f"{collection}/{body['name']}")
        self.journal.record_created(token, "/".join((*scope, body["name"])))

    def _insert(self, collection: str, bodies: Sequence[dict[str, Any]], **scope: str) -> None:
        """Create resources at the same time; again after an internal error of Google."""
        label = call_name(collection, "insert")
        for attempt in range(ATTEMPTS):
            operations = []
            for body in bodies:
                token = request_id(self._tags, _again(f"{collection}/{body['name']}", attempt))
                self.journal.note(collection, token)
                resource = {f"{singular(collection)}_resource": body}
                with ignoring("exists"):
                    operation = self.client.begin(
                        collection, "insert", request_id=token, **resource, **scope
                    )
                    operations.append((body, operation))
            bodies = []
            for body, operation in operations:
                try:
                    with ignoring("exists"):
                        self.client.finish(label, operation)
                except Failure as failure:
                    if failure.kind != "internal" or attempt == ATTEMPTS - 1:
                        raise
                    bodies.append(body)
            if not bodies:
                return
            time.sleep(PAUSE)


def _again(label: str, attempt: int) -> str:
    """Name an attempt at a call, so that each attempt gets its own request id."""
    return f"{label}/again{attempt}" if attempt else label
