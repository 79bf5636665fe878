"""launch(): create the machines of a spec and wait until they answer; a failure leaves nothing."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import structs

from cluster import providers
from cluster.core import journal, plugins
from cluster.core.claims import this_process
from cluster.core.errors import (
    Capacity,
    ClusterError,
    HostErrors,
    LaunchLeft,
    SpecError,
    on_failure,
)
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec, Group, SpecOptions, group_words
from cluster.core.model.value import StateCallback, ignore
from cluster.core.options import convert
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.hosts.new_machines import connect
from cluster.orchestration.jobs.host_setup import read_script
from cluster.orchestration.launch.proof import Proof, prove_launch, read_proof
from cluster.orchestration.notebook import NotebookProgress, in_notebook
from cluster.remote.mounts import mount_all
from cluster.remote.parallel import connect_all
from cluster.reports.words.outcomes import outcome_words

ANSWER_WITHIN = 5.0  # seconds for hosts that were reachable before to answer
PAIR = 2  # hosts if the user gives no number, so that there is a pair to measure
REBUILT = "Rebuild it; what is on its hosts is lost: cluster bench or cluster up with --replace"


def launch(  # noqa: PLR0913 - each is an option of its own
    name: str,
    *,
    provider: str = SpecOptions().provider,
    hosts: int | None = None,
    ranks_per_host: int = 1,
    placement: bool = False,
    instance: str | None = None,
    zone: str | None = None,
    image: str | None = None,
    spot: bool = False,
    accelerator: str | None = None,
    ttl: float | None = None,
    max_cost: float | None = None,
    idle: float | None = None,
    options: Mapping[str, str] | None = None,
    groups: Mapping[str, Group | Mapping[str, object] | int] | None = None,
    setup: str | Path | None = None,
    prove: float | str | None = None,
    keep: bool = False,
    replace: bool = False,
) -> Cluster:
    """Launch a cluster; it stays until `.down()`, or until the end of a `with` block.

    Example: `c = cluster.launch("mine", provider="aws", hosts=8, instance="p5.48xlarge", idle=900)`

    A running cluster of this name is used again if it has the same options and all hosts answer;
    else it is left as it is, and the launch refused. With `replace`, what is on its hosts is lost.

    Args:
        name: Name of the cluster: a letter or digit, then at most 29 of letters, digits, `_`, `-`.
        provider: Where the machines come from.
        hosts: How many machines; 2, or as many as the provider finds named.
        ranks_per_host: MPI processes on each.
        placement: In a placement group.
        instance: The provider's machine type.
        zone: The provider's zone.
        image: Machine image.
        spot: Spot instances: cheaper, but the cloud may end them.
        accelerator: Accelerators of each machine, such as t4:1.
        ttl: Seconds after which the machines end.
        max_cost: Dollars that the machines may cost, after which they end.
        idle: Seconds without a job, SSH session or attached tmux, after which the machines end.
        options: Options of the provider.
        groups: Hosts of several types, each with a name. Instead of `hosts`:
            `{"worker": cluster.Group(hosts=4, instance="g5.12xlarge"), "ps": 2}`.
        setup: A script that each host runs once; see `Cluster.setup`.
        prove: Seconds, or `60s`, in which all hosts are proven, or replaced, or the launch fails;
            `60s,100gbit` says what their links carry, where the provider does not know it.
        keep: Leave new hosts up if they are not proven or their set-up fails, to look at them.
        replace: Rebuild a cluster that cannot be used as it is; without it, that is refused.

    Raises:
        SpecError: the provider cannot make it; nothing was created.
        ProvisionError: machines were not created or proven; nothing is left, unless `keep`.
    """
    own = locals()
    fields = {field: own[field] for field in SpecOptions.__struct_fields__}
    script = None if setup is None else read_script(setup)
    proof = read_proof(prove)
    on_state = NotebookProgress().preparing if in_notebook() else ignore
    spec = make_spec(name, fields)
    cluster = launch_spec(spec, on_state, confirm=_warn, replace=replace, proof=proof)
    if proof:
        prove_launch(cluster, proof, on_state, keep=keep)
    if script is not None:
        set_up(cluster, script, keep=keep)
    return cluster


def set_up(cluster: Cluster, script: str, *, keep: bool = False) -> None:
    """Run a script on hosts that have not run it; a new cluster is taken down, unless `keep`."""
    with on_failure(cluster.down if cluster.launch_phases and not keep else cluster.close):
        cluster.setup(script)


def _warn(plan: Plan) -> None:
    for line in plan.warnings:
        warnings.warn(line, stacklevel=4)  # where `launch` was called


def make_spec(name: str, fields: Mapping[str, object]) -> ClusterSpec:
    """Make a spec from fields of `SpecOptions`, `hosts` as the provider's default (SpecError)."""
    values = {key: value for key, value in fields.items() if value is not None}
    if groups := values.get("groups"):
        named = _groups(groups)
        hosts = sum(group.hosts for group in named.values())
        values = {"hosts": hosts, **values, "groups": named}
    spec = convert({**values, "name": name}, ClusterSpec, "option of launch")
    if "hosts" in values:
        return spec
    return structs.replace(spec, hosts=default_hosts(spec.provider, spec.options))


def _groups(groups: object) -> dict[str, Group]:
    """Read groups of hosts (SpecError: one has an option that no group has, or a wrong one)."""
    if not isinstance(groups, Mapping):
        raise SpecError(f"groups is {groups!r}; it must be groups of hosts by their names.")
    specs = {}
    for name, group in groups.items():
        if isinstance(group, int):
            specs[name] = Group(hosts=group)
        elif isinstance(group, Mapping):
            specs[name] = convert(group, Group, f"option of the group {name!r}")
        elif isinstance(group, Group):
            specs[name] = group
        else:
            raise SpecError(
                f"The group {name!r} is {group!r}; it must be a number of hosts or options.",
                remedy=f"There are: {', '.join(Group.__struct_fields__)}",
            )
    return specs


def default_hosts(provider: str, options: Mapping[str, str]) -> int:
    """Return the number of machines that a provider makes by default (SpecError)."""
    plugin = plugins.load(providers.Provider, provider)
    convert(options, plugin.Options, f"option of the provider {provider!r}")
    return (
        plugin.default_hosts(dict(options)) if isinstance(plugin, providers.CountsHosts) else PAIR
    )


def launch_spec(
    spec: ClusterSpec,
    on_state: StateCallback = ignore,
    *,
    confirm: Callable[[Plan], None] | None = None,
    replace: bool = False,
    proof: Proof | None = None,
) -> Cluster:
    """Launch the cluster that a spec describes (SpecError, ProvisionError: see `launch`).

    `confirm` gets the plan before anything is created, and may raise to stop the launch. `replace`
    rebuilds a cluster of this name that cannot be used as it is.
    """
    began = time.monotonic()
    provider, plan = plan_spec(spec, proof)
    if confirm:
        confirm(plan)
    cluster_journal = journal.for_cluster(spec.name)
    resuming = False
    if cluster_journal.entries():
        if cluster_journal.is_launching():
            raise cluster_journal.busy_error()
        existing = attach(spec.name)
        resuming = isinstance(provider, providers.Resumes) and existing.state.is_unfinished(spec)
        if existing.state.launched:
            if _is_usable(existing, spec, replace=replace):
                mount_all(existing.shells(), providers.mounts_of(provider, spec))
                return existing
            existing.down(reason=outcome_words("rebuilt", this_process().words))
            plan = provider.plan(spec)
        elif not resuming:
            _remove_unfinished(existing)
    intended = journal.Intended(
        spec=spec,
        at=time.time(),
        costs=plan.costs,
        price=plan.price,
        prices=plan.prices,
        ttl=plan.ttl,
    )
    with cluster_journal.open_for_launch(intended, resuming=resuming):
        cluster = _make(spec, provider, plan, cluster_journal, on_state)
    cluster.launch_phases = {"launch": time.monotonic() - began, **cluster.state.phases}
    return cluster


def _differing_flags(running: ClusterSpec, wanted_spec: ClusterSpec) -> str:
    """Say how a running cluster differs from the one that is asked for, in flags."""
    old, new = _flags(running), _flags(wanted_spec)
    has = " ".join(flag for name, flag in old.items() if new.get(name) != flag)
    flags = " ".join(flag for name, flag in new.items() if old.get(name) != flag)
    if not has:
        return f"without {flags}"
    return f"with {has}, not with {flags}" if flags else f"with {has}, which was not asked for"


def _flags(spec: ClusterSpec) -> dict[str, str]:
    """Write what a spec asks for as flags, by their names; provider first."""
    flags = {f"--option {key}": f"--option {key}={value}" for key, value in spec.options.items()}
    for name, group in spec.groups.items():
        flags[f"--group {name}"] = f"--group {group_words(name, group)}"
    for field in structs.fields(SpecOptions):
        value = getattr(spec, field.name)
        flag = f"--{field.name.replace('_', '-')}"
        if value is not None and field.name not in ("options", "groups"):
            flags[flag] = f"{flag}={int(value) if isinstance(value, bool) else value}"
    return flags


def _is_usable(cluster: Cluster, spec: ClusterSpec, *, replace: bool) -> bool:
    """Return whether a cluster can be used as it is; otherwise it is to be rebuilt."""
    reason = _why_unusable(cluster)
    if not reason and spec == cluster.spec:
        return True
    cluster.close()
    name = cluster.name
    if not reason:
        raise SpecError(
            f"{name} is running {_differing_flags(cluster.spec, spec)}.",
            means="It is left as it is.",
            remedy=f"Take it down and launch again: cluster down {name}; or choose another name.",
        )
    if not replace:
        raise SpecError(
            reason,
            means=f"{name} is left as it is, and nothing was started.",
            remedy=f"Look: cluster ls; cluster check {name}\n{REBUILT}",
        )
    return False


def _why_unusable(cluster: Cluster) -> str:
    """Say which hosts of a cluster do not answer, and what else is known; empty if all do."""
    provider, machines = plugins.load(providers.Provider, cluster.spec.provider), cluster.machines
    if cluster.state.is_off:
        return f"{cluster.name} is paused. To switch it on: cluster more resume {cluster.name}"
    if any(m.shell == "local" and not Path(m.bin, "python3").exists() for m in machines):
        reason = outcome_words("no_python", cluster.name, machines[0].bin)
    elif isinstance(provider, providers.RevokedAtOnce) and (revoked := _revoked(provider, cluster)):
        return revoked
    elif ended := _ended(cluster):
        return ended
    else:
        try:
            connect_all(cluster.shells(), ANSWER_WITHIN)
        except HostErrors as errors:
            members = (error for error in errors.exceptions if isinstance(error, ClusterError))
            reason = "\n".join(dict.fromkeys(error.what for error in members))
        except ClusterError as error:
            reason = error.what
        else:
            return ""
    return _revoked(provider, cluster) or reason


def _revoked(provider: providers.Provider, cluster: Cluster) -> str:
    """Say why the machines are not ours any more; empty while they are, or if it is not known."""
    if not isinstance(provider, providers.Revocable):
        return ""
    reason = provider.revocation_reason(cluster.spec, cluster.machines)
    return reason.what if reason else ""


def _remove_unfinished(cluster: Cluster) -> None:
    """Take down what an interrupted launch left; refuse if it costs money."""
    if cluster.costs:
        raise SpecError(
            f"There is a cluster {cluster.name!r} already, and it costs money.",
            means="Its launch was not finished. It is left as it is.",
            remedy=f"Take it down and launch again: cluster down {cluster.name}; "
            "or choose another name.",
        )
    cluster.down(reason=outcome_words("launched_again"))


def _make(
    spec: ClusterSpec,
    provider: providers.Provider,
    plan: Plan,
    cluster_journal: journal.Journal,
    on_state: StateCallback,
) -> Cluster:
    """Create the machines and wait until they answer; if that fails, take them down.

    Machines that are reclaimed before they answer are created again, in the next zone.
    """
    with on_failure(lambda: _take_down(spec.name)):
        while True:
            with cluster_journal.lock():
                machines = provider.create(spec, cluster_journal, on_state)
                owned = [e for e in cluster_journal.entries() if isinstance(e, journal.Owned)]
                expires = owned[-1].expires if owned else plan.ttl and time.time() + plan.ttl
                cluster_journal.append(journal.Created(machines=machines, expires=expires))
            cluster = Cluster(cluster_journal)
            began = time.monotonic()
            try:
                connect(cluster.disk, cluster.remote, cluster.machines, on_state)
                break
            except Capacity as error:
                cluster.close()
                if not isinstance(provider, providers.Resumes):
                    raise
                for machine in machines:
                    on_state(machine.name, error.what)
        if cluster.costs:
            cluster.disk.record(journal.Timed(phase="ssh", seconds=time.monotonic() - began))
        cluster.disk.record(journal.LaunchFinished())
    return cluster


def _take_down(name: str) -> None:
    """Take down the machines of a failed launch, and add their cost to its error."""
    error = sys.exception()
    if isinstance(error, LaunchLeft):
        return
    with suppress(SpecError):  # another process may have taken it down already
        failed = attach(name)
        failed.down(reachable=False)
        folder = failed.disk.journal.folder
        errors = error.exceptions if isinstance(error, HostErrors) else (error,)
        for member in errors:
            if isinstance(member, ClusterError) and Path(member.file).is_relative_to(folder):
                member.remedy = "The machines and their files here are gone: type the same again."
        if isinstance(error, ClusterError):
            _add_cost(error, failed)


def _add_cost(error: ClusterError, cluster: Cluster) -> None:
    receipt = cluster.receipt()
    if receipt and receipt.dollars is not None:
        existed = f"{receipt.hosts} machine(s) existed for {receipt.seconds:.0f} s"
        error.means = f"{error.means}\n{existed}: ${receipt.dollars:.2f}.".strip()


def plan_spec(spec: ClusterSpec, proof: Proof | None = None) -> tuple[providers.Provider, Plan]:
    """Ask a provider whether it can create the machines of a spec, to be proven (SpecError)."""
    provider = plugins.load(providers.Provider, spec.provider)
    convert(spec.options, provider.Options, f"option of the provider {spec.provider!r}")
    mounts = tuple(mount.line for mount in providers.mounts_of(provider, spec))
    plan = _plan_of_existing(spec) or provider.plan(spec)
    if proof:
        proof.check(spec, plan)
    return provider, structs.replace(plan, lines=(*plan.lines, *mounts)) if mounts else plan


def _plan_of_existing(spec: ClusterSpec) -> Plan | None:
    """Return the plan of a cluster that exists already and costs money.

    The cloud is not asked: it would count the existing machines against the quota again.
    """
    if not journal.for_cluster(spec.name).entries():
        return None
    cluster = attach(spec.name)
    if not cluster.costs or not cluster.state.was_launched_as(spec):
        return None
    plan = cluster.state.plan
    ended = _ended(cluster)
    return structs.replace(plan, lines=(ended,)) if ended else plan


def _ended(cluster: Cluster) -> str:
    """Say which machines do not exist any more; empty if none, or if the cloud does not say."""
    try:
        states = cluster.machine_states()
    except ClusterError:  # then it is found out whether each machine answers
        return ""
    ended, total = states.count(providers.ENDED), len(states)
    if not ended:
        return ""
    rest = "what else it had may still be there" if ended == total else "the others cost money"
    return outcome_words("machines_ended", ended, total, cluster.name, rest)
