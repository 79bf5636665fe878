"""Pods of a Kubernetes cluster as hosts: a Job of ours owns them, and they end with it.

EXPERIMENTAL: tested with kubectl on a strict API server of our own, never on a real cluster.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import ClassVar, NamedTuple

import msgspec

from cluster import providers
from cluster.core import decoders
from cluster.core.errors import ClusterError, ProvisionError, SpecError, on_failure
from cluster.core.kubectl import parse_namespace, parse_pod
from cluster.core.model.hosts import Machine
from cluster.core.model.network.placement import ProviderTopology
from cluster.core.model.resources import Plan, RemoteCluster, Resource
from cluster.core.model.spec import ClusterSpec, Environment
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state import journal
from cluster.core.text.units import format_seconds
from cluster.providers.kubernetes import objects
from cluster.providers.kubernetes.api import Api, Passing, choose
from cluster.providers.kubernetes.examine import examine
from cluster.providers.kubernetes.options import KubernetesOptions, options_of, time_limit
from cluster.providers.kubernetes.plan import (
    check_queue,
    check_verbs,
    count_nodes,
    node_notes,
    quota_notes,
)
from cluster.providers.kubernetes.startup import IMAGE_REMEDY, POLL, wait_for_pods
from cluster.providers.kubernetes.states import Object, place_of, read_topology, why_lost, why_over

BY_LABEL = "choose nodes by their labels: --option nodes=LABEL=VALUE"
REFUSED_OPTIONS = {
    **dict.fromkeys(("instance", "zone", "placement", "spot"), BY_LABEL),
    "accelerator": "ask for GPUs by --option gpus=8",
    "max_cost": "its pods have no price here; limit their time: --ttl 2h",
    "idle": "limit their time: --ttl 2h",
}
RUN, REASON = "cluster-ruler-cordoned-by", "cluster-ruler-cordoned-why"  # annotations of a node
GONE_WITHIN = 90.0  # seconds for the pods of a deleted Job to end
SEEN_WITHIN = 10.0  # seconds in which a Job is listed, also if its answer was lost


class LaunchedJob(NamedTuple):
    api: Api
    job: Object
    mark: objects.JobMark

    @property
    def pods(self) -> tuple[Object, ...]:
        return self.api.pods(self.mark.token)


class KubernetesProvider(
    providers.Provider,
    providers.CountsHosts,
    providers.Regional,
    providers.Searchable,
    providers.Resumes,
    providers.PreparesHosts,
    providers.RevokedAtOnce,
    providers.OffersGpus,
    providers.KnowsTopology,
    providers.HintsReplacement,
    providers.Cordons,
    providers.Examines,
    providers.SharesHosts,
):
    """Pods that a Job of ours owns."""

    Options: ClassVar[type[Value]] = KubernetesOptions
    gpu_advice: ClassVar[str] = "--option gpus={gpus}"
    _api: Api | None = None  # that of the plan

    def default_hosts(self, options: dict[str, str]) -> int:
        opts = decoders.convert(options, KubernetesOptions, strict=False)
        return count_nodes(Api(choose(opts.namespace, opts.context)), opts) if opts.on_all else 2

    def plan(self, spec: ClusterSpec) -> Plan:
        """Ask the API server whether it takes the Job, and whether nodes and quotas have room."""
        providers.refuse(spec, REFUSED_OPTIONS)
        providers.refuse_groups(spec, "The pods of a Job are of one kind")
        options = options_of(spec)
        text = objects.write_job(spec, objects.new_mark(spec.name), self._token_of(options.share))
        api = self._api = Api(choose(options.namespace, options.context))
        with ThreadPoolExecutor() as pool:  # kubectl begins slowly, and may have to log in
            rooms = [
                pool.submit(lambda ask: tuple(ask(api, spec.hosts, options)), ask)
                for ask in (quota_notes, node_notes)
            ]
            check_verbs(api)
            if options.on_all and spec.hosts != (count := count_nodes(api, options)):
                raise SpecError(
                    f"--hosts is {spec.hosts}, and nodes={options.nodes} are {count} nodes.",
                    remedy="Leave one of them out.",
                )
            if options.queue:
                check_queue(api, options.queue)
            api.create(text, dry=True)
        amounts = "".join(f", {amount} {name}" for name, amount in options.resources.items())
        notes = tuple(note for room in rooms for note in room.result())
        place = api.namespace.place
        lines = (
            f"a Job in {place}: {spec.hosts} pods, network {options.network}{amounts}",
            f"ends by itself {format_seconds(time_limit(spec))} after its start",
        )
        return Plan(lines=(*lines, *notes), ttl=time_limit(spec), warnings=notes)

    def create(
        self, spec: ClusterSpec, journal: journal.Journal, on_state: StateCallback = ignore
    ) -> tuple[Machine, ...]:
        """Create the Job, or find that of an interrupted launch, and wait until its pods run."""
        options = options_of(spec)
        with on_failure(lambda: self.destroy(spec.name)):
            jobs = [item for item in self._launches(spec.name) if not why_over(item.job)]
            api, mark = (jobs[0].api, jobs[0].mark) if jobs else self._create(spec, journal)
            pods = wait_for_pods(api, mark, spec, options, on_state)
            places = {node.metadata.name: place_of(node) for node in api.nodes_of(pods)}
            pods = tuple(sorted(pods, key=lambda pod: places[pod.spec.node_name]))
        return tuple(
            Machine(  # noqa: S604 - "shell" names a plug-in
                name=spec.machine_name(number),
                id=f"{pod.metadata.name}.{api.namespace.place}",
                address=pod.status.pod_ip,
                shell="kubectl",
                folder=f".cluster-{spec.name}",
                bin=options.bin or f".cluster-{spec.name}/env/bin",
            )
            for number, pod in enumerate(pods)
        )

    def _create(self, spec: ClusterSpec, cluster: journal.Journal) -> tuple[Api, objects.JobMark]:
        options, mark = options_of(spec), objects.new_mark(spec.name)
        api = self._api or Api(choose(options.namespace, options.context))
        place = api.namespace.place
        journal.remember_region(self.name, place)
        cluster.append(
            journal.Requested(
                provider=self.name, region=place, kind="job", token=mark.token, at=time.time()
            )
        )
        try:
            job = api.create(objects.write_job(spec, mark, self._token_of(options.share)))
        except ClusterError as error:
            if not isinstance(error, Passing):  # otherwise, it may have been created
                cluster.append(journal.Answered(token=mark.token))
            raise
        cluster.append(journal.Answered(token=mark.token, ids=(job.metadata.name,)))
        return api, mark

    def _token_of(self, name: str) -> str:
        """Return the label of a cluster's pods; none for no name (SpecError: it has none)."""
        tokens = [launch.mark.token for launch in self._launches(name)] if name else [""]
        if not tokens:
            raise SpecError(f"There is no cluster {name!r} whose nodes could be shared.")
        return tokens[0]

    def environment(self, spec: ClusterSpec) -> Environment | None:
        options = decoders.convert(spec.options, KubernetesOptions, strict=False)
        if options.bin:
            return None
        return Environment(
            source=options.source, mpi=options.mpi, python=options.python, remedy=IMAGE_REMEDY
        )

    def revocation_reason(
        self, spec: ClusterSpec, machines: tuple[Machine, ...]
    ) -> ProvisionError | None:
        """Return why pods are over; none while all run, or if the API server does not answer."""
        with suppress(ClusterError):
            if reason := self._why_lost(spec, machines):
                return ProvisionError(f"Pods of {spec.name} are over. {reason.rstrip('.')}.")
        return None

    def _why_lost(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> str:
        """Say why the Job or pods of machines are over; empty while they run (ClusterError)."""
        names = {machine.id.partition(".")[0]: machine.name for machine in machines}
        launches = self._launches(spec.name)
        if not launches:
            # a pod has the name of its Job, its index and five characters
            jobs = dict.fromkeys(name.rsplit("-", 2)[0] for name in names)
            return "; ".join(
                f"The Job {job} was deleted{_api_of(machines).why_gone(job)}" for job in jobs
            )
        if reasons := [reason for item in launches if (reason := why_over(item.job))]:
            return "; ".join(reasons)
        pods = {pod.metadata.name: pod for item in launches for pod in item.pods}
        ends = {
            name: why_lost(pods[name])
            if name in pods
            else f"its pod was deleted by somebody else{launches[0].api.why_gone(name)}"
            for name in names
        }
        return "; ".join(f"{names[pod]} ended: {reason}" for pod, reason in ends.items() if reason)

    def topology(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> ProviderTopology:
        """Return the layers of the network that the labels of the pods' nodes name."""
        names = [machine.id.partition(".")[0] for machine in machines]
        by_name = {p.metadata.name: (e.api, p) for e in self._launches(spec.name) for p in e.pods}
        if not by_name.keys() >= set(names):
            return ProviderTopology(reason="pods do not exist any more")
        api = by_name[names[0]][0]
        return read_topology(api.nodes_of([by_name[name][1] for name in names]))

    def replacement_hint(self, spec: ClusterSpec, bad: tuple[Machine, ...]) -> str:
        """Return the commands that keep pods off the nodes of bad hosts, and launch them again."""
        names = {machine.id.partition(".")[0] for machine in bad}
        pods = [pod for launch in self._launches(spec.name) for pod in launch.pods]
        nodes = " ".join(p.spec.node_name for p in pods if p.metadata.name in names)
        return (
            f"Take new pods off these nodes, for everybody: kubectl cordon {nodes}; "
            f"then launch again: cluster down {spec.name}; cluster up {spec.name} ..."
        )

    def examine(self, options: Mapping[str, str]) -> Iterator[providers.DoctorCheck]:
        return examine(options)

    def cordon(
        self, machines: tuple[Machine, ...], run: str, reason: str, share: float
    ) -> tuple[str, ...]:
        """Cordon nodes with a mark of the run; one that is cordoned already stays as it is."""
        api = _api_of(machines)
        nodes = {node.metadata.name: node for node in api.nodes()}
        pods = (parse_pod(machine.id)[0] for machine in machines)
        targets = tuple(api.pod(name).spec.node_name for name in pods)
        new = [name for name in dict.fromkeys(targets) if not nodes[name].spec.unschedulable]
        names = [name for name, node in nodes.items() if RUN in node.metadata.annotations]
        limit = max(1, int(share * len(nodes)))
        if len({*new, *names}) > limit:
            raise SpecError(
                f"{len(new)} node(s) would be cordoned beside {len(names)} that have our mark; "
                f"{share:.0%} of the {len(nodes)} nodes are {limit}.",
                means="None was cordoned.",
                remedy="Allow more: --at-most 25%; or cordon some by hand: kubectl cordon NODE",
            )
        for name in new:
            _patch(api, nodes[name], unschedulable=True, marks={RUN: run, REASON: reason})
        return targets

    def uncordon(self, machines: tuple[Machine, ...], run: str) -> tuple[str, ...]:
        api = _api_of(machines)
        nodes = [node for node in api.nodes() if node.metadata.annotations.get(RUN) == run]
        for node in nodes:
            _patch(api, node, unschedulable=None, marks={RUN: None, REASON: None})
        return tuple(node.metadata.name for node in nodes)

    def sharing_options(self, spec: ClusterSpec) -> dict[str, str]:
        return {"share": spec.name}

    def describe_unreachable(self, spec: ClusterSpec, machines: tuple[Machine, ...]) -> str:
        try:
            return self._why_lost(spec, machines) or "the API server reports no end of its pod"
        except ClusterError:
            return "the API server does not answer, either"

    @classmethod
    def has_region(cls, text: str) -> bool:
        """Return whether a text names a namespace and a context, such as `team-a@gke`."""
        name, separator, _ = text.partition("@")
        return bool(separator) and name.replace("-", "").isalnum()

    def find(self, name: str) -> tuple[Resource, ...]:
        return tuple(
            Resource(kind=kind, id=item.metadata.name)
            for launch in self._launches(name)
            for kind, item in (("job", launch.job), *(("pod", pod) for pod in launch.pods))
        )

    def destroy(self, name: str) -> None:
        """A Job whose creation was never answered may appear late, so that is waited for."""
        deadline = time.monotonic() + GONE_WITHIN
        while True:
            launches = self._launches(name)
            for item in launches:
                if not item.job.metadata.deletion_timestamp:
                    item.api.delete(item.mark.job)
            if not launches and time.time() > journal.pending_since(name) + SEEN_WITHIN:
                return
            if time.monotonic() > deadline:
                raise _not_gone(name, self.find(name))
            time.sleep(POLL)

    def _launches(self, name: str) -> list[LaunchedJob]:
        """List the Jobs of a cluster; only those of its journal, where there is one."""
        entries = journal.entries_of(name)
        requests = {e.token: e.region for e in entries if isinstance(e, journal.Requested)}
        places = tuple(requests.values()) if entries else self._places()
        return [
            launch
            for launch in _all_launches(places)
            if launch.mark.name == name and (launch.mark.token in requests or not entries)
        ]

    def _places(self) -> tuple[str, ...]:
        return (*self.regions, *journal.used_regions(self.name))

    def live(self) -> tuple[RemoteCluster, ...]:
        """List the clusters of all machines in the namespaces that were used from this one."""
        return tuple(map(_remote, _all_launches(self._places())))

    def search_scope(self, name: str) -> str:
        requests = (e.region for e in journal.entries_of(name) if isinstance(e, journal.Requested))
        places = ", ".join(dict.fromkeys(tuple(requests) or self._places()))
        return f"Jobs of Kubernetes in {places}" if places else ""


def _api_of(machines: tuple[Machine, ...]) -> Api:
    return Api(parse_pod(machines[0].id)[1])


def _all_launches(places: tuple[str, ...]) -> list[LaunchedJob]:
    apis = [Api(parse_namespace(place)) for place in dict.fromkeys(places)]
    rows = ((api, job, objects.mark_of(job)) for api in apis for job in api.jobs())
    return [LaunchedJob(api, job, mark) for api, job, mark in rows if mark]


def _patch(
    api: Api, node: Object, *, unschedulable: bool | None, marks: dict[str, str | None]
) -> None:
    """Change a node in one call, which is refused if somebody changed it since it was read."""
    version = {"resourceVersion": node.metadata.resource_version}
    patch = {
        "metadata": {**version, "annotations": marks},
        "spec": {"unschedulable": unschedulable},
    }
    api.patch_node(node.metadata.name, msgspec.json.encode(patch).decode())


def _not_gone(name: str, resources: tuple[Resource, ...]) -> ProvisionError:
    pods = " ".join(resource.id for resource in resources if resource.kind == "pod")
    force = f"; if a node is gone for good: kubectl delete pod {pods} --force" if pods else ""
    return ProvisionError(
        f"{len(resources)} resource(s) of {name} were deleted, and still exist: "
        + ", ".join(f"{resource.kind} {resource.id}" for resource in resources),
        means="A node does not answer, or a finalizer of another tool holds them.",
        remedy=f"Try again later: cluster down {name}{force}",
    )


def _remote(launch: LaunchedJob) -> RemoteCluster:
    job, pods = launch.job, launch.pods
    start = _epoch(job.status.start_time)
    return RemoteCluster(
        name=launch.mark.name,
        region=launch.api.namespace.place,
        host=launch.mark.host,
        addresses=tuple(pod.status.pod_ip for pod in pods if pod.status.pod_ip),
        states=tuple(pod.status.phase.lower() for pod in pods) or (why_over(job) or "queued",),
        since=_epoch(job.metadata.creation_timestamp),
        expires=start + job.spec.active_deadline_seconds if start else 0.0,
    )


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp() if text else 0.0
