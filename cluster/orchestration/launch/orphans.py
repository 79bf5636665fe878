"""Orphans: resources that we created but no cluster uses, found in journals and at providers."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from cluster.agent import scratch
from cluster.core import plugins
from cluster.core.errors import ClusterError, ProvisionError, SpecError, collect_errors, raise_all
from cluster.core.model.resources import Resource
from cluster.core.model.value import Value
from cluster.core.state import journal
from cluster.core.state.files import state_folder
from cluster.orchestration.cluster import attach
from cluster.orchestration.hosts.machines import destroy
from cluster.orchestration.hosts.state import ClusterState
from cluster.orchestration.launch.replacement import finish_replacement, is_half_replaced
from cluster.providers import NeedsCredentials, Provider, Regional, Replaces, Searchable, in_regions
from cluster.reports.words.outcomes import outcome_words

AGAIN = "cluster more gc -y"
LOOK_AGAIN = 1.0  # seconds between two searches for what a cloud may list late
FAILED = "clusters or providers failed"
THIS_MACHINE = "this machine"  # in place of a provider's name


OrphanReason = Literal[
    "job_over", "half_replaced", "expired", "unfinished", "unknown", "launched_on", "expired_on"
]


class Orphan(Value, frozen=True, kw_only=True):
    """Resources of a cluster that is no longer in use."""

    name: str  # of the cluster, or of the run whose job left files in this machine's shared memory
    provider: str  # its name, or `this machine`
    reason: OrphanReason
    host: str = ""  # that launched it, if no journal here knows of it
    why: str = ""  # the reason in words
    resources: tuple[Resource, ...]
    regions: tuple[str, ...] = ()


class Search(Value, frozen=True, kw_only=True):
    """What a search for orphans found, where it could not look, and where it did, as which user."""

    orphans: tuple[Orphan, ...]
    errors: tuple[ClusterError, ...]
    scopes: tuple[str, ...] = ()


def search(regions: Sequence[str] = (), *, everywhere: bool = False) -> Search:
    """Find unfinished launches, expired clusters, and clusters that no journal knows.

    Files that ended jobs left in this machine's shared memory are found, too. The result has an
    error for each cluster or provider that could not be searched; a cluster that is being launched
    right now is no orphan.
    """
    names = journal.names()
    errors: list[ClusterError] = []
    scopes = [journals_searched()]

    orphans: list[Orphan] = []
    for name in names:
        with collect_errors(errors):
            orphans += [*_half_made(name)]
    for kind in plugins.names(Provider):
        with collect_errors(errors):
            unknown = [*_of_provider(kind, tuple(regions), scopes, everywhere=everywhere)]
            orphans += [orphan for orphan in unknown if orphan.name not in names]
    orphans += [  # files that ended jobs left in this machine's shared memory
        Orphan(
            name=scratch.job_of(path).name,
            provider=THIS_MACHINE,
            reason="job_over",
            resources=(Resource(kind="shared memory", id=str(path)),),
        )
        for path in scratch.find_orphans()
    ]
    findings = (replace(o, why=outcome_words(o.reason, o.host)) for o in orphans)
    return Search(orphans=tuple(findings), errors=tuple(errors), scopes=tuple(scopes))


def remove(orphan: Orphan) -> None:
    """Delete an orphan's resources (ProvisionError)."""
    if orphan.provider == THIS_MACHINE:
        for resource in orphan.resources:
            path = Path(resource.id)
            if not scratch.remove(path):
                raise ProvisionError(
                    f"{path} could not be removed.",
                    means="Somebody uses it, or something in it is not yours.",
                    remedy=f"Look at it: ls -la {path}",
                )
    elif journal.exists(orphan.name):
        cluster = attach(orphan.name)
        if is_half_replaced(cluster.state):
            finish_replacement(cluster)
        else:
            cluster.down(reachable=bool(cluster.spec.options.get("mount")))
    else:
        provider = in_regions(plugins.find(Provider, orphan.provider), orphan.regions)
        destroy(provider, orphan.name, again=AGAIN)


def take_down(name: str, regions: Sequence[str] = ()) -> tuple[str, ...]:
    """Delete a cluster that only its machines' tags show (SpecError, ProvisionError)."""
    scopes: dict[str, bool] = {}  # what was searched, and whether something was found there
    errors: list[ClusterError] = []
    for kind in plugins.names(Provider):
        # a provider unusable here created nothing here; the others are searched all the same
        with collect_errors(errors), contextlib.suppress(SpecError):
            provider = in_regions(plugins.find(Provider, kind), tuple(regions))
            exists = _appears(provider, name, wait=bool(regions))
            if exists:
                destroy(provider, name, again=AGAIN)
            if scope := searched_by(provider, name):
                scopes[scope] = exists
    raise_all(errors, FAILED)
    if not any(scopes.values()):
        raise not_found(name, tuple(scopes))
    return tuple(scope for scope, exists in scopes.items() if exists)


def _appears(provider: Provider, name: str, *, wait: bool) -> bool:
    """Return whether a provider has resources of a cluster, or lists some in time."""
    if not isinstance(provider, Searchable):
        return bool(provider.find(name))
    deadline = time.monotonic() + (provider.listing_delay() if wait else 0.0)
    while not provider.find(name):
        if time.monotonic() >= deadline or not provider.search_scope(name):
            return False
        time.sleep(LOOK_AGAIN)
    return True


def not_found(name: str, scopes: Sequence[str]) -> SpecError:
    """Return the error for a cluster of which nothing was found, with all that was searched."""
    return SpecError(
        f"There is no cluster {name!r}.",
        means="Nothing of that name was found, and nothing was taken down. "
        + searched_lines((journals_searched(), *scopes)),
        remedy="It may exist under another name, login, account, project or region. "
        "List what this login has: cluster ls --region REGION; then: "
        f"cluster down {name} --region REGION (Google: projects/PROJECT; Slurm: login:USER@HOST)",
    )


def no_clusters(regions: Sequence[str] = ()) -> tuple[str, ...]:
    """Ask every provider what exists, where no journal here knows of a cluster (SpecError)."""
    search_ = search(regions)
    raise_all(search_.errors, FAILED)
    text = outcome_words("no_clusters")
    lines = searched_lines(search_.scopes)
    names = [orphan.name for orphan in search_.orphans if orphan.provider != THIS_MACHINE]
    if names:
        raise SpecError(
            f"No journal here knows of {', '.join(names)}; nothing was taken down.",
            means=lines,
            remedy=f"See them: cluster ls; take them down: cluster down {' '.join(names)}",
        )
    return text, lines


def searched_by(provider: Provider, name: str = "") -> str:
    """Return what a provider has searched, or that it had nowhere to; empty if it keeps nothing."""
    scope = provider.describe_search(name) if isinstance(provider, Searchable) else ""
    if scope or not isinstance(provider, NeedsCredentials):
        return scope
    return outcome_words("no_credentials", provider.name)


def searched_lines(scopes: Sequence[str]) -> str:
    return "\n".join(["Searched:", *(f"  {place}" for place in scopes)])


def journals_searched() -> str:
    return f"journals: {state_folder()}"


def _half_made(name: str) -> Iterator[Orphan]:
    """Find a launch or replacement whose process died, or a cluster that has expired."""
    cluster_journal = journal.for_cluster(name)
    try:
        state = ClusterState.from_entries(cluster_journal.entries())
    except ClusterError:
        return  # written by another version, whose entries may differ
    if state is None or cluster_journal.is_launching():
        return
    provider = plugins.load(Provider, state.spec.provider)
    if is_half_replaced(state):
        yield Orphan(
            name=name,
            provider=state.spec.provider,
            reason="half_replaced",
            resources=provider.list_except(name, state.machines_to_keep)
            if isinstance(provider, Replaces)
            else (),
        )
        return
    has_expired = state.has_expired(time.time())
    if state.launched and not has_expired:
        return
    yield Orphan(
        name=name,
        provider=state.spec.provider,
        reason="expired" if has_expired else "unfinished",
        resources=provider.find(name),
    )


def _of_provider(
    kind: str, regions: tuple[str, ...], scopes: list[str], *, everywhere: bool
) -> Iterator[Orphan]:
    """Find our resources at a provider that can be used on this machine; note what is searched."""
    with contextlib.suppress(SpecError):  # a provider unusable here created nothing here
        provider = plugins.load(Provider, kind)
        if everywhere and isinstance(provider, Regional):
            regions = provider.all_regions()
        used = in_regions(type(provider), regions)
        yield from _orphans_of(used)
        scopes += [scope] if (scope := searched_by(used)) else []


def _orphans_of(provider: Provider) -> Iterator[Orphan]:
    if not isinstance(provider, Searchable):
        return
    live = provider.live()
    by_name = {machine.name: machine for machine in live}
    for name in dict.fromkeys([*by_name, *provider.names()]):
        cluster = by_name.get(name)
        host = cluster.host if cluster else ""
        reason: OrphanReason = "unknown"
        if cluster and host:
            reason = "expired_on" if cluster.expires < time.time() else "launched_on"
        regions = tuple(machine.region for machine in live if machine.name == name)
        regional = in_regions(type(provider), regions)
        yield Orphan(
            name=name,
            provider=provider.name,
            reason=reason,
            host=host,
            resources=regional.find(name),
            regions=regions,
        )
