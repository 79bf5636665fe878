"""`cluster check --gate` on simulated hosts: exit status, one line, JSON, and refusals."""

import json

import pytest
from click.exceptions import Exit

from cluster.cli.commands.check import undecided_at_errors
from cluster.core.errors import ClusterError
from tests.conftest import COMMAND, command, run

SIM = ("--provider", "sim", "--option", "fabric=leafspine:4x4")
LARGE = ("--provider", "sim", "--hosts", "10240", "--option", "fabric=leafspine:320x32")

pytestmark = pytest.mark.usefixtures("home")


def test_proven_hosts_are_status_0_and_one_line() -> None:
    command("up", "good", *SIM)
    result = command("check", "good", "--gate", "--within", "5min")

    assert result.stdout.count("\n") == 1
    assert result.stdout.startswith("PROVEN: good: 16 hosts ")


def test_a_bad_host_is_status_1_with_its_evidence_and_what_to_type() -> None:
    command("up", "bad", *SIM, "--option", "fault=host:7:rx=0.4")
    gate = json.loads(command("check", "bad", "--gate", "--json", status=1).stdout)
    (bad,) = gate["bad"]

    assert (gate["verdict"], gate["code"]) == ("BAD", "faults")
    assert (bad["place"], bad["direction"]) == ({"kind": "host", "host": 7}, "rx")
    assert (bad["reason"]["code"], bad["holds"]) == ("slow", True)
    assert gate["step"] == {"command": "check", "arguments": ["bad", "--replace"]}
    assert gate["false_alarms"] == 0.002
    assert gate["took"] <= gate["within"] == 60


def test_hosts_that_are_all_slow_are_bad_against_what_their_links_allow() -> None:
    command("up", "slow", *SIM)
    low = json.loads(
        command("check", "slow", "--gate", "--limit", "200gbit", "--json", status=1).stdout
    )

    assert (low["code"], low["bad"]) == ("below_limit", [])
    assert low["reference"] < low["share"] * low["limit"]
    assert low["step"]["arguments"] == ["--from", low["run"]]  # simulated hosts have no --drift


def test_the_next_step_repeats_what_was_typed() -> None:
    command("up", "typed", *SIM)
    words = ("--gate", "--metric", "allreduce:64MiB", "--groups", "topology")
    gate = json.loads(command("check", "typed", *words, "--json", status=75).stdout)

    assert gate["code"] == "no_limit"
    again = [*words[1:], "--limit", "RATE"]
    assert gate["step"]["arguments"] == ["typed", "--gate", "--within", "60s", *again]


def test_what_no_time_would_decide_is_tested_by_all_pairs() -> None:
    command("up", "flaps", *SIM, "--option", "fault=flap:9")
    gate = json.loads(command("check", "flaps", "--gate", "--json", status=75).stdout)

    assert (gate["code"], gate["needs"]) == ("unconfirmed", 0)
    assert "in time" not in gate["answer"]
    assert gate["step"]["arguments"] == ["flaps", "--confirm", "--rounds", "all"]
    assert command("check", *gate["step"]["arguments"], status=None).stdout


def test_a_time_of_more_than_a_month_is_one() -> None:
    command("up", "long", *SIM)
    assert command("check", "long", "--gate", "--within", "31d").stdout.startswith("PROVEN")


def test_ten_thousand_hosts_are_proven_in_their_time() -> None:
    command("up", "large", *LARGE)
    gate = json.loads(command("check", "large", "--gate", "--within", "4min", "--json").stdout)

    assert (gate["verdict"], gate["hosts"], gate["proven"]) == ("PROVEN", 10240, 10240)
    assert gate["took"] <= 1.05 * gate["within"]


def test_a_time_without_room_for_a_test_is_undecided() -> None:
    command("up", "hurry", *LARGE)
    gate = json.loads(
        command("check", "hurry", "--gate", "--within", "0.1s", "--json", status=75).stdout
    )

    assert gate["code"] in ("not_ready", "no_time")
    assert (gate["share"], gate["false_alarms"], gate["simulated"]) == (0.8, 0.002, True)
    assert gate["limit"] > 0
    assert gate["needs"] > gate["within"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--within", "60s"), "--within belongs to --gate"),
        (("--busy",), "--busy belongs to --gate"),
        (("--limit", "1gbit"), "--limit belongs to --gate"),
        (("--within", ""), "--within belongs to --gate"),
        (("--gate", "--within", ""), "not a duration"),
        (("--gate", "--within", "60"), "60s"),
        (("--gate", "--limit", ""), "not a rate"),
        (("--gate", "--within", "0s"), "must be more than 0"),
        (("--gate", "--within", "soon"), "not a duration"),
        (("--gate", "--replace"), "--replace does not go with --gate"),
        (("--gate", "--near"), "--near does not go with --gate"),
        (("--gate", "--metric", "latency"), "--metric latency does not go with --gate"),
        (("--gate", "--provider", "sim"), "--provider does not go with --gate"),
        (("--gate", "--rounds", "5"), "--rounds has no effect with --gate"),
        (("--gate", "--alone", "3"), "--alone has no effect with --gate"),
        (("--gate", "--confirm"), "--confirm has no effect with --gate"),
        (("--gate", "--milliseconds", "50"), "--milliseconds has no effect with --gate"),
    ],
)
def test_what_is_no_gate_is_refused(words: tuple[str, ...], message: str) -> None:
    command("up", "good", *SIM)

    assert message in command("check", "good", *words, status=2).stderr


@pytest.mark.parametrize("error", [RuntimeError("a defect"), OSError(28, "full"), ClusterError("")])
def test_a_gate_that_fails_blames_nobody(error: Exception) -> None:
    with pytest.raises(Exit) as end, undecided_at_errors(is_gate=True):
        raise error

    assert end.value.exit_code == 75


def test_an_answer_that_cannot_be_printed_is_no_status_of_bad_hosts() -> None:
    command("up", "good", *SIM)

    assert run("sh", "-c", '"$0" check good --gate > /dev/full', COMMAND, status=75).stderr
