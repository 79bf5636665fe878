"""What `import cluster` gives, and what it costs."""

import inspect
import pydoc
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType

import pytest

import cluster
from cluster.orchestration.bench.bench_methods import Bench
from cluster.orchestration.bench.plan import RunOptions
from cluster.runs.catalog import runs
from tests.conftest import ROOT, answer, run

FROZEN = {
    *("Capacity", "Cluster", "ClusterError", "ClusterSpec", "Definition", "Denied", "JobError"),
    *("Group", "Host", "HostErrors", "HostGroup", "InUse", "Job", "LargeDownload", "LaunchLeft"),
    *("Listener", "Machine", "Measurement", "ParseError", "ProvisionError", "Quota", "Record"),
    *("Run", "RunComparison", "ShellError", "SpecError", "Summary", "Timeout", "Unreachable"),
    *("__version__", "ab", "attach", "check", "compare", "import_", "judge", "launch"),
    *("load", "proximity", "runs", "watch"),
}
HEAVY = (
    "numpy",
    "scipy",
    "matplotlib",
    "boto3",
    "google.cloud",
    "mpi4py",
    "rich",
    "click",
    "fabric",
    "pandas",
    "polars",
    "IPython",
    "cluster.logs.redaction",  # its patterns take a tenth of the time
)
TYPED = """
import cluster

c = cluster.launch("x", hosts=2)
c.bench.p2p(metrics=["latency"], sizes=[8, "64KiB"], mca={"btl": "self,tcp"}, env={"N": 1})
c.bench.collectives(operations="allreduce", sizes="8:64KiB", transport="gloo", timeout=60)
c.bench.iperf(streams=[1, 8], seconds=2)
c.bench.program(command=["sleep", "1"])
c.bench("mine", anything=1)
cluster.launch("x", groups={"ps": cluster.Group(hosts=2), "worker": {"hosts": 4}, "one": 1})
c.bench.p2p(size=8)
c.bench.iperf(sizes=8)
c.bench.collectives(transport="tcp")
cluster.launch("x", host=2)
cluster.launch("x", groups={"ps": cluster.Group(host=2)})
found = cluster.runs()
cluster.load(found[0].folder).to_pandas("values")
cluster.load("latest").to_pandas("medians")
cluster.compare(found[0], [found[1], "latest"]).plot("ratio.pdf")
job = c.jobs["train"]
"""
VERBS = (cluster.Cluster, cluster.Host, cluster.HostGroup, cluster.Job)
INSIDE = {"prepare"}  # takes what only the library makes


def test_the_public_names_are_these() -> None:
    """A change here is a change for users: it needs a line in CHANGELOG.md."""
    assert set(cluster.__all__) == FROZEN
    assert all(hasattr(cluster, name) for name in cluster.__all__)


def test_importing_it_loads_nothing_heavy() -> None:
    line = f"import cluster, sys; cluster.launch; print([m for m in {HEAVY!r} if m in sys.modules])"

    assert run(sys.executable, "-c", line).stdout == "[]\n"


def test_listing_and_planning_need_no_mpi() -> None:
    """A definition can be read on a machine that measures nothing."""
    line = (
        "import sys\n"
        "from cluster.core import plugins; from cluster.measure.benchmark import Benchmark\n"
        "b = plugins.load(Benchmark, 'p2p'); b.check(b.Params(), 2)\n"
        "print('mpi4py' in sys.modules)"
    )
    assert run(sys.executable, "-c", line).stdout == "False\n"


def test_help_and_signatures_work_and_show_nothing_else() -> None:
    text = pydoc.plain(pydoc.render_doc(cluster))

    assert re.search(r"launch\(\s*name: ", text)  # on a line of its own since Python 3.13
    assert "NameError" not in text
    for name in set(cluster.__all__) - {"__version__"}:
        assert inspect.signature(getattr(cluster, name)) is not None
        assert inspect.getdoc(getattr(cluster, name))
    assert dir(cluster) == sorted(FROZEN)


def test_every_public_member_says_what_it_is() -> None:
    """Without a docstring, the page of the Python interface leaves it out."""
    kinds = [kind for name in cluster.__all__ if isinstance(kind := getattr(cluster, name), type)]
    members = {
        f"{kind.__name__}.{name}": member
        for kind in kinds
        for name, member in vars(kind).items()
        if isinstance(member, property | FunctionType) and not name.startswith("_")
        if not any(hasattr(base, name) for base in kind.__mro__[1:])
    }

    assert len(members) > 100
    assert [name for name, member in members.items() if not inspect.getdoc(member)] == []


def examples() -> dict[str, list[str]]:
    """Find the code of each verb's docstring, which calls it."""
    verbs = {
        f"{kind.__name__}.{name}": verb
        for kind in VERBS
        for name, verb in vars(kind).items()
        if inspect.isfunction(verb) and not name.startswith("_")
    }
    functions = {n: getattr(cluster, n) for n in cluster.__all__ if n.islower()} | verbs
    functions["runs"] = runs
    return {
        name: [
            code
            for code in re.findall(r"`([^`]+)`", inspect.getdoc(verb) or "")
            if re.search(rf"[\w\])]\.{verb.__name__}\(", code)
        ]
        for name, verb in functions.items()
        if name.rpartition(".")[2] not in INSIDE and inspect.isfunction(verb)
    }


def test_each_verb_has_an_example() -> None:
    by_verb = examples()

    assert len(by_verb) > 55
    assert [name for name, code in by_verb.items() if not code] == []


def test_examples_are_typed_and_a_wrong_name_is_an_error_in_an_editor(tmp_path: Path) -> None:
    """A cold run of mypy over the library takes seconds; it uses the cache of `scripts/check`."""
    program = tmp_path / "typed.py"
    program.write_text(TYPED + "\n".join(code for codes in examples().values() for code in codes))
    words = ("-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-pretty")
    output = run(sys.executable, *words, str(program), status=1, cwd=ROOT).stdout
    wrong = {
        program.read_text().splitlines()[int(line.split(":")[1]) - 1].strip()
        for line in output.splitlines()
        if ": error:" in line
    }

    assert wrong == {
        "c.bench.p2p(size=8)",
        "c.bench.iperf(sizes=8)",
        'c.bench.collectives(transport="tcp")',
        'cluster.launch("x", host=2)',
        'cluster.launch("x", groups={"ps": cluster.Group(host=2)})',
        'cluster.load("latest").to_pandas("medians")',
    }, output


def test_the_typed_methods_are_those_of_the_benchmarks() -> None:
    run(sys.executable, str(ROOT / "scripts" / "stubs"), "--check")


def test_a_benchmark_is_a_method_that_lists_its_parameters() -> None:
    calls: list[tuple[str, RunOptions, Mapping[str, object]]] = []
    bench = Bench(lambda *call: calls.append(call))  # type: ignore[arg-type]
    bench.iperf(seconds=3, timeout=9)
    [(name, options, params)] = calls

    assert (name, options.timeout, params) == ("iperf", 9, {"seconds": 3})
    assert "streams: " in (bench.iperf.__doc__ or "")
    with pytest.raises(AttributeError, match="iperf"):
        bench.iperv()  # type: ignore[attr-defined]


def test_names_are_found_and_unknown_ones_are_not() -> None:
    assert set(cluster.__all__) <= set(dir(cluster))
    assert not hasattr(cluster, "util")


def test_a_log_and_a_cluster_are_judged_as_by_the_commands(home: Path) -> None:
    del home
    log = ROOT / "tests" / "logs" / "iperf3.json.txt"
    document = answer("judge", str(log), "--hardware", "nic=10gbit", status=1)

    assert cluster.judge(log, "nic=10gbit").line == document["answer"]
    assert len(cluster.runs()) == 0
    assert cluster.import_(log).summary() == cluster.load("latest").summary()
    with cluster.launch("fleet", provider="sim", hosts=6) as c:
        assert cluster.check(c, rounds=0).verdict == "HEALTHY"
        assert len(cluster.proximity("fleet").names) == 6
