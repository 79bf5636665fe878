"""docs/explanation/architecture.md is true, and enough: its drawing, paths and examples."""

import re
import shutil
import sys
import threading
import tomllib
from pathlib import Path
from types import FrameType

import pytest

import cluster
from tests.conftest import ROOT, run
from tests.test_docs import blocks

PAGE = ROOT / "docs" / "explanation" / "architecture.md"
ADR = ROOT / "docs" / "adr" / "0018-packages-on-floors.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
OSU = ROOT / "tests" / "logs" / "osu.latency.txt"
NCCL = ROOT / "tests" / "logs" / "nccl_log.two_nodes.txt"


class Copy:
    """A copy of the sources, in which somebody new to them adds one thing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT / "cluster", root / "cluster")  # with what is compiled of it

    def add(self, text: str) -> None:
        """Make the file that the first line of an example names."""
        path = self.root / text.partition("\n")[0].removeprefix("# ")
        assert not path.exists()
        path.write_text(text)

    def change(self, diff: str) -> None:
        """Change the file that the first line of an example names."""
        first, *lines = diff.splitlines(keepends=True)
        path = self.root / first.removeprefix("# ").strip()
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))

    def changes(self) -> list[str]:
        """List the files that are not as they were."""
        files = (p for p in (self.root / "cluster").rglob("*") if p.is_file())
        names = (p.relative_to(self.root) for p in files if p.suffix != ".pyc")
        return [
            str(name)
            for name in names
            if not (ROOT / name).exists()
            or (ROOT / name).read_bytes() != (self.root / name).read_bytes()
        ]

    def cluster(self, *words: str) -> str:
        """Run the command of the copy."""
        line = (
            f"import sys; sys.path.insert(0, {str(self.root)!r}); sys.argv[0] = 'cluster'\n"
            "from cluster.cli import main; main()"
        )
        return run(sys.executable, "-P", "-c", line, *words).stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path / "copy")


def example(page: Path, kind: str, name: str) -> str:
    [block] = [text for text in blocks(page, kind) if text.startswith(f"# {name}")]
    return block


def test_the_drawing_is_that_of_the_import_rules() -> None:
    drawing, *_ = blocks(PAGE, "text")
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = rules["contracts"][0]["layers"]

    assert [sorted(re.findall(r"\w+", line)) for line in drawing.splitlines()] == [
        sorted(re.findall(r"\w+", layer)) for layer in layers
    ]
    assert drawing in blocks(CONTRIBUTING, "text")
    assert drawing in blocks(ADR, "text")


def test_every_path_that_it_names_is_there() -> None:
    text = re.sub(r"^```.*?^```$", "", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    paths = re.findall(r"`([\w./]+/[\w./]*|[\w.]+\.(?:toml|md))`", text)

    assert len(paths) >= 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_package_has_its_place_in_the_walk_or_the_table() -> None:
    text = PAGE.read_text()
    packages = [path.name for path in (ROOT / "cluster").iterdir() if path.is_dir()]

    missing = [
        name for name in packages if f"cluster/{name}/" not in text and name != "__pycache__"
    ]
    assert missing == ["benchmarks"]  # which is at the top, and a link here
    assert "`benchmarks/p2p`" in text


def test_a_stranger_adds_a_provider_in_one_file(copy: Copy) -> None:
    text = example(CONTRIBUTING, "python", "providers/here.py")
    copy.add(text.replace("# providers", "# cluster/providers", 1))

    assert copy.changes() == ["cluster/providers/here.py"]
    assert "this machine" in copy.cluster(
        "up", "mine", "--plan", "--provider", "here", "--hosts", "1"
    )


def test_a_stranger_adds_a_rule_of_diagnosis_in_one_file(copy: Copy, tmp_path: Path) -> None:
    log = tmp_path / "trace.txt"
    line = "node-a:101:201 [0] NCCL INFO NCCL_DEBUG set by environment to TRACE\n"
    log.write_text(NCCL.read_text().replace("node-a:101", line + "node-a:101", 1))
    before = copy.cluster("judge", str(log))
    copy.add(example(PAGE, "python", "cluster/analysis/verdict/rules/verbose_logs.py"))

    assert copy.changes() == ["cluster/analysis/verdict/rules/verbose_logs.py"]
    assert "NCCL_DEBUG=TRACE" not in before
    assert "(possible): NCCL_DEBUG=TRACE" in copy.cluster("judge", str(log))


def test_a_stranger_adds_a_command_in_one_file(copy: Copy) -> None:
    (copy.root / "cluster/cli/commands/greet.py").write_text('''"""Greet a host.

Example: cluster greet node-a
"""

def command(host: str) -> None:
    print("Good morning,", host)
''')

    assert copy.changes() == ["cluster/cli/commands/greet.py"]
    assert copy.cluster("greet", "node-a") == "Good morning, node-a\n"
    assert "Example: cluster greet node-a" in copy.cluster("greet", "--help")
    assert re.search(r"^Others:\n  greet +Greet a host\.$", copy.cluster("--help"), re.MULTILINE)


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_a_stranger_adds_a_column_to_the_report_in_one_file(copy: Copy, form: str) -> None:
    copy.cluster("import", str(OSU), "--name", "osu")
    before = copy.cluster("show", "osu", "--format", form)
    copy.change(example(PAGE, "diff", "cluster/reports/table.py"))

    assert copy.changes() == ["cluster/reports/table.py"]
    assert "p95 / p5" not in before
    assert "p95 / p5" in copy.cluster("show", "osu", "--format", form)
    copy.cluster("report", "osu", "-o", "page.html")
    assert "p95 / p5" in (copy.root.parent / "work" / "page.html").read_text()


@pytest.mark.usefixtures("tools")
def test_the_walk_of_a_started_command_is_what_stands_on_the_stack() -> None:
    """Traced on this machine down to tmux; what is below it there is the shell of SSH."""
    walks = list[list[str]]()

    def trace(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        names = (event, Path(code.co_filename).name, code.co_name)
        if names == ("call", "tmux.py", "start"):
            main = sys._current_frames()[threading.main_thread().ident or 0]
            walks.append([*files_below(main), *files_below(frame)])

    with cluster.launch("walk", provider="local", hosts=2) as c:
        threading.setprofile(trace)
        c.start("true", name="walked").wait()
        threading.setprofile(None)

    section = PAGE.read_text().partition("## The walk of a started command")[2].partition("##")[0]
    paths = re.findall(r"`(cluster/[\w/]+\.py)`", section)
    ssh = ["cluster/remote/remote_shell.py", "cluster/remote/shells/ssh.py"]
    *local, on_host = paths
    assert len(local) <= 8
    assert sorted({*walks[0], *ssh}) == sorted(local)
    assert on_host == "cluster/agent/task.py"


def files_below(frame: FrameType | None) -> list[str]:
    """List our files on a stack, the outermost first."""
    files = list[str]()
    while frame:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(ROOT / "cluster"):
            files.append(str(path.relative_to(ROOT)))
        frame = frame.f_back
    return files[::-1]
