"""A page about more runs than a browser on a phone opens."""

from pathlib import Path

import pytest

from cluster.cli.commands.report import read_all
from cluster.runs import store
from cluster.runs.import_.logs import import_logs


@pytest.mark.parametrize(("last", "count"), [(2, 2), (0, 3), (9, 3)])
def test_the_newest_runs_are_shown_with_a_way_to_the_rest(
    last: int, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.md"
    log.write_text("# OSU MPI Latency Test v5.8\n# Size          Latency (us)\n8     0.31\n")
    for _ in range(3):
        import_logs([str(log)], tmp_path / "runs")
    folders = [folder.name for folder in store.all_of(tmp_path / "runs", "imported")]
    runs = read_all(tmp_path / "runs", ["imported"], last)

    assert [run.folder.name for run in runs] == sorted(folders)[-count:]
    assert ("--last 3" in capsys.readouterr().err) == (count < len(folders))
