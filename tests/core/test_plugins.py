"""A file in a folder is a plug-in."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.measure.benchmark import Benchmark
from cluster.measure.starters import Starter
from cluster.providers import Provider
from cluster.remote.shells import Shell
from cluster.reports.formats import Report
from tests.snapshots import Snapshot

KINDS = (Benchmark, Provider, Report, Shell, Starter)
CLASS = '''
class {name}(Report):
    """Says its own name."""

    def render(self, summaries, *, notes=()):
        return "{name}"
'''
IMPORT = "from cluster.reports.formats import Report\n"


@pytest.fixture(autouse=True)
def _found_again() -> None:
    importlib.invalidate_caches()


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of reports of one's own."""
    folder = tmp_path / "plugins" / "reports"
    folder.mkdir(parents=True)
    monkeypatch.setenv("CLUSTER_PLUGINS", str(folder.parent))
    return folder


def test_the_plugins_that_come_with_the_package() -> None:
    assert "p2p" in plugins.names(Benchmark)
    assert "local" in plugins.names(Provider)
    assert {"csv", "json", "markdown", "terminal"} <= set(plugins.names(Report))
    assert "local" in plugins.names(Shell)
    assert "mpirun" in plugins.names(Starter)


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_the_files_of_the_folder(kind: type[plugins.Plugin]) -> None:
    from pathlib import Path  # noqa: PLC0415 - elsewhere only annotations need it

    folder = Path(str(importlib.import_module(kind.folder).__file__)).parent

    assert plugins.names(kind) == tuple(
        sorted(
            path.stem
            for path in folder.iterdir()
            if path.suffix == ".py" or (path / "__init__.py").is_file()
            if not path.stem.startswith("_")
        )
    )


def test_names_import_none_of_the_plugins_that_come_with_the_package() -> None:
    """Looked at from outside, because this process has imported them already."""
    code = (
        "import sys\n"
        "from cluster.core import plugins\n"
        "from cluster.providers import Provider\n"
        "from cluster.reports.formats import Report\n"
        "names = [*plugins.names(Provider), *plugins.names(Report)]\n"
        "print(len(names), [m for m in sys.modules if m.rpartition('.')[2] in names\n"
        "    and m.startswith(('cluster.providers.', 'cluster.reports.formats.'))])\n"
    )
    expected = len(plugins.names(Provider)) + len(plugins.names(Report))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert result.stdout == f"{expected} []\n"


def test_names_do_not_import(reports: Path) -> None:
    (reports / "explosive.py").write_text("raise RuntimeError('imported')\n")

    assert "explosive" in plugins.names(Report)
    assert plugins.load(Report, "csv").name == "csv"
    with pytest.raises(RuntimeError, match="imported"):
        plugins.load(Report, "explosive")


def test_load_gives_a_plugin_that_knows_its_name() -> None:
    report = plugins.load(Report, "markdown")

    assert isinstance(report, Report)
    assert type(report).__name__ == "Markdown"
    assert report.name == "markdown"


@pytest.mark.parametrize("name", ["nothing", "", "json.decoder", "../reports/csv", "__init__"])
def test_an_unknown_name_is_answered_with_what_exists(snapshot: Snapshot, name: str) -> None:
    with snapshot.raises(SpecError):
        plugins.load(Report, name)


def test_a_folder_of_ones_own(reports: Path) -> None:
    (reports / "shout.py").write_text(IMPORT + CLASS.format(name="Shout"))
    report = plugins.load(Report, "shout")

    assert report.render(()) == "Shout"
    assert report.name == "shout"
    assert set(plugins.names(Report)) > {"csv", "shout"}
    assert "shout" not in plugins.names(Provider)


def test_a_folder_of_ones_own_is_added_once(reports: Path) -> None:
    for _ in range(3):
        plugins.names(Report)

    assert list(importlib.import_module(Report.folder).__path__).count(str(reports)) == 1


def test_a_relative_folder_of_ones_own(
    reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (reports / "shout.py").write_text(IMPORT + CLASS.format(name="Shout"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLUSTER_PLUGINS", "plugins")
    assert "shout" in plugins.names(Report)
    monkeypatch.chdir("/")

    assert plugins.load(Report, "shout").render(()) == "Shout"


def test_a_folder_that_is_not_there_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = plugins.names(Report)
    monkeypatch.setenv("CLUSTER_PLUGINS", str(tmp_path / "nowhere"))

    assert plugins.names(Report) == before


def test_a_name_that_comes_twice_is_listed_once_and_means_ours(reports: Path) -> None:
    (reports / "csv.py").write_text("raise RuntimeError('imported')\n")

    assert plugins.names(Report).count("csv") == 1
    assert type(plugins.load(Report, "csv")).__name__ == "Csv"


def test_what_is_no_python_file_is_no_plugin(reports: Path) -> None:
    (reports / "README.md").write_text("")
    (reports / "data").mkdir()

    assert not {"README", "data"} & set(plugins.names(Report))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("class Other:\n    pass\n", 0),
        (IMPORT, 0),
        ("from cluster.reports.formats.csv import Csv\n", 0),
        (IMPORT + CLASS.format(name="One") + CLASS.format(name="Two"), 2),
    ],
    ids=["empty", "another class", "the interface", "an imported plug-in", "two"],
)
def test_a_file_without_exactly_one_class_is_refused(reports: Path, text: str, count: int) -> None:
    (reports / "odd.py").write_text(text)

    with pytest.raises(SpecError, match=f"odd.* {count} "):
        plugins.load(Report, "odd")


def test_helpers_beside_the_one_class_are_fine(reports: Path) -> None:
    (reports / "rich.py").write_text(
        f"from cluster.reports.formats.csv import Csv\n{IMPORT}class Other:\n    pass\n"
        + CLASS.format(name="One")
    )

    assert plugins.load(Report, "rich").render(()) == "One"


def test_one_class_with_two_names_is_one_class(reports: Path) -> None:
    (reports / "alias.py").write_text(f"{IMPORT}{CLASS.format(name='One')}\nOld = One\n")

    assert plugins.load(Report, "alias").render(()) == "One"


def test_importing_cluster_installs_no_hook() -> None:
    """A rank, and any program of a user, finds its own modules as without it."""
    program = (
        "import sys; before = [*sys.meta_path]; import cluster; print(sys.meta_path == before)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert result.stdout == "True\n"


def test_a_module_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"cluster\.nowhere"):
        importlib.import_module("cluster.nowhere")
    with pytest.raises(ImportError, match="nothing"):
        exec("from cluster.runs import nothing")  # noqa: S102


def test_a_benchmark_that_is_a_folder_runs_its_main_file() -> None:
    p2p = plugins.load(Benchmark, "p2p")

    assert p2p.name == "p2p"
    assert p2p.source.parts[-2:] == ("p2p", "__main__.py")
    assert p2p.program(p2p.Params())[:3] == ["python3", "-P", "p2p.py"]


def test_a_folder_of_ones_own_is_refused_as_a_benchmark(
    snapshot: Snapshot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts would have one of its files only."""
    folder = tmp_path / "benchmarks" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from cluster.measure.benchmark import Benchmark\n"
        "class Mine(Benchmark):\n    def measure(self, rank, params): ...\n"
    )
    monkeypatch.setenv("CLUSTER_PLUGINS", str(tmp_path))
    benchmark = plugins.load(Benchmark, "mine")

    with snapshot.raises(SpecError):
        _ = benchmark.source
