"""`cluster watch add`, `run` and `remove`: a benchmark that a timer repeats."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import cluster
from cluster.cli.commands import watch as watch_command
from cluster.runs import watch as watches
from cluster.runs.watch import WatchEvent, in_order, why_not_due
from tests.cli.test_watch import add_run
from tests.conftest import COMMAND, command, run, until
from tests.snapshots import Snapshot

P2P = "p2p --run-local --metrics memory_copy --sizes 8 --iterations 5"
ANY = ("--busy", "1")  # other tests use this machine, too
PROMTOOL = shutil.which("promtool", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def add(*words: str, every: str = "6h", bench: str = P2P, status: int = 0) -> str:
    result = command(
        "watch", "add", "w", "--every", every, "--bench", bench, *ANY, *words, status=status
    )
    return result.stdout if status == 0 else result.stderr


def outcomes() -> list[tuple[str, str]]:
    return [(event.outcome, event.reason) for event in events()]


def events() -> tuple[WatchEvent, ...]:
    return watches.events(Path(os.environ["CLUSTER_RUNS"]), "w")


@pytest.fixture
def local(tools: None) -> Iterator[None]:
    """A cluster on this machine, taken down afterwards."""
    yield
    command("down", "w", "-y", status=None)


@pytest.mark.usefixtures("local")
def test_a_run_is_measured_once_per_interval() -> None:
    """Three launches of `mpirun`, one after another: 10 s."""
    add()
    command("watch", "run", "w")
    early = command("watch", "run", "w").stdout
    command("watch", "run", "w", "--now")

    assert "6 h 0 min" in early
    assert [outcome for outcome, _ in outcomes()] == ["measured", "skipped", "measured"]
    assert len(list(Path(os.environ["CLUSTER_RUNS"]).glob("w/*-p2p"))) == 2
    assert {row["runs"] for row in json.loads(command("watch", "--json").stdout)} == {2}


@pytest.mark.usefixtures("local")
def test_runs_that_overlap_or_were_killed_measure_once(snapshot: Snapshot) -> None:
    """Two launches; the first is killed while its ranks run, as by a crash: 10 s."""
    add(bench="p2p --run-local --metrics memory_copy --sizes 8 --iterations 2000000")
    first = subprocess.Popen([COMMAND, "watch", "run", "w"], stdout=subprocess.DEVNULL)
    folder = Path(os.environ["CLUSTER_RUNS"]) / "w"
    until(lambda: any('"running"' in p.read_text() for p in folder.glob("*/run.json")), "a run")
    output = command("watch", "run", "w").stdout
    first.send_signal(signal.SIGKILL)
    first.wait()
    second_output = command("watch", "run", "w").stdout

    snapshot(output)
    snapshot(second_output)
    command("down", "w", "-y")
    add()
    command("watch", "run", "w")
    assert [outcome for outcome, _ in outcomes()] == ["skipped", "skipped", "measured"]


def test_a_failure_is_noted_and_tried_again(snapshot: Snapshot) -> None:
    add(bench="p2p --run-local --hosts 0")
    command("watch", "run", "w", status=2)
    command("watch", "run", "w", status=2)

    assert outcomes() == [("failed", "--hosts is 0; it must be between 1 and 100000.")] * 2
    snapshot(command("watch").stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"every": "5s"}, "shorter than a minute"),
        ({"every": "soon"}, "'soon' is not a duration"),
        ({"bench": ""}, "--bench is empty"),
        ({"bench": "p2p --sizes 'x"}, "cannot be split"),
        ({"bench": "nothing"}, "There is no benchmark 'nothing'"),
        ({"bench": "p2p --nothing"}, "--nothing"),
        ({"bench": "p2p x"}, "Leave NAME out of --bench"),
    ],
)
def test_what_a_timer_could_not_repeat_is_refused(words: dict[str, str], message: str) -> None:
    assert message in add(status=2, **words)
    assert not Path(os.environ["CLUSTER_RUNS"], "w").exists()


def test_an_unknown_kind_of_timer_is_refused(snapshot: Snapshot) -> None:
    snapshot(add("--timer", "at", status=2))


def test_units_of_systemd_are_valid_and_run_this_command(tmp_path: Path) -> None:
    text = add("--timer", "systemd", every="90min")
    service, timer = text[text.index("[Unit]") : text.index("\nThen type")].rsplit("\n# /", 1)
    timer = timer[timer.index("[Unit]") :]
    (tmp_path / "cluster-watch-w.service").write_text(service)
    (tmp_path / "cluster-watch-w.timer").write_text(timer)

    assert "OnUnitActiveSec=5400s" in timer
    assert f"{COMMAND} watch run w --runs {os.environ['CLUSTER_RUNS']}" in text
    assert f"CLUSTER_STATE={os.environ['CLUSTER_STATE']}" in text
    assert ignored_by_systemd(tmp_path / "cluster-watch-w.timer") == ""
    assert ignored_by_systemd(tmp_path / "cluster-watch-w.service") == ""


def ignored_by_systemd(unit: Path) -> str:
    """Return what systemd itself says against a unit; without its folder it looks at none."""
    if not shutil.which("systemd-analyze"):
        return ""
    variables = {**os.environ, "XDG_RUNTIME_DIR": str(unit.parent)}
    return run("systemd-analyze", "verify", "--user", str(unit), env=variables).stderr


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="this machine has no systemd")
def test_a_unit_that_systemd_would_ignore_in_part_is_seen(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    wrong = tmp_path / "w.service"
    wrong.write_text("[Service]\nType=oneshot\nExecStart=/bin/true\nSuccessExitStatus=three\n")

    snapshot(ignored_by_systemd(wrong))


@pytest.mark.parametrize(
    ("every", "times"),
    [
        ("1d", "0 0 * * *"),
        ("2d", "0 0 * * *"),
        ("6h", "0 */6 * * *"),
        ("5h", "0 * * * *"),
        ("15min", "*/15 * * * *"),
        ("7min", "* * * * *"),
    ],
)
def test_a_crontab_starts_often_enough(every: str, times: str) -> None:
    line = add("--timer", "cron", every=every).splitlines()[2]

    assert line.startswith(f"{times} /usr/bin/env ")
    assert line.endswith("# cluster-watch-w")


def test_nothing_is_installed_and_removing_says_what_to_type(tmp_path: Path) -> None:
    add("--timer", "systemd")
    removed = command("watch", "remove", "w").stdout

    assert not (tmp_path / ".config").exists()
    units = f"{tmp_path}/.config/systemd/user/cluster-watch-w"
    assert f"systemctl --user disable --now cluster-watch-w.timer; rm {units}.*" in removed
    assert "# cluster-watch-w" in removed
    command("watch", "run", "w", status=2)


def event(time: float, *runs: str) -> WatchEvent:
    return WatchEvent(at=time, outcome="measured", runs=runs)


def test_a_clock_that_jumps_neither_skips_for_ever_nor_mixes_the_order(tmp_path: Path) -> None:
    watch = watches.Watch(name="w", every=3600.0, bench=("p2p",), at=0.0)
    events = [event(7000.0, "20260103"), event(100.0, "20260101"), event(200.0, "20260104")]
    folders = [tmp_path / f"2026010{day}" for day in range(5)]

    assert why_not_due(watch, [event(9000.0)], 50.0) == ""
    assert why_not_due(watch, [event(9000.0)], 9000.0 + 3200) != ""
    assert why_not_due(watch, [event(9000.0)], 9000.0 + 3300) == ""
    assert [f.name[-1] for f in in_order(folders, events)] == ["0", "2", "3", "1", "4"]


def test_a_log_that_was_cut_off_is_continued(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    watches.note(tmp_path, "w", event(1.0, "a"))
    with (tmp_path / "w" / watches.LOG).open("a") as file:
        file.write('{"at": 2.0, "outc')
    watches.note(tmp_path, "w", event(3.0, "b"))

    assert [e.runs for e in watches.events(tmp_path, "w")] == [("a",), ("b",)]


def test_a_damaged_file_says_what_is_lost_and_what_to_type(snapshot: Snapshot) -> None:
    add()
    folder = Path(os.environ["CLUSTER_RUNS"]) / "w"
    (folder / watches.LOG).write_text("nothing\n")
    log = command("watch", "run", "w", status=None).stderr
    (folder / watches.LOG).unlink()
    (folder / watches.WATCH).write_text('{"name": "w", "ev')
    watch = command("watch", "run", "w", status=None).stderr

    snapshot(log)
    snapshot(watch)


def test_a_full_disk_is_said(snapshot: Snapshot) -> None:
    """A limit on the size of files stands for the disk: the kernel refuses to write, too."""
    add()
    root = Path(os.environ["CLUSTER_RUNS"])
    watches.note(root, "w", event(time.time(), "a"))
    limited = f"ulimit -f 0; exec {COMMAND} watch run w"
    message = run("sh", "-c", limited, status=1).stderr

    snapshot(message)
    assert [e.runs for e in watches.events(root, "w")] == [("a",)]


def test_an_alarm_is_told_once_and_is_in_the_file_of_prometheus(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    log, text = tmp_path / "told", tmp_path / "cluster.prom"
    for number in range(16):
        add_run(tmp_path, number, 1 + 0.002 * (number * 7 % 5))
    watch = watches.Watch(
        name="old",
        every=60.0,
        bench=("p2p",),
        at=0.0,
        prometheus=str(text),
        on_change=f'echo "$CLUSTER_WATCH: $CLUSTER_CHANGE" >> {log}; [ -e {tmp_path}/ok ]',
    )
    watches.add(tmp_path, watch)
    states = []
    for number in range(16, 20):
        add_run(tmp_path, number, 1.25 + 0.001 * (number % 3))
        watches.note(tmp_path, "old", event(float(number)))
        states.append(watch_command._report(tmp_path, watch))
        if number > 16:
            (tmp_path / "ok").touch()

    assert states == [0, 3, 3, 3]
    lines = [line for line in log.read_text().splitlines() if line.startswith("old: ")]
    assert len(lines) == 2 * 2  # two series, and the first attempt to tell of each failed
    snapshot(lines[0])
    metrics = text.read_text()
    assert 'cluster_watch_state{cluster="old",metric="latency",' in metrics
    assert metrics.count("# TYPE cluster_watch_state gauge") == 1


@pytest.mark.skipif(
    not PROMTOOL,
    reason="promtool is missing: scripts/setup dev takes it out of Debian's prometheus",
)
def test_promtool_accepts_the_file_whatever_the_names_are(tmp_path: Path) -> None:
    for number in range(3):
        add_run(tmp_path, number, 1.0)
    rows = [
        msgspec.structs.replace(row, cluster='a "b" \\ c\nd', params={**row.params, "x": "µ{}=,"})
        for row in cluster.watch("old", runs=tmp_path)
    ]

    assert len(rows) > 1
    run(str(PROMTOOL), "check", "metrics", input=watch_command.prometheus_text(rows))
