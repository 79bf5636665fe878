"""`c.bench("p2p", sizes=[8])`: a benchmark by its name, and how it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path

from cluster.analysis.statistics.factors import MCA
from cluster.core.errors import SpecError
from cluster.core.model.results.records import Condition
from cluster.core.text.units import parse_expected
from cluster.orchestration.bench.collect import Listener
from cluster.orchestration.bench.plan import HostOrder, RunOptions
from cluster.orchestration.bench.working_folder import WorkingFolder
from cluster.runs.run import Run

TIMEOUT = 600.0  # seconds that a job may take by default
NAME = re.compile(r"[A-Za-z_]\w*")
SECRET = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|PRIVATE|(^|_)KEY", re.IGNORECASE)


class BenchCall:
    """Runs benchmarks by name; `Bench` adds a method for each."""

    def __init__(self, run: Callable[[str, RunOptions, Mapping[str, object]], Run]) -> None:
        self._run = run

    def __call__(  # noqa: PLR0913 - each is an option of its own
        self,
        benchmark: str,
        *,
        runs: str | Path | None = None,
        timeout: float = TIMEOUT,
        detach: bool = False,
        listener: Listener | None = None,
        mca: Mapping[str, object] | None = None,
        env: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        condition: str = "",
        profile: str | None = None,
        describe: str = "",
        expect: str = "",
        workdir: str | Path | WorkingFolder | None = None,
        launch_of: str = "",
        order: HostOrder = "given",
        starter: str = "",
        replace: bool = False,
        yes: bool = False,
        busy: bool = False,
        **params: object,
    ) -> Run:
        """Run a benchmark and download its results.

        Args:
            benchmark: its name, such as `p2p`.
            runs: the folder of all runs; `CLUSTER_RUNS` or `runs` if not given.
            timeout: seconds that the job may take.
            detach: return as soon as the job runs; continue with `wait` and `fetch`.
            listener: called with the progress of the job; a notebook shows a bar by default.
            mca: parameters of Open MPI for all ranks, such as `{"btl_tcp_links": 4}`.
            env: environment variables of all ranks, such as `{"OMP_NUM_THREADS": 1}`.
            profile: `own` records MPI profiles of all ranks; a path selects the libmpitrace there.
            expect: the expected result, such as `1.1GB/s`.
            workdir: ranks run in a copy of this folder; `raw/workdir` gets what they change.
            launch_of: any text; launches that share it are judged together.
            order: `near`: neighbouring ranks on near hosts, as `cluster check --near` found them.
            starter: of the ranks: `mpirun`, `srun`, ...; by default, what fits the hosts.
            replace: end another process's job on these hosts; otherwise, this one is refused.
            yes: download what the ranks lack even if it exceeds 100 MB; otherwise, that is refused.
            busy: measure even while jobs of `Cluster.start` run, such as on other hosts.
            params: parameters of the benchmark; `cluster bench NAME --help` lists them.
        """
        context = Condition(
            name=condition,
            variables=all_variables(variables, mca, env),
            description=describe,
            expected=parse_expected(expect) if expect else None,
            launch_of=launch_of,
        )
        options = RunOptions(
            condition=context,
            runs=runs, timeout=timeout, detach=detach, listener=listener,
            profile=profile, workdir=workdir, order=order, starter=starter,
            replace=replace, yes=yes, busy=busy,
        )  # fmt: skip
        return self._run(benchmark, options, params)


RUN_OPTIONS = frozenset(signature(BenchCall.__call__).parameters)  # all others are the benchmark's


def variable(kind: str, name: str, value: str) -> tuple[str, str]:
    """Return a variable (`env`) or an MCA parameter (`mca`); refuse secrets (SpecError)."""
    if NAME.fullmatch(name) is None:
        raise SpecError(f"{name!r} cannot be the name of a variable.")
    if SECRET.search(name):
        raise SpecError(
            f"{name} looks like a secret, and would be kept in the run's folder.",
            remedy="Put it into the host's own environment.",
        )
    return (MCA if kind == "mca" else "") + name, value


def all_variables(
    variables: Mapping[str, str] | None,
    mca: Mapping[str, object] | None,
    env: Mapping[str, object] | None,
) -> dict[str, str]:
    """Combine the variables of all ranks, with True and False as 1 and 0 (SpecError)."""
    groups = (("mca", mca or {}), ("env", env or {}))
    for kind, group in groups:
        if not isinstance(group, Mapping):
            raise SpecError(
                f"{kind}={group!r} is not a dictionary.",
                remedy='Such as mca={"btl_tcp_links": 4} or env={"OMP_NUM_THREADS": 1}',
            )
    pairs = [variable(kind, *pair) for kind, group in groups for pair in _as_text(group)]
    return {**(variables or {}), **dict(pairs)}


def _as_text(values: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name, str(int(v) if isinstance(v, bool) else v)) for name, v in values.items()]
