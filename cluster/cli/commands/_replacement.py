"""`cluster check --replace`: new machines for the hosts whose fault is confirmed."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

import msgspec

from cluster.cli.confirm import ask, price_words
from cluster.cli.console import console
from cluster.cli.measurement import Request
from cluster.cli.progress import HostProgress
from cluster.core.errors import ProvisionError, SpecError, on_failure
from cluster.core.model.network.fleet import FleetVerdict
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.hosts.machines import can_replace
from cluster.orchestration.launch import replacement
from cluster.runs import store
from cluster.runs.run import PAIRS, Run


def replace(
    cluster: Cluster, run: Run, verdict: FleetVerdict, bench: Request, share: float | None = None
) -> FleetVerdict:
    """Replace hosts whose fault is confirmed, or say what to type where that is not possible.

    With the share of all nodes that it may be, their nodes are cordoned instead.

    The returned verdict names what was replaced by what; it is also written into the run's folder.
    Without consent to the cost, or new machines, the cluster stays as it was (SpecError,
    ProvisionError).
    """
    test = partial(_test, cluster, bench)
    bad = replacement.bad_hosts(run, verdict, test)
    if not bad:
        return verdict
    if share is not None:
        result = replacement.cordon_nodes(cluster, bad, run.folder.name, share)
    elif can_replace(cluster.disk):
        plan = replacement.replacement_plan(cluster, bad)
        for line in plan.lines:
            sys.stderr.write(f"{line}\n")
        words = price_words(msgspec.structs.replace(cluster.spec, hosts=len(bad)), plan)
        if (
            plan.costs
            and not bench.options.yes
            and not ask(f"Replace {len(bad)} for {words}?", words)
        ):
            remedy = f"See it again: cluster ls {cluster.name}"
            raise SpecError("Nothing was replaced.", remedy=remedy)
        with ExitStack() as stack:  # shows how far the new ones are until they are tested
            on_state = stack.enter_context(HostProgress(console(stderr=True, quiet=False)))

            def test_new(pairs: Sequence[tuple[int, int]]) -> Run:
                stack.close()  # the tests show their own progress
                return test(pairs)

            with on_failure(lambda: _say_what_is_left(cluster)):
                result = replacement.replace_hosts(cluster, verdict, bad, test_new, on_state)
    else:
        result = replacement.irreplaceable(cluster, bad)
    new_verdict = msgspec.structs.replace(verdict, replaced=result)
    store.write_verdict(run.folder, new_verdict)
    return new_verdict


def _say_what_is_left(cluster: Cluster) -> None:
    if cluster.state.machines_to_keep:
        sys.stderr.write("New or bad machines may still exist. To end them: cluster more gc -y\n")
    else:
        sys.stderr.write(f"{cluster.name} is as it was: no host was replaced.\n")


def _test(cluster: Cluster, bench: Request, pairs: Sequence[tuple[int, int]]) -> Run:
    from cluster.cli.heat_map import CheckProgress  # noqa: PLC0415 - slow: numpy

    params, options = bench.params, bench.options
    names = tuple(f"{source}-{target}" for source, target in pairs)
    values = {name: params[name] for name in ("metric", "milliseconds")}
    with CheckProgress(len(cluster.machines), params["metric"], stderr=options.json) as live:
        return cluster.bench(
            PAIRS,
            runs=options.runs,
            timeout=options.timeout,
            listener=live,
            pairs=names,
            **values,
        )


def raise_if_bad(verdict: FleetVerdict, name: str) -> None:
    """Fail if a new machine was bad, too, so that a bad host stays (ProvisionError)."""
    remaining = [host.part for host in verdict.replaced if not host.new and not host.command]
    if remaining:
        raise ProvisionError(
            f"{len(remaining)} of {len(verdict.replaced)} new machines are bad, too: the bad "
            f"{', '.join(remaining)} stay(s).",
            means="The new ones were ended. It may be what the hosts share, and not the hosts.",
            remedy=f"Try again: cluster check {name} --replace; or another zone.",
        )
