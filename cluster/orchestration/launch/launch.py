"""launch(): create the machines of a spec and wait until they answer; a failure leaves nothing."""

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from cluster import providers
from cluster.core import plugins
from cluster.core.errors import (
    Capacity,
    ClusterError,
    HostErrors,
    LaunchLeft,
    ProvisionError,
    SpecError,
    on_failure,
)
from cluster.core.model.network.gate import FEWEST, Gate
from cluster.core.model.resources import Plan
from cluster.core.model.spec import ClusterSpec, Group, SpecOptions, group_words
from cluster.core.model.value import StateCallback, Value, ignore
from cluster.core.state import journal
from cluster.core.state.claims import this_process
from cluster.core.text.options import convert
from cluster.core.text.units import parse_rate, parse_seconds
from cluster.orchestration.cluster import Cluster, attach
from cluster.orchestration.hosts.machines import can_replace, connect
from cluster.orchestration.hosts.state import ClusterState, machine_states
from cluster.orchestration.jobs.host_group import read_script
from cluster.orchestration.notebook import NotebookProgress, in_notebook
from cluster.remote.files.mounts import mount_all
from cluster.remote.parallel import connect_all
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store
from cluster.runs.run import PAIRS, Run

ANSWER_WITHIN = 5.0  # seconds for hosts that were reachable before to answer
PAIR = 2  # hosts if the user gives no number, so that there is a pair to measure
REBUILT = "Rebuild it; what is on its hosts is lost: cluster bench or cluster up with --replace"


class Proof(Value, frozen=True, kw_only=True):
    """The gate that the hosts of a launch pass before a job starts on them."""

    within: float  # seconds; with hosts replaced, there are two gates
    limit: float = 0.0  # bytes per second that a link should carry; 0: what the provider says

    def check(self, spec: ClusterSpec, plan: Plan) -> None:
        """Refuse what no gate can prove, before anything is made (SpecError)."""
        is_alone = spec.hosts < FEWEST
        if is_alone or spec.provider == "local":
            reason = "one host is no pair" if is_alone else "no network is between them"
            raise SpecError(
                f"The hosts of {spec.name} cannot be proven: {reason}.",
                means="Nothing was made.",
                remedy="Leave --prove out.",
            )
        if not plan.link and not self.limit:
            raise SpecError(
                f"The hosts of {spec.name} cannot be proven: what their links carry is not known "
                "before a test.",
                means="Nothing was made.",
                remedy=f"Say it behind the time, such as {self.within:g}s,100gbit",
            )


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
        hosts: How many machines; by default, 2, or as many as the options name.
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
    arguments = locals()
    fields = {field: arguments[field] for field in SpecOptions.__struct_fields__}
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
        by_name = _groups(groups)
        hosts = sum(group.hosts for group in by_name.values())
        values = {"hosts": hosts, **values, "groups": by_name}
    spec = convert({**values, "name": name}, ClusterSpec, "option", "launch")
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
            specs[name] = convert(group, Group, "option", f"the group {name!r}")
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
    kind = plugins.find(providers.Provider, provider)
    convert(options, kind.Options, "option", f"the provider {provider!r}")
    return kind().default_hosts(dict(options)) if issubclass(kind, providers.CountsHosts) else PAIR


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
    start = time.monotonic()
    cluster_journal = journal.for_cluster(spec.name)
    provider, plan = plan_spec(spec, proof, cluster_journal)
    if confirm:
        confirm(plan)
    if cluster_journal.is_launching():
        raise cluster_journal.busy_error()
    resuming = False
    if existing := _find(cluster_journal):
        resuming = isinstance(provider, providers.Resumes) and existing.state.is_unfinished(spec)
        if existing.state.launched:
            if _is_usable(existing, spec, replace=replace):
                mount_all(existing.shells(), providers.mounts_of(provider, spec))
                return existing
            existing.down(reason=outcome_words("rebuilt", this_process().words))
            plan = provider.plan(spec)
        elif not resuming:
            _remove_unfinished(existing)
    intent = journal.Intended(
        spec=spec,
        at=time.time(),
        costs=plan.costs,
        price=plan.price,
        prices=plan.prices,
        ttl=plan.ttl,
    )
    with cluster_journal.open_for_launch(intent, resuming=resuming):
        cluster = _make(spec, provider, plan, cluster_journal, on_state)
    cluster.launch_phases = {"launch": time.monotonic() - start, **cluster.state.phases}
    return cluster


def _find(cluster_journal: journal.Journal) -> Cluster | None:
    """Return the cluster of a journal; None if no launch is in it, or not any more."""
    try:
        return Cluster(cluster_journal)
    except SpecError:
        return None


def _differing_flags(running: ClusterSpec, wanted_spec: ClusterSpec) -> str:
    """Name the flags in which a running cluster differs from a wanted one."""
    old, new = _flags(running), _flags(wanted_spec)
    extra = " ".join(flag for name, flag in old.items() if new.get(name) != flag)
    flags = " ".join(flag for name, flag in new.items() if old.get(name) != flag)
    if not extra:
        return f"without {flags}"
    return f"with {extra}, not with {flags}" if flags else f"with {extra}, which was not asked for"


def _flags(spec: ClusterSpec) -> dict[str, str]:
    """Write a spec as flags, by their names; provider first."""
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
    elif isinstance(provider, providers.RevokedAtOnce) and (text := _revocation(provider, cluster)):
        return text
    elif words := _describe_ended(provider, cluster.state):
        return words
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
    return _revocation(provider, cluster) or reason


def _revocation(provider: providers.Provider, cluster: Cluster) -> str:
    """Say why the machines were reclaimed; empty if they were not, or if it is not known."""
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
                cluster = Cluster(cluster_journal)
                ownership = cluster.state.owned
                expires = ownership.expires if ownership else plan.ttl and time.time() + plan.ttl
                cluster.disk.record(journal.Created(machines=machines, expires=expires))
            start = time.monotonic()
            try:
                connect(cluster.disk, cluster.remote, machines, on_state)
                break
            except Capacity as error:
                cluster.close()
                if not isinstance(provider, providers.Resumes):
                    raise
                for machine in machines:
                    on_state(machine.name, error.what)
        if plan.costs:
            cluster.disk.record(journal.Timed(phase="ssh", seconds=time.monotonic() - start))
        cluster.disk.record(journal.LaunchFinished())
    return cluster


def _take_down(name: str) -> None:
    """Take down the machines of a failed launch, and add their cost to its error."""
    error = sys.exception()
    if isinstance(error, LaunchLeft):
        return
    with suppress(SpecError):  # another process may have taken it down already
        cluster = attach(name)
        cluster.down(reachable=False)
        folder = cluster.disk.journal.folder
        errors = error.exceptions if isinstance(error, HostErrors) else (error,)
        for member in errors:
            if isinstance(member, ClusterError) and Path(member.file).is_relative_to(folder):
                member.remedy = "The machines and their files here are gone: type the same again."
        if isinstance(error, ClusterError):
            receipt = cluster.receipt()
            if receipt and receipt.dollars is not None:
                usage = f"{receipt.hosts} machine(s) existed for {receipt.seconds:.0f} s"
                error.means = f"{error.means}\n{usage}: ${receipt.dollars:.2f}.".strip()


def plan_spec(
    spec: ClusterSpec, proof: Proof | None = None, cluster_journal: journal.Journal | None = None
) -> tuple[providers.Provider, Plan]:
    """Ask a provider whether it can create the machines of a spec, to be proven (SpecError).

    If this cluster exists already, none are created, and the cloud is not asked: it would count the
    existing machines against the quota again.
    """
    entries = (cluster_journal or journal.for_cluster(spec.name)).entries()
    state = ClusterState.from_entries(entries)
    provider = plugins.load(providers.Provider, spec.provider)
    convert(spec.options, provider.Options, "option", f"the provider {spec.provider!r}")
    mounts = tuple(mount.line for mount in providers.mounts_of(provider, spec))
    if state and state.costs and state.was_launched_as(spec):
        plan, line = state.plan, _describe_ended(provider, state)
        plan = structs.replace(plan, lines=(line,)) if line else plan
    else:
        plan = provider.plan(spec)
    if proof:
        proof.check(spec, plan)
    return provider, structs.replace(plan, lines=(*plan.lines, *mounts)) if mounts else plan


def _describe_ended(provider: providers.Provider, state: ClusterState) -> str:
    """Say which machines do not exist any more; empty if none, or if the cloud does not say."""
    try:
        states = machine_states(provider, state)
    except ClusterError:  # then it is found out whether each machine answers
        return ""
    count, total = states.count(providers.ENDED), len(states)
    if not count:
        return ""
    if count == total:
        return outcome_words("all_ended", count, state.name)
    return outcome_words("some_ended", count, total, state.name)


def read_proof(value: str | float | None) -> Proof | None:
    """Read seconds, `60s`, or `60s,100gbit` with what a link should carry (SpecError)."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SpecError(
            f"prove is {value!r}, and no time.", remedy='Write 60, "60s" or "60s,100gbit".'
        )
    span, comma, rate = value.partition(",") if isinstance(value, str) else (value, "", "")
    return Proof(within=parse_seconds(span), limit=parse_rate(rate) if comma else 0.0)


def prove_launch(
    cluster: Cluster, proof: Proof, on_state: StateCallback = ignore, *, keep: bool = False
) -> Gate:
    """Prove the hosts of a launch, and replace bad ones once where the provider can.

    ProvisionError: they are not proven; a new cluster is taken down, unless `keep`.
    """
    from cluster.orchestration.launch.gate import prove  # noqa: PLC0415 - slow: numpy
    from cluster.reports.words.gate import with_words  # noqa: PLC0415 - as above

    is_new = bool(cluster.launch_phases) and not keep
    with on_failure(cluster.down if is_new else cluster.close):
        params = {"limit": proof.limit}
        gate = prove(cluster, proof.within, params=params)
        count = _replace_hosts(cluster, gate, on_state)
        if count:
            gate = prove(cluster, proof.within, params=params)
        if gate.verdict != "PROVEN":
            if is_new:  # nothing can be typed about a cluster that is gone
                gate = with_words(replace(gate, step=None), cluster.name)
            raise ProvisionError(
                f"{cluster.name} was launched, and its hosts are not proven. {gate.answer}",
                means="It was taken down." if is_new else "It stays up.",
                remedy="Launch it on other hosts, or with --keep to look at these."
                if is_new
                else f"Look at them: cluster check {cluster.name}",
            )
        cluster.disk.record(
            journal.Proven(at=time.time(), hosts=gate.proven, replaced=count, took=gate.took)
        )
    return gate


def _replace_hosts(cluster: Cluster, gate: Gate, on_state: StateCallback) -> int:
    """Replace the hosts that a gate found to be bad; return how many were."""
    from cluster.orchestration.launch import replacement  # noqa: PLC0415 - slow: numpy

    if gate.code != "faults" or not can_replace(cluster.disk):
        return 0
    run = store.read(Path(gate.run))
    if run.fleet is None:
        return 0

    def test(pairs: Sequence[tuple[int, int]]) -> Run:
        return cluster.bench(PAIRS, pairs=tuple(f"{source}-{target}" for source, target in pairs))

    bad = replacement.bad_hosts(run, run.fleet, test)
    if not bad:
        return 0
    result = replacement.replace_hosts(cluster, run.fleet, bad, test, on_state)
    return sum(bool(host.new) for host in result)
