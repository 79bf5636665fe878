"""A/B tests: launches under two conditions in turn, A B B A, so that drift affects both alike."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import structs

from cluster.analysis.limits.link import MEMORY
from cluster.analysis.statistics.compare import ENOUGH_LAUNCHES, THRESHOLD, Side
from cluster.analysis.topology.nccl_toggles import LEVEL, LEVELS, TOGGLES, level
from cluster.core import decoders, plugins
from cluster.core.errors import SpecError
from cluster.core.model.spec import ClusterSpec
from cluster.core.model.value import Value
from cluster.measure.benchmark import Benchmark
from cluster.orchestration.bench.bench import RUN_OPTIONS, TIMEOUT, all_variables, variable
from cluster.orchestration.bench.plan import check_bench
from cluster.orchestration.cluster import Cluster
from cluster.orchestration.launch.launch import launch_spec
from cluster.orchestration.notebook import default_listener
from cluster.providers import Provider, SharesHosts
from cluster.runs.comparison import RunComparison, compare_groups, launch_of
from cluster.runs.run import Run

BY_NCCL = {"training": "--device cuda", "collectives": "--transport nccl"}  # flags for it
FORM = (
    "KEY=V1,V2, where KEY is a parameter of the benchmark, mca:NAME, env:NAME, or an option of a "
    "provider whose clusters can share hosts"
)


class Trial(Value, frozen=True, kw_only=True):
    """One condition of an experiment."""

    name: str  # runs are compared by it; `KEY=VALUE` in an A/B test
    params: dict[str, str]  # parameters of the benchmark that it sets
    variables: dict[str, str]  # environment variables that it sets for every rank
    options: dict[str, str] = {}  # of the provider: it has a cluster of its own  # noqa: RUF012


PLAIN = Trial(name="", params={}, variables={})  # of a run outside of experiments


def trials(text: str, benchmark: str, provider: str = "local") -> tuple[Trial, Trial]:
    """Parse `KEY=V1,V2`, or `KEY=V1|V2` if a value contains a comma (SpecError)."""
    key, equals, values = text.partition("=")
    parts = values.split("|" if "|" in values else ",")
    if not equals or len(parts) != 2 or parts[0] == parts[1]:  # noqa: PLR2004 - A and B
        raise SpecError(
            f"--ab {text!r} is not {FORM}.",
            means="The values differ; there is one comma between them, or a | if they have commas.",
            remedy="Such as --ab mca:btl_tcp_links=1,4",
        )
    return _pair(key, (parts[0], parts[1]), benchmark, provider)


def _pair(key: str, values: tuple[str, str], benchmark: str, provider: str) -> tuple[Trial, Trial]:
    first, second = (_trial(key, value, benchmark, provider) for value in values)
    return first, second


def _trial(key: str, value: str, benchmark: str, provider: str) -> Trial:
    provider_type = plugins.find(Provider, provider)
    if issubclass(provider_type, SharesHosts) and key in provider_type.Options.__struct_fields__:
        return Trial(name=f"{key}={value}", params={}, variables={}, options={key: value})
    kind, colon, name = key.partition(":")
    if colon and kind in ("mca", "env"):
        environment = dict([variable(kind, name, value)])
        return Trial(name=f"{key}={value}", params={}, variables=environment)
    valid = plugins.find(Benchmark, benchmark).Params.__struct_fields__
    field = key.replace("-", "_")
    if field not in valid:
        raise SpecError(
            f"There is no parameter {key!r} of {benchmark}.",
            means=f"An experiment is {FORM}.",
            remedy=f"There are: {', '.join(valid)}",
        )
    return Trial(name=f"{key}={value}", params={field: value}, variables={})


def order(launches: int) -> Iterator[int]:
    """Yield the order of two conditions, 0 and 1: ABBA, repeated."""
    for pair in range(launches):
        yield from (1, 0) if pair % 2 else (0, 1)


def check_launches(launches: int) -> None:
    """Refuse a number of launches that is too small for a verdict (SpecError)."""
    if launches < ENOUGH_LAUNCHES:
        raise SpecError(
            f"--launches is {launches}; a verdict needs {ENOUGH_LAUNCHES} of each condition.",
            means="Values within one launch are not independent, so the test repeats launches.",
        )


def check_common(requests: Sequence[tuple[Benchmark[Any], Any]], spec: ClusterSpec) -> None:
    """Refuse conditions that have no data point in common (SpecError)."""
    if len(requests) == 1:  # nothing to compare it with
        return
    ranks = spec.hosts * spec.ranks_per_host
    points = [
        {
            (point.metric, *sorted(point.params.items()))
            for point in benchmark.plan(params, ranks)
            if point.metric != MEMORY  # it is only the limit of others
        }
        for benchmark, params in requests
    ]
    if all(points) and not set.intersection(*points):
        raise SpecError(
            "The conditions have no data point in common, so there is nothing to compare.",
            means="Sizes, metrics and operations identify data points; they are not settings.",
            remedy="Measure both in one run, such as --sizes 8,16. Compare settings: --ab "
            "window=32,64 or --ab mca:btl_tcp_links=1,4",
        )


def check_toggles(
    requests: Sequence[tuple[Benchmark[Any], Any]], conditions: Iterable[Trial]
) -> None:
    """Refuse toggles of NCCL's peer-to-peer that could do nothing (SpecError)."""
    for (benchmark, params), condition in zip(requests, conditions, strict=True):
        toggles = [name for name in TOGGLES if name in condition.variables]
        transport = benchmark.transport(params)
        if toggles and transport not in ("", "nccl"):
            raise SpecError(
                f"{toggles[0]} is a variable of NCCL, and {benchmark.name} would use {transport}.",
                means="The two conditions would be the same.",
                remedy="Let NCCL carry the messages, on hosts with GPUs: "
                f"{BY_NCCL.get(benchmark.name, 'cluster bench collectives --transport nccl')}",
            )
        if LEVEL in toggles and not level(condition.variables):
            raise SpecError(
                f"NCCL knows no {condition.name.removeprefix('env:')}.",
                means="It ignores such a level without a word.",
                remedy=f"There are: {', '.join(LEVELS)}",
            )


def run_alternating(
    bench: Callable[..., Run],
    benchmark: str,
    pair: tuple[Trial, Trial],
    *,
    launches: int = ENOUGH_LAUNCHES,
    variables: Mapping[str, str] | None = None,
    **params: object,
) -> Iterator[tuple[Trial, Run]]:
    """Yield the condition and run of each launch, in turn (JobError: one failed)."""
    check_launches(launches)
    for index in order(launches):
        trial = pair[index]
        environment = {**(variables or {}), **trial.variables}
        values = {**params, **trial.params}
        yield trial, bench(benchmark, variables=environment, condition=trial.name, **values)


def compare_conditions(
    pair: tuple[Trial, Trial], launches: Iterable[tuple[Trial, Run]], threshold: float = THRESHOLD
) -> RunComparison:
    """Compare the runs of two conditions; `threshold` is a fraction of the value."""
    pairs = list(launches)
    groups = (
        Side(name=trial.name, launches=tuple(launch_of(run) for t, run in pairs if t is trial))
        for trial in pair
    )
    base, other = groups
    return compare_groups(base, other, threshold)


def sharing_spec(cluster: Cluster, trial: Trial) -> ClusterSpec | None:
    """Return the spec of a second cluster on the same machines; None if a trial needs none."""
    provider = plugins.load(Provider, cluster.spec.provider)
    if not (trial.options and isinstance(provider, SharesHosts)):
        return None
    options = {**cluster.spec.options, **trial.options, **provider.sharing_options(cluster.spec)}
    return structs.replace(cluster.spec, options=options, name=f"{cluster.name}-b")


@contextmanager
def _second_cluster(cluster: Cluster, pair: tuple[Trial, Trial]) -> Iterator[Cluster]:
    """Launch the cluster of the second condition, and take it down afterwards, if it has one."""
    spec = sharing_spec(cluster, pair[1])
    if spec is None:
        yield cluster
        return
    kind = plugins.find(Provider, cluster.spec.provider).Options
    options = decoders.convert(cluster.spec.options, kind, strict=False)
    for key, value in pair[0].options.items():
        if str(getattr(options, key)) != value:
            raise SpecError(
                f"{cluster.name} runs with {key}={getattr(options, key)}, and not {value}.",
                remedy="Name its own value first, or launch it with the other.",
            )
    with launch_spec(spec) as second, second.bench_jobs.claim_hosts():
        yield second


def ab(
    cluster: Cluster,
    benchmark: str,
    key: str,
    values: tuple[object, object],
    *,
    launches: int = ENOUGH_LAUNCHES,
    threshold: float = THRESHOLD,
    **options: Any,  # noqa: ANN401 - each has its own type
) -> RunComparison:
    """Compare two settings: launches of both in turn (A B B A ...), so that drift affects both.

    Example: `cluster.ab(c, "p2p", "mca:btl", ("self,tcp", "self,sm"), sizes=[8]).cells`

    Args:
        cluster: Cluster that runs the launches.
        benchmark: Name of the benchmark, such as `p2p`.
        key: Setting that differs: `mca:NAME`, `env:NAME`, a parameter of the benchmark, or an
            option of a provider whose clusters share hosts, such as `network` of Kubernetes: the
            second value gets a cluster of its own meanwhile.
        values: Its two values, the baseline first; for a provider's option, the cluster's own.
        launches: Number of launches of each condition.
        threshold: Smallest difference that matters, as a fraction of the value.
        options: Further options of all launches, as `Cluster.bench` takes them: `sizes=[8]`.

    Returns:
        What differs, and a verdict per data point.

    Raises:
        SpecError: there is no such key, the values are the same or have no data point in common,
            or there are too few launches.
        JobError: a launch failed.
    """
    if len(values) != 2:  # noqa: PLR2004 - A and B
        raise SpecError(f"{key} has {len(values)} values; two are compared.")
    first, second = (str(int(v) if isinstance(v, bool) else v) for v in values)
    if first == second:
        raise SpecError(f"Both values of {key} are {first}: there is nothing to compare.")
    pair = _pair(key, (first, second), benchmark, cluster.spec.provider)
    params = {name: value for name, value in options.items() if name not in RUN_OPTIONS}
    requests = [check_bench(cluster.spec, benchmark, {**params, **t.params}, TIMEOUT) for t in pair]
    check_common(requests, cluster.spec)
    check_toggles(requests, pair)
    environment = all_variables(*(options.pop(name, None) for name in ("variables", "mca", "env")))
    options["listener"] = options.get("listener") or default_listener(2 * launches)
    with (
        cluster.bench_jobs.claim_hosts(replace=options.get("replace", False)),
        _second_cluster(cluster, pair) as other,
    ):
        clusters = {pair[0].name: cluster, pair[1].name: other}
        runs = run_alternating(
            lambda name, **more: clusters[more["condition"]].bench(name, **more),
            *(benchmark, pair),
            launches=launches,
            variables=environment,
            **options,
        )
        return compare_conditions(pair, runs, threshold)
