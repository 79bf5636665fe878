"""`cluster check`: on simulated hosts, and on this machine with real connections."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from cluster.cli.heat_map import PairMap
from cluster.core.errors import ShellError, SpecError
from cluster.core.model.hosts import Machine
from cluster.core.model.network.fleet import HOLE, PairTest
from cluster.core.state import journal
from cluster.fleet.pair_measurements import pair_tests
from cluster.orchestration.cluster import attach
from cluster.orchestration.fleet_check import judge_fleet
from cluster.orchestration.launch.launch import launch
from cluster.orchestration.proximity import read_groups
from cluster.runs import store
from tests.conftest import COMMAND, ROOT, answer, command, until
from tests.snapshots import Snapshot

SIM = ("--provider", "sim", "--option", "fabric=leafspine:4x4")


def test_a_simulated_fleet_is_checked_as_a_real_one(snapshot: Snapshot, home: Path) -> None:
    """7: up, check with its confirming run, and what every other command says of the run."""
    command("up", "big", *SIM, "--option", "fault=host:7:rx=0.4")
    verdict = answer("check", "big", "--confirm")
    (bad,) = (finding for finding in verdict["blamed"] if finding["kind"] == "BAD")

    assert list(verdict)[:4] == ["run", "verdict", "rounds", "blamed"]
    assert (verdict["verdict"], verdict["rounds"], verdict["simulated"]) == ("FAULTY", 15, True)
    assert (bad["part"], bad["name"], bad["direction"]) == ("host:7", "7.mpi.big", "rx")
    snapshot(bad["confirmed"])
    assert json.loads((Path(verdict["run"]) / "verdict.json").read_text()) == verdict
    assert "simulated" in command("show", "latest").stdout
    assert re.search("FAULTY +big: pairs, sim, simulated", command("runs").stdout)
    assert "sim simulated" in command("runs", "--markdown").stdout
    assert "BAD" in command("check", "--from", "latest").stdout


def test_an_allreduce_of_pairs_blames_both_directions(home: Path) -> None:
    """It sends in both directions at once, so a host that receives slowly is slow in both."""
    command("up", "big", *SIM, "--option", "fault=host:7:rx=0.4")
    verdict = answer("check", "big", "--metric", "allreduce:64MiB")
    (bad,) = (finding for finding in verdict["blamed"] if finding["kind"] == "BAD")

    assert (bad["part"], bad["direction"]) == ("host:7", "both")
    assert bad["confirm"].endswith(" --metric allreduce:64MiB")


def test_the_same_seed_gives_the_same_bytes(home: Path) -> None:
    """B6"""
    with launch("sim", provider="sim", hosts=16, options={"fabric": "leafspine:4x4"}) as cluster:
        first, again = (
            (cluster.bench("pairs").folder / store.MEASUREMENTS).read_bytes() for _ in range(2)
        )

    assert first == again
    assert first.count(b"\n") > 160


def test_a_simulated_host_runs_no_programs(snapshot: Snapshot, home: Path) -> None:
    with launch("sim", provider="sim", hosts=2, options={"fabric": "leafspine:1x2"}) as cluster:
        ends = cluster.remote.try_run(["uname"]).values()
        assert all(isinstance(end, ShellError) for end in ends)
        with snapshot.raises(SpecError):
            cluster.bench("collectives")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--provider", "sim", "--hosts", "1"), "One host has no partner."),
        (("nobody",), "There is no cluster 'nobody'."),
        ((*SIM, "--rounds", "0"), "Give 1 or more, or: --rounds all"),
        ((*SIM, "--metric", "luck"), "There are: bandwidth, latency"),
        ((*SIM, "--pairs", "3-3"), "is not a pair of hosts"),
        ((*SIM, "--pairs", "3-99"), "the hosts are 0 to 15"),
        ((*SIM, "--alone", "-1"), "must not be negative"),
        ((*SIM, "--hosts", "17"), "room for 16"),
        ((*SIM, "--option", "fault=fire:3"), "is not KIND:NUMBER"),
        ((*SIM, "--groups", "nowhere.txt"), "cannot be read"),
    ],
)
def test_what_cannot_be_checked_is_refused(home: Path, words: tuple[str, ...], error: str) -> None:
    assert error in command("check", *words, status=2).stderr


MACHINES = tuple(
    Machine(name=f"{n}.mpi.x", id=f"i-{n}", address=f"10.0.0.{n}", shell="local", folder="", bin="")  # noqa: S604
    for n in range(4)
)


def test_groups_are_read_by_any_name_of_a_host() -> None:
    groups = read_groups("0.mpi.x, 10.0.0.2  # rack A\nhost:1\n", MACHINES)

    assert groups == (0, 1, 0, 5)


@pytest.mark.parametrize(
    ("text", "message"),
    [("9", "not of this cluster"), ("1 i-1", "twice"), ("# rack A\n\n", "name no host")],
)
def test_groups_with_hosts_that_are_unknown_or_named_twice_or_not_at_all(
    text: str, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        read_groups(text, MACHINES)


@pytest.mark.usefixtures("tools")
def test_real_connections_on_this_machine(home: Path) -> None:
    """Each end of a test is a process of its own; values come home, and nothing is left."""
    with launch("here", provider="local", hosts=3) as cluster:
        run = cluster.bench("pairs", rounds=3, alone=1, milliseconds=50)
        verdict = judge_fleet(run)

    assert run.status == "done"
    assert verdict.rounds == 3
    assert verdict.tests > 0
    assert verdict.tests + verdict.failed == len(run.measurements) >= 8
    assert not verdict.simulated


def test_the_map_shows_the_worst_of_hosts_that_share_a_row() -> None:
    pair_map = PairMap(96)
    pair_map.add([PairTest(round=0, source=a, target=50, value=1e9 / (1 + a)) for a in range(2)])
    pair_map.add([PairTest(round=0, source=95, target=0, value=0.0, reason="cut")])
    lines = ["".join(sign for sign, _ in line) for line in pair_map.lines()]

    assert len(lines) == 48
    assert lines[0] == " " * 25 + "▓" + " " * 22
    assert lines[47][0] == "X"


def test_the_map_fits_on_the_screen_and_says_what_it_shows(snapshot: Snapshot) -> None:
    """1,024 hosts on 80 columns and 24 lines; 4 hosts need no more than 4 rows."""
    pair_map = PairMap(1024, columns=80, lines=24)
    pair_map.add([PairTest(round=0, source=1023, target=1023, value=1e9)])
    lines = pair_map.text("Round 19, alone. ").plain.splitlines()

    assert len(lines) <= 23
    assert max(map(len, lines)) <= 80
    snapshot(lines[0])
    assert lines[-2].startswith(" 973 ")
    assert lines[-2].endswith("··")
    snapshot(lines[-1])
    small = PairMap(4, columns=80, lines=24).text().plain.splitlines()
    assert [line[:2] for line in small[1:-1]] == ["0 ", "1 ", "2 ", "3 "]
    assert "worst" not in small[0]


def test_tests_survive_as_measurements(snapshot: Snapshot, home: Path) -> None:
    with launch(
        "sim", provider="sim", options={"fabric": "rail:2x2x2", "fault": "mtu:1,nic:2.1=0.5"}
    ) as cluster:
        run = cluster.bench("pairs")
    tests = list(pair_tests(run.measurements))

    assert {test.nic for test in tests} == {0, 1}
    assert {test.reason for test in tests if not test.value} == {HOLE}
    with snapshot.raises(SpecError):
        attach("sim")


def test_judge_show_and_report_give_the_verdict_of_the_check(home: Path) -> None:
    """A run with a bad host is LOW everywhere, and the page has the map of its pairs."""
    fault = ("--option", "fabric=leafspine:4x4", "--option", "fault=host:7:rx=0.4")
    command("check", "big", "--provider", "sim", "--hosts", "16", *fault)
    first, *_, answer_ = command("judge", "big", "--fail-on", "low", status=3).stdout.splitlines()

    assert first.startswith("FAULTY")
    assert answer_.startswith("FAULTY: BAD host:7 rx; ")
    assert "LOW" not in answer_
    assert " Next: cluster check big --pairs 7-" in answer_
    assert command("show", "big").stdout.splitlines()[-1] == answer_
    assert answer_ in command("report", "big", "-o", str(home / "big.html")).stdout
    page = (home / "big.html").read_text()
    assert "Pairs of hosts: big/" in page


@pytest.mark.usefixtures("tools")
def test_a_killed_controller_leaves_a_check_that_can_be_finished() -> None:
    """SIGKILL after the first round: real ranks go on, and another process judges their tests."""
    launch("killed", hosts=4)
    check = (COMMAND, "check", "killed", "--rounds", "all", "--alone", "0", "--milliseconds", "100")
    with subprocess.Popen(
        check, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        assert any(line.startswith("Round 1:") for line in run.stdout)
        run.kill()
    command("wait", "killed")
    command("fetch", "killed")
    verdict = answer("check", "--from", "killed")

    assert (verdict["rounds"], verdict["failed"]) == (3, 0)
    assert verdict["tests"] >= 12  # what a busy machine slows down is tested again


PAIR_LOGS = ROOT / "tests" / "runs" / "pair_logs"


def test_logs_of_other_tools_are_judged_as_the_shell_names_them(home: Path) -> None:
    """`--from logs/*.out`: the shell makes several words of it."""
    logs = sorted(map(str, (PAIR_LOGS / "aks32").iterdir()))
    verdict = answer("check", "--from", *logs)
    result = command("check", "--from", str(PAIR_LOGS / "alltoall_g8.csv"))

    assert (verdict["verdict"], verdict["tests"], verdict["blamed"]) == ("UNDECIDED", 9, [])
    assert len(verdict["assumptions"]) == 3
    assert "SHARED" in result.stdout
    assert "cnode2-002 and cnode2-008: line 23" in result.stdout
    assert "(--limit)" in result.stdout
    assert "SHARED" in command("check", "--from", "latest").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from", "nowhere.log"), "There is no file nowhere.log, and no run of that name"),
        (("--from", "nobody"), "There is no run 'nobody'"),
        (("--from", str(PAIR_LOGS), "--metric", "luck"), "There are: bandwidth, latency"),
        (("--from", str(PAIR_LOGS), "--groups", "placement"), "is not known of hosts in logs"),
        (("--from", str(PAIR_LOGS), "--groups", "nowhere.txt"), "cannot be read"),
        (("--from", str(PAIR_LOGS / "nccl")), "Choose one by words of its name: --series"),
        (("one", "two"), "One cluster is checked at a time"),
    ],
)
def test_logs_that_cannot_be_judged_are_refused(
    home: Path, words: tuple[str, ...], message: str
) -> None:
    assert message in command("check", *words, status=2).stderr


def test_groups_in_a_file_are_those_of_hosts_in_logs(home: Path) -> None:
    Path("groups.txt").write_text(
        " ".join(f"cnode2-{n:03}" for n in (1, 2, 3, 4, 6, 9, 12, 16, 17))
        + "\n"
        + " ".join(f"cnode2-{n:03}" for n in (5, 7, 8, 10, 11, 13, 14, 15))
    )
    verdict = answer(
        "check", "--from", str(PAIR_LOGS / "alltoall_g8.csv"), "--groups", "groups.txt"
    )
    assert [(row["part"], row["kind"]) for row in verdict["observations"]] == [("fabric", "SHARED")]
    assert verdict["blamed"] == []


def test_simulated_hosts_are_replaced_to_rehearse(home: Path) -> None:
    """6: those that are bad by themselves, and no link; the verdict keeps what was done."""
    faults = "host:7:rx=0.4,host:2=0,link:3-1=0.3,host:9=0.5"
    command("up", "big", *SIM, "--option", f"fault={faults}")
    verdict = answer("check", "big", "--replace")
    replaced = {row["part"]: row for row in verdict["replaced"]}

    assert set(replaced) == {"host:2", "host:7", "host:9"}
    assert (replaced["host:7"]["old"], replaced["host:7"]["new"]) == ("sim-7", "sim-7-new1")
    hosts = [host["id"] for host in answer("ls", "big")]
    assert hosts == [replaced[p]["new"] if (p := f"host:{n}") in replaced else f"sim-{n}"
                     for n in range(16)]  # fmt: skip
    again = answer("check", "--from", verdict["run"])
    assert again["replaced"] == verdict["replaced"]
    after = answer("check", "big", "--replace")
    assert (after["replaced"], {row["kind"] for row in after["blamed"]}) == ([], {"LINK"})


def test_one_nic_of_a_host_is_reason_enough(home: Path) -> None:
    rail = ("--provider", "sim", "--option", "fabric=rail:2x4x4", "--option", "fault=nic:3.2=0.3")
    command("up", "rails", *rail)
    verdict = answer("check", "rails", "--replace")

    assert [row["part"] for row in verdict["blamed"] if row["kind"] == "BAD"] == ["nic:3.2"]
    assert [row["old"] for row in verdict["replaced"]] == ["sim-3"]
    assert answer("check", "rails")["verdict"] == "HEALTHY"


@pytest.mark.parametrize("change", ["--replace", "--cordon"])
@pytest.mark.parametrize(
    "words",
    [("--from", "latest"), ("big", "--pairs", "1-2"), ("--provider", "sim"), (*SIM, "--no-keep")],
)
def test_changes_need_a_cluster_that_stays(home: Path, words: tuple[str, ...], change: str) -> None:
    result = command("check", *words, change, status=2)
    assert change in result.stderr


@pytest.mark.parametrize("words", [("--cordon",), ("--at-most", "5%"), ("--cordon", "--at-most=9")])
def test_cordons_need_nodes_and_a_percentage(home: Path, words: tuple[str, ...]) -> None:
    command("up", "big", *SIM)
    assert command("check", "big", *words, status=2).stdout == ""


def test_an_interrupted_replacement_is_seen_and_finished(snapshot: Snapshot, home: Path) -> None:
    command("up", "big", *SIM, "--option", "fault=host:7:rx=0.4")
    cluster = attach("big")
    cluster.disk.record(journal.Replacing(kept=cluster.machines))

    snapshot(answer("ls")[0]["status"])
    (orphan,) = answer("more", "gc")
    snapshot(orphan["why"])
    with cluster.disk.journal.in_use():
        assert answer("more", "gc") == []  # not while a process is at it
        assert answer("ls")[0]["status"] == "replacing hosts"
    command("more", "gc", "-y")
    assert answer("more", "gc") == []
    assert len(answer("ls", "big")) == 16


def test_a_check_that_was_cut_off_is_not_healthy_anywhere(snapshot: Snapshot, home: Path) -> None:
    command("up", "big", *SIM)
    folder = Path(answer("check", "big")["run"])
    record = json.loads((folder / "run.json").read_text())
    record |= {"status": "interrupted", "reason": "stopped by Ctrl-C"}
    (folder / "run.json").write_text(json.dumps(record))
    verdict = answer("check", "--from", str(folder))

    assert verdict["verdict"] == "UNDECIDED"
    snapshot(verdict["answer"])
    assert "UNDECIDED" in command("judge", str(folder)).stdout
    assert answer("judge", str(folder))["verdict"] == "unknown"


def test_a_run_of_six_tests_that_speak_against_nobody_is_judged(home: Path) -> None:
    command("up", "big", "--provider", "sim", "--option", "fabric=leafspine:8x8")
    folder = Path(answer("check", "big", "--rounds", "2")["run"])
    place = folder / store.MEASUREMENTS
    template = json.loads(place.read_bytes().splitlines()[0])
    tests = [
        (0, 31, 24, 0, 0.0816),
        (9, 38, 31, 0, 0.0472),
        (9, 0, 57, 0, 0.6737),
        (10, 32, 24, 1, 0.2071),
        (10, 0, 56, 1, 0.9523),
        (10, 49, 9, 1, 0.9479),
    ]
    names = ("round", "source", "target", "alone")
    lines = [
        template | {"params": dict(zip(names, places, strict=True)), "values": [value]}
        for *places, value in tests
    ]
    place.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    verdict = answer("check", "--from", str(folder))
    assert (verdict["verdict"], verdict["tests"], verdict["blamed"]) == ("UNDECIDED", 6, [])


@pytest.mark.usefixtures("tools")
def test_a_check_whose_process_was_killed_is_undecided_until_it_is_fetched(
    snapshot: Snapshot, home: Path
) -> None:
    command("up", "here", "--provider", "local", "--hosts", "3")
    words = ("--rounds", "3", "--alone", "0", "--milliseconds", "200")
    with subprocess.Popen([COMMAND, "check", "here", *words], stdout=subprocess.DEVNULL) as check:
        values = until(
            lambda: list(home.parent.glob("runs/*/*/measurements.jsonl")), "first values"
        )
        check.kill()
    run = values[0].parent
    judged = answer("judge", str(run), "--fail-on", "unknown", status=3)
    assert (judged["verdict"], judged["status"]) == ("unknown", "running")
    snapshot(judged["answer"])
    assert answer("check", "--from", str(run), "--fail-on", "unknown", status=3)["rounds"] < 3

    command("wait", "here")
    output = command("fetch", "here").stdout
    whole = json.loads((run / "verdict.json").read_text())
    assert whole["rounds"] == 3
    assert whole["answer"] in output.splitlines()
    assert answer("judge", str(run))["answer"].startswith(whole["answer"].rstrip("."))


@pytest.mark.parametrize(("fault", "words", "status"), [("7:rx=0.4", "low", 3), ("", "low", 0)])
def test_a_faulty_fleet_fails_a_step_that_asks_for_it(
    home: Path, fault: str, words: str, status: int
) -> None:
    faults = ("--option", f"fault=host:{fault}") if fault else ()
    command("up", "big", *SIM, *faults)
    command("check", "big", "--fail-on", words, status=status)
    command("check", "--from", "latest", "--fail-on", words, status=status)
    command("check", "--from", "latest")
    command("check", "big", "--fail-on", "purple", status=2)


def test_hosts_that_are_this_machine_have_no_network_to_blame(home: Path) -> None:
    del home
    words = ("--provider", "local", "--hosts", "2", "--milliseconds", "50", "-y")
    verdict = answer("check", "here", *words, status=None)

    assert verdict["verdict"] == "UNDECIDED"
    assert verdict["reason"]["code"] == "one_machine"
    assert (verdict["blamed"], verdict["observations"]) == ([], [])
