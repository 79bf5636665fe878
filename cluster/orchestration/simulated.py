"""Runs of simulated hosts: ordinary run folders with values from a model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from cluster.core import decoders
from cluster.core.model.results.records import Note
from cluster.orchestration.bench.plan import JobRequest, make_record
from cluster.reports.words.outcomes import outcome_words
from cluster.runs import store

if TYPE_CHECKING:
    from cluster.core.model.hosts import Machine
    from cluster.core.model.spec import ClusterSpec
    from cluster.fleet.simulation import FleetSimulator
    from cluster.orchestration.bench.collect import Listener
    from cluster.orchestration.hosts.state import ClusterState
    from cluster.runs.run import Run

AT_ONCE = 1000  # values that are written together


def simulator_of(spec: ClusterSpec, machines: Sequence[Machine] = ()) -> FleetSimulator:
    """Return the model of a cluster of `sim`; machines that replaced others have no fault."""
    from cluster.analysis.limits.link import goodput  # noqa: PLC0415
    from cluster.core.model.hosts import Link  # noqa: PLC0415
    from cluster.core.model.network.fabric import parse_noise  # noqa: PLC0415
    from cluster.fleet.simulation import FleetSimulator  # noqa: PLC0415 - NumPy
    from cluster.providers.sim import MTU, SimOptions, fabric_of, faults_left  # noqa: PLC0415

    options = decoders.convert(spec.options, SimOptions, strict=False)
    fabric = fabric_of(spec)
    rate = goodput(Link(rate=fabric.rate, mtu=MTU, source="simulated"))
    whole = msgspec.structs.replace(fabric, rate=rate)
    noise = parse_noise(options.noise, options.background)
    return FleetSimulator(
        whole,
        spec.hosts,
        faults_left(spec, machines),
        options.seed,
        noise,
        known_routes=options.known_routes,
    )


def simulate(state: ClusterState, request: JobRequest, listener: Listener) -> Run:
    """Run a benchmark on simulated hosts (SpecError)."""
    spec = state.spec
    values = request.benchmark.model(request.params, simulator_of(spec, state.machines))
    start = time.time()
    folder = store.create(request.runs, spec.name, request.benchmark.name, start)
    record = msgspec.structs.replace(
        make_record(spec, state.machines, request, run=folder.name, status="running", now=start),
        notes=(Note("simulated", (_words(spec),)),),
    )
    reason = outcome_words("simulation_stopped")  # nobody can wait for it
    store.write(folder, msgspec.structs.replace(record, status="interrupted", reason=reason))
    batch = []
    for measurement in values:
        batch.append(measurement)
        if len(batch) >= AT_ONCE:
            store.append(folder, batch)
            listener.measured(batch)
            batch = []
    store.append(folder, batch)
    listener.measured(batch)
    phases = {"run": time.time() - start}
    store.write(folder, msgspec.structs.replace(record, status="done", phases=phases))
    return store.read(folder)


def _words(spec: ClusterSpec) -> str:
    from cluster.providers.sim import SimOptions, fabric_of  # noqa: PLC0415

    options = decoders.convert(spec.options, SimOptions, strict=False)
    figures = spec.hosts, fabric_of(spec).words, options.seed
    if options.fault:
        return outcome_words("planted", *figures, options.fault)
    return outcome_words("fabric", *figures)
