"""A gate of hosts of a lab: proven, slow, stopped in the middle of it, and busy with a job."""

import json
import os
import signal
from typing import Any

import pytest

import cluster
from tests.conftest import command
from tests.lab.conftest import first_process, must

pytestmark = pytest.mark.usefixtures("own_labs", "home")
WITHIN = 120.0  # seconds: a busy machine needs more of it, and none of it is waited out


def gate(name: str, status: int, *flags: str) -> Any:
    words = ("check", name, "--gate", "--within", f"{WITHIN:g}s", "--json", *flags)
    answer = json.loads(command(*words, status=status).stdout)
    assert answer["took"] <= 1.05 * WITHIN
    return answer


@pytest.mark.alone  # beside other work, good links are as slow as bad ones, and nothing is decided
def test_a_gate_finds_the_slow_host_and_the_one_that_stopped() -> None:
    lab = cluster.launch("gated", provider="lab", hosts=6, options={"rate": "60mbit"})
    assert gate("gated", 0)["proven"] == 6

    command("lab", "gated", "slow", "3", "--rate", "15mbit", "--direction", "rx")
    (bad,) = gate("gated", 1)["bad"]
    assert (bad["kind"], bad["place"]["host"], bad["direction"]) == ("BAD", 3, "rx")

    command("lab", "gated", "heal", "3")
    os.kill(first_process(lab, 4), signal.SIGSTOP)
    stopped = gate("gated", 1)
    os.kill(first_process(lab, 4), signal.SIGCONT)
    assert [(bad["kind"], bad["place"]["host"]) for bad in stopped["bad"]] == [("HUNG", 4)]


def test_hosts_that_do_not_answer_are_named_also_if_there_was_no_time() -> None:
    cluster.launch("gone", provider="lab", hosts=4, options={"rate": "60mbit"})
    command("lab", "gone", "kill", "2")
    hurry = command("check", "gone", "--gate", "--within", "8s", "--json", status=None)
    answer = json.loads(hurry.stdout)
    hosts = {finding["place"]["host"] for finding in (*answer["bad"], *answer["suspected"])}
    assert 2 in hosts

    command("lab", "gone", "kill", "0")  # it leads the others
    silent = gate("gone", 75)
    assert [row["place"]["host"] for row in silent["suspected"]] == [0, 2]
    assert (silent["needs"], silent["step"]["arguments"]) == (0.0, ["gone"])  # no more time
    assert {row["name"] for row in silent["suspected"]} == {
        host.name for host in cluster.attach("gone").machines[::2]
    }


@pytest.mark.alone  # beside other work, a gate may stay undecided
def test_nothing_is_measured_beside_a_job() -> None:
    lab = cluster.launch("worked", provider="lab", hosts=5, options={"rate": "60mbit"})
    lab.start("sleep 600", hosts=lab.hosts[0], name="training")

    refused = gate("worked", 75)
    assert (refused["code"], refused["run"]) == ("in_use", "")

    rest = gate("worked", 0, "--busy")
    assert (rest["proven"], rest["skipped"]) == (4, [0])


@pytest.mark.alone
def test_a_slow_host_that_is_configured_differently_has_that_as_its_cause() -> None:
    lab = cluster.launch("drifted", provider="lab", hosts=5, options={"rate": "60mbit"})
    assert json.loads(command("check", "drifted", "--drift", "--json").stdout) == []

    must(lab, 3, "ip link set eth0 mtu 1400")
    (drift,) = json.loads(command("check", "drifted", "--drift", "--json").stdout)
    assert (drift["setting"], drift["hosts"], drift["values"]) == ("mtu of eth0", [3], ["1400"])

    command("lab", "drifted", "slow", "3", "--rate", "15mbit")
    (bad,) = gate("drifted", 1)["bad"]
    assert (bad["place"]["host"], [cause["setting"] for cause in bad["causes"]]) == (
        3,
        ["mtu of eth0"],
    )

    command("lab", "drifted", "kill", "4")
    unread, difference = json.loads(
        command("check", "drifted", "--drift", "--json", status=75).stdout
    )
    assert (unread["setting"], unread["count"], unread["of"]) == ("answers", 4, 5)
    assert (unread["hosts"], unread["values"], difference) == (
        [4],
        ["no"],
        {**drift, "count": 3, "of": 4},
    )
    output = command("check", "drifted", "--drift", status=75).stdout
    assert output.startswith("4 of 5 read; 4.mpi.drifted does not answer")
    command("lab", "drifted", "kill", "0")  # the first is read like the others
    output = command("check", "drifted", "--drift", status=75).stdout
    assert output.startswith("3 of 5 read; 0.mpi.drifted, 4.mpi.drifted do not answer")
