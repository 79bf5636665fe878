"""A against B: what can be asked, the order, and real launches."""

import json
from pathlib import Path
from typing import Any

import pytest

import cluster
from cluster.core.errors import SpecError
from cluster.orchestration.ab_test import (
    check_launches,
    compare_conditions,
    order,
    run_alternating,
    trials,
)
from cluster.orchestration.bench.bench import variable
from cluster.runs import store
from cluster.testing import FakeHosts, FakeJob
from tests.conftest import ROOT, answer, command, runs_folder
from tests.in_process import run_here
from tests.snapshots import Snapshot

QUICK = ("--metrics=latency", "--sizes=8,64KiB", "--iterations=60")


def test_two_values_of_a_parameter() -> None:
    first, second = trials("window=32,64", "p2p")

    assert (first.name, first.params, first.variables) == ("window=32", {"window": "32"}, {})
    assert (second.name, second.params) == ("window=64", {"window": "64"})
    assert trials("warm-up=0,10", "p2p")[1].params == {"warm_up": "10"}


def test_two_values_of_a_variable() -> None:
    first, second = trials("mca:btl_tcp_links=1,4", "p2p")

    assert first.variables == {"OMPI_MCA_btl_tcp_links": "1"}
    assert (second.name, second.params) == ("mca:btl_tcp_links=4", {})
    assert trials("env:OMP_NUM_THREADS=1,2", "p2p")[1].variables == {"OMP_NUM_THREADS": "2"}


def test_values_with_commas_have_a_bar_between_them() -> None:
    first, second = trials("mca:btl=self,tcp|self,sm", "p2p")

    assert first.variables == {"OMPI_MCA_btl": "self,tcp"}
    assert second.variables == {"OMPI_MCA_btl": "self,sm"}


@pytest.mark.parametrize("text", ["window", "window=1", "window=1,2,3", "window=1,1", "mca:btl="])
def test_what_is_not_two_values_is_refused(snapshot: Snapshot, text: str) -> None:
    with snapshot.raises(SpecError):
        trials(text, "p2p")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour=1,2", "no parameter 'colour' of p2p"),
        ("mca:a b=1,2", "cannot be the name of a variable"),
        ("env:AWS_SECRET_ACCESS_KEY=a,b", "looks like a secret"),
        ("env:API_TOKEN=a,b", "looks like a secret"),
    ],
)
def test_a_key_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        trials(text, "p2p")


def test_variables_whose_names_only_resemble_secrets_are_none() -> None:
    assert variable("mca", "opal_keep_alive", "1") == ("OMPI_MCA_opal_keep_alive", "1")
    assert variable("env", "MONKEYS", "2") == ("MONKEYS", "2")


def test_the_order_is_abba() -> None:
    assert list(order(5)) == [0, 1, 1, 0, 0, 1, 1, 0, 0, 1]


def test_fewer_than_five_launches_are_refused(snapshot: Snapshot) -> None:
    check_launches(5)
    with snapshot.raises(SpecError):
        check_launches(4)


@pytest.mark.usefixtures("tools")
def test_in_python_a_known_difference_is_found() -> None:
    """Shared memory is several times faster than TCP through the loopback."""
    pair = trials("mca:btl=self,tcp|self,sm", "p2p")
    with cluster.launch("ab") as c:
        launches = list(
            run_alternating(c.bench, "p2p", pair, metrics="latency", sizes="8", iterations=60)
        )
        comparison = compare_conditions(pair, launches)

    [cell] = comparison.cells
    assert cell.verdict == "faster"
    assert cell.launches == (5, 5)
    assert [trial.name for trial, _ in launches[:4]] == [pair[i].name for i in (0, 1, 1, 0)]
    assert {factor.name for factor in comparison.factors} >= {"condition", "mca:btl"}
    record = launches[0][1].record
    assert record.variables == {"OMPI_MCA_btl": "self,tcp"}
    assert "OMPI_MCA_btl=self,tcp" in record.command


def test_the_command_ends_in_verdicts_and_compare_repeats_them() -> None:
    """Nothing differs between two names of a variable that nobody reads."""
    plain = (ROOT / "tests" / "plain_run" / "measurements.jsonl").read_text()
    latency = [line for line in plain.splitlines(keepends=True) if '"latency"' in line]
    values = latency[0] + latency[0].replace('"size":8', '"size":65536')
    options = ("--provider=fake", "--ab", "env:NOBODY_READS_THIS=1,2", "--json")
    with FakeHosts(jobs=[FakeJob(files={"measurements.0.jsonl": values})]) as hosts:
        result: Any = json.loads(run_here("bench", "p2p", *QUICK, *options).stdout)
        assert list(hosts.made) == ["p2p"]

    comparison = result["comparison"]
    assert len(result["runs"]) == 10
    assert [cell["params"]["size"] for cell in comparison["cells"]] == [8, 65536]
    assert all(cell["launches"] == [5, 5] for cell in comparison["cells"])
    assert all(cell["verdict"] == "equivalent" for cell in comparison["cells"])
    again = answer("compare", "--by", "condition", "p2p")
    assert again == [comparison]
    by_variable = answer("compare", "--by", "env:NOBODY_READS_THIS", "p2p")
    assert by_variable[0]["cells"] == comparison["cells"]


@pytest.mark.usefixtures("tools")
def test_variables_reach_every_rank() -> None:
    call = command(*("bench", "p2p", *QUICK, "--mca", "btl=self,tcp", "--env", "OMP_NUM_THREADS=3"))
    record = store.record(store.find(runs_folder(), "latest"))

    assert "latency" in call.stdout
    assert record.variables == {"OMPI_MCA_btl": "self,tcp", "OMP_NUM_THREADS": "3"}
    default, options = "OPENBLAS_NUM_THREADS=1", "OMPI_MCA_btl=self,tcp OMP_NUM_THREADS=3"
    assert f"env {default} {options} " in " ".join(record.command)


@pytest.mark.usefixtures("tools")
def test_a_condition_that_cannot_run_ends_it_and_says_why() -> None:
    command("bench", "p2p", *QUICK, "--ab", "mca:btl=self,nonsense", status=1)

    statuses = {row["status"] for row in answer("runs")}
    assert "failed" in statuses


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ab", "window=1,2", "--detach"), "contradict each other"),
        (("--ab", "window=1,2", "--launches", "2"), "a verdict needs 5"),
        (("--ab", "window=0,2", "--metrics", "bandwidth"), "--window is 0"),
        (("--mca", "btl"), "--mca 'btl' is not KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_exists(
    words: tuple[str, ...], message: str
) -> None:
    assert message in command("bench", "p2p", *words, status=2).stderr
    assert not list(Path(runs_folder()).glob("*/*"))
    assert json.loads(command("ls", "--json").stdout) == []
