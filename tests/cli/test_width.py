"""What commands print fits the terminal, and no number is torn apart by its end."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import msgspec
import pytest

from cluster.cli.command_line import app, break_lists
from cluster.orchestration.launch.launch import launch
from tests.conftest import COMMAND, ROOT, command, runs_folder, until
from tests.snapshots import Snapshot

SCALED = ("--batch", "128", "--exchange", "102MB", "--link", "10gbit")
NUMBER = re.compile(r"\d[\d.]*")
SWEEP = "# OSU MPI Latency Test v7.3\n# Size          Latency (us)\n" + "".join(
    f"{2**n:<12} {{}}{1.25 + 2**n / 1e4:.2f}\n" for n in range(0, 23, 2)
)
LOGS = ROOT / "tests" / "logs"
COMMANDS = (
    ("show", "a"),
    ("judge", "a"),
    ("runs",),
    ("ls",),
    ("compare", "a", "b"),
    ("plot", "--fit", "a"),
    ("more", "gc"),
    ("import", "a.log"),
    ("watch", "a"),
    ("ls", "up"),
    ("up", "a", "--plan"),
    ("more", "corpus", "list"),
    ("more", "corpus", "show", "p4de-allreduce-aws"),
    ("doctor",),
    ("show", "several"),
    ("judge", "several"),
    ("check", "--from", "checked"),
    ("more", "topology", str(LOGS / "topology.dgx1v.txt")),
    ("more", "topology", str(LOGS / "p2p_matrix.full.txt")),
    ("more", "scaling", str(ROOT / "examples" / "ddl_scaling.md"), *SCALED),
    ("more", "profile", str(LOGS / "mpitrace.current.txt")),
    ("judge", str(LOGS / "nccl_tests.hopper.txt")),
    ("more", "share", "a", "-o", "shared.json", "-y"),
)


@pytest.fixture
def runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    for name, digit in (("a", ""), ("b", "1")):
        log = home / f"{name}.log"
        log.write_text(SWEEP.replace("{}", digit))
        run("import", str(log), "--name", name)
        run("import", str(log), "--name", "several")
    for path in runs_folder().glob("several/*/run.json"):
        record = msgspec.json.decode(path.read_bytes())
        path.write_bytes(msgspec.json.encode({**record, "launch_of": "1"}))


def numbers(text: str) -> set[str]:
    """Find the numbers, but those of paths and names of runs: each import makes another one."""
    return set(NUMBER.findall(re.sub(r"(?<!\S)(?:/|\./)\S+|\S*\d{8}T\d{6}Z\S*", "", text)))


def run(*words: str) -> None:
    """Run a command in this process."""
    with contextlib.suppress(SystemExit):
        assert not app(list(words), standalone_mode=False)


def no_records(names: list[str], *_: object) -> list[str]:
    """Refuse a table whose rows are shown one below the other, where there is room for columns."""
    pytest.fail(f"no table of {names}")


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2])[-20:])
def test_lines_fit_and_numbers_stay_whole(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is torn apart leaves pieces that are no numbers of the wide output."""
    if words[0] == "check":
        options = {"fabric": "leafspine:4x4", "fault": "host:7:rx=0.4"}
        launch("checked", provider="sim", hosts=16, options=options).bench.pairs()
    elif words[0] in ("hosts", "ls"):
        launch("up", hosts=3)
        monkeypatch.setattr("cluster.cli.commands.ls.format_seconds", lambda _: "12 s")  # its age
    capsys.readouterr()
    run(*words)
    whole = numbers(capsys.readouterr().out)
    for width in (40, 80, 120, 200):
        for module in [mod for name, mod in sys.modules.items() if name.startswith("cluster.cli.")]:
            if hasattr(module, "screen_width"):
                monkeypatch.setattr(module, "screen_width", lambda width=width: width)
        if width >= 80:
            monkeypatch.setattr("cluster.reports.formats.terminal._records", no_records)
        run(*words)
        out = capsys.readouterr().out
        # Half of an interval is only in narrow tables.
        assert numbers(re.sub(r"±\S+|n_1/2", "", out)) - {"2"} <= whole, width
        assert not re.search(r"\d\n\s*(?:[kMG]i?)?(?:B|B/s|[nµm]?s)(?!\w)", out), (width, out)
        for line in out.splitlines():
            assert len(line) <= width or len(line.split()) <= 2, (width, line)


@pytest.mark.usefixtures("runs")
def test_a_terminal_of_80_columns_has_a_table_of_fewer_columns(
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS")
    narrow, wide = on_terminal(80, "show", "a"), on_terminal(80, "show", "a", "--wide")

    snapshot(narrow)
    assert all(len(line) <= 80 or len(line.split()) == 1 for line in narrow.splitlines())
    assert "p99" not in wide, "one value each has no percentiles"
    assert "95% CI" not in wide


def test_runs_at_80_columns_show_what_of_and_the_verdict_in_colour(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    name = "job_nccl_all_reduce_8_nodes_20240101.node-0007.log"
    (home / name).write_bytes((LOGS / "nccl_tests.hopper.txt").read_bytes())
    run("judge", name, "--keep")
    coloured, plain = on_terminal(80, "runs", colour=True), on_terminal(80, "runs")
    column = plain.splitlines()[1].index(" of") + 1

    assert "\x1b[1;33mLOW\x1b[0m" in coloured
    assert "\x1b" not in plain
    assert all(part in plain for part in (" age ", " busbw ", " 265.9 GB/s ", " LOW "))
    assert name in "".join(line[column:].strip() for line in plain.splitlines())


@pytest.mark.usefixtures("tools")
def test_jobs_at_80_columns_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long names and commands in several states: a command goes on below itself."""
    monkeypatch.delenv("COLUMNS", raising=False)
    line = f": {' '.join(f'--option-{n}={n * 7}' for n in range(20))}; "
    ends = {"done": "true", "failed": "exit 3", "running": "sleep 300"}
    with launch("wide", provider="local", hosts=3) as c:
        for state, end in ends.items():
            c.start(line + end, name=f"{state}-{'x' * (39 - len(state))}")
        until(lambda: [job.state for job in c.jobs.values()] == [*ends], "the states")
        output = on_terminal(80, "jobs", c.name)

    _, head, _, *rows = output.partition("\n\nNote: Not shown")[0].splitlines()
    column = head.index("command")
    assert max(map(len, rows)) <= 80
    assert " ".join(row[column:].strip() for row in rows) == " ".join(
        map(line.__add__, ends.values())
    )
    assert [row[:column].split() for row in rows if row[:column].strip()] == [
        [f"{state}-{'x' * (39 - len(state))}", state, status]
        for state, status in zip(ends, ("0", "3", "-"), strict=True)
    ]


@pytest.mark.usefixtures("runs")
def test_in_a_pipe_every_row_is_one_line_of_its_own_width() -> None:
    """As in other tools: what reads a pipe wants whole lines, whatever COLUMNS says."""
    piped = command("show", "a").stdout
    rows = [line for line in piped.splitlines() if line.startswith(" latency")]

    assert len(rows) == 12
    assert len({len(NUMBER.findall(row)) for row in rows}) <= 2
    assert piped == command("show", "a", "--wide").stdout


def on_terminal(width: int, *words: str, colour: bool = False) -> str:
    """Run a command on a terminal of so many columns."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {**os.environ, "NO_COLOR": "" if colour else "1"}
    with subprocess.Popen([COMMAND, *words], stdout=terminal, env=environment) as process:
        os.close(terminal)
        output = b""
        while piece := _read(controller):
            output += piece
    os.close(controller)
    assert process.returncode == 0
    text = output.decode().replace("\r\n", "\n")
    return text if colour else re.sub(r"\x1b\[[01]m", "", text)


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65536)
    except OSError:  # the other end is closed
        return b""


def test_lists_of_errors_break_after_commas_and_commands_stay_whole() -> None:
    command = "cluster bench p2p mine --provider ssh --option hosts=a"
    text = break_lists(f"There are: {', '.join(f'name{n}' for n in range(9))}\nType: {command}", 30)

    assert text.splitlines() == [
        "There are: name0, name1,",
        "name2, name3, name4, name5,",
        "name6, name7, name8",
        f"Type: {command}",
    ]
