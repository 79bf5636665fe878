"""SQL over all runs: what the views hold, and what becomes of run folders that are damaged."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cluster.core.errors import SpecError
from cluster.runs import sql, sql_views, store
from tests.conftest import ROOT, answer, command, runs_folder
from tests.reports.test_page import saved

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("duckdb", reason="DuckDB is missing: pip install 'cluster-ruler[sql]'")


def test_a_question_over_runs_and_their_summaries() -> None:
    saved("slow", 2.0, condition="links=1", reason="")
    saved("fast", 1.0, 1e9 + 60, condition="links=4")
    found = answer(
        "sql",
        "select condition, started, size, n, median, ci_low from summaries join runs using (run) "
        "where metric = 'latency' and size = 8 order by median",
    )

    assert [row["condition"] for row in found] == ["links=4", "links=1"]
    assert found[0]["started"].startswith("2001-09-09T01:47:40")
    assert found[0]["n"] == 20
    assert found[1]["median"] == pytest.approx(2 * found[0]["median"])
    assert found[0]["ci_low"] < found[0]["median"]


def test_raw_values_and_json_are_at_hand() -> None:
    folder = saved("one", notes=("seen",))
    (values,) = answer(
        "sql",
        "select run, count(*) as n, min(value) as least from measurements, unnest(values) v(value)"
        " where metric = 'latency' group by run",
    )
    (record,) = answer(
        "sql", "select record -> '$.notes' as notes, params from runs, summaries limit 1"
    )

    assert values == {"run": f"one/{folder.name}", "n": 160, "least": pytest.approx(1.0008e-6)}
    assert record["notes"] == ["seen"]
    assert set(record["params"]) == {"size"}


def test_a_table_for_people_and_nothing() -> None:
    assert command("sql", "select * from runs").stdout == "Nothing was found.\n"
    assert command("sql", "select * from summaries, measurements").stdout == "Nothing was found.\n"
    saved("one")
    shown = command("sql", "select name, hosts, reason, null as gone from runs").stdout
    assert re.search(r"^ one +2", shown, re.MULTILINE)


def test_what_is_damaged_is_left_out_and_counted() -> None:
    saved("good")
    torn, broken, later, bare = (saved("bad", at=1e9 + n) for n in range(4))
    file = torn / store.MEASUREMENTS
    file.write_bytes(file.read_bytes()[:-9])
    (broken / store.RECORD).write_text('{"id": ')
    fields = json.loads((later / store.RECORD).read_text())
    (later / store.RECORD).write_text(json.dumps({**fields, "version": 2}))
    (bare / store.MEASUREMENTS).unlink()

    done = command(
        "sql", "select name, count(*) as n from runs group by all order by all", "--json"
    )
    assert json.loads(done.stdout) == [{"name": "bad", "n": 2}, {"name": "good", "n": 1}]
    assert f"{broken}/run.json cannot be read" in done.stderr
    assert "version 2 of the format" in done.stderr
    assert "2 damage(s)" in done.stderr

    done = command("sql", "select run, count(*) as n from measurements group by all", "--json")
    counts = {row["run"]: row["n"] for row in json.loads(done.stdout)}
    assert counts[f"bad/{torn.name}"] == 15, "all but the line that was cut off"
    assert counts[f"bad/{later.name}"] == 16, "its lines can be read, if its record cannot"
    assert f"bad/{bare.name}" not in counts
    assert f"1 line(s) of {file} are no measurements" in done.stderr

    done = command("sql", "select distinct run from summaries", "--json")
    assert len(json.loads(done.stdout)) == 2


def test_a_run_of_an_older_version_is_read() -> None:
    shutil.copytree(ROOT / "tests" / "old_run", runs_folder() / "old" / "20260101T000000Z-p2p")
    (old,) = answer("sql", "select benchmark, condition, dollars from runs")

    assert old["benchmark"] == "p2p"
    assert old["dollars"] is None


def test_a_folder_with_signs_of_patterns_in_its_name(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLUSTER_RUNS", str(home / "runs [1]*?"))
    saved("one")

    assert answer("sql", "select count(*) as n from measurements") == [{"n": 16}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("selec", "syntax error"),
        ("select * from nothing", "nothing does not exist"),
        ("select colour from runs", '"colour" not found'),
        ("select 1 / 'x'", "Could not convert"),
    ],
)
def test_a_wrong_query_is_said_with_what_there_is(query: str, message: str) -> None:
    saved("one")
    done = command("sql", query, status=2)

    assert message in done.stderr
    assert "There are: runs (run, name," in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "query",
    [
        "select * from read_text('{file}')",
        "select * from '{file}'",
        "select * from read_csv('{file}')",
        "select * from read_blob('{folder}/*')",
        "select * from glob('{folder}/*')",
        "copy (select 1) to '{folder}/written.csv'",
        "copy (select 1) to '{run}/run.json'",
        "export database '{folder}/written'",
        "attach '{folder}/written.db' as other",
        "install httpfs",
        "load '{file}'",
        "select * from read_text('{run}/run.json')",
        "set enable_external_access = true",
        "reset enable_external_access",
        "set lock_configuration = false",
        "set allowed_directories = ['/']",
        "select * from measurements; copy (select 1) to '{folder}/written.csv'",
    ],
)
def test_a_query_reads_the_runs_and_nothing_else(query: str, home: Path) -> None:
    run = saved("one")
    folder = home / "private"
    folder.mkdir()
    file = folder / "passwd.csv"
    file.write_text("root:x:0:0\n")
    before = (run / store.RECORD).read_bytes()

    with pytest.raises(SpecError, match="The query") as refused:
        sql.query(query.format(file=file, folder=folder, run=run), runs_folder())

    assert "root:x" not in str(refused.value)
    assert [*folder.iterdir()] == [file]
    assert (run / store.RECORD).read_bytes() == before


def test_a_refused_query_says_which_flag_opens_the_files(tmp_path: Path) -> None:
    saved("one")
    query = f"copy (select name from runs) to '{tmp_path}/names.csv'"  # noqa: S608 - our own words

    done = command("sql", query, status=2)
    assert "--external-access" in done.stderr
    assert not (tmp_path / "names.csv").exists()

    command("sql", "--external-access", query)
    assert (tmp_path / "names.csv").read_text().split() == ["name", "one"]
    (found,) = answer("sql", "--external-access", f"from '{tmp_path}/names.csv'")
    assert found == {"name": "one"}


@pytest.mark.parametrize("view", sql_views.VIEWS, ids=lambda view: view.name)
def test_every_column_is_described_and_needs_no_quotes(view: sql_views.SqlView) -> None:
    saved("one")
    described = [(column.name, column.type) for column in view.columns if column.text]
    names = ", ".join(name for name, _ in described)
    answer("sql", f"from {view.name} select {names}")
    columns = answer("sql", f"from (describe {view.name}) select column_name, column_type")

    assert described == [(row["column_name"], row["column_type"]) for row in columns]


def test_the_page_has_every_view_as_the_code_describes_it() -> None:
    """In the file itself, as a checkout and GitHub show it."""
    tables = "".join(
        f"\n## {view.name}\n\n{view.text}\n\n| column | type | what it is |\n| --- | --- | --- |\n"
        + "".join(f"| `{of.name}` | {of.type} | {of.text} |\n" for of in view.columns)
        for view in sql_views.VIEWS
    )

    assert (ROOT / "docs" / "reference" / "sql.md").read_text().endswith(tables)


def test_without_duckdb_the_message_says_what_to_install(home: Path) -> None:
    script = (
        "import sys; sys.modules['duckdb'] = None; sys.argv = ['cluster', 'sql', 'select 1'];"
        "from cluster.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "pip install 'cluster-ruler[sql]'" in done.stderr


def test_the_command_loads_no_database_unless_it_is_asked() -> None:
    line = "import sys, cluster, cluster.cli.app; sys.exit('duckdb' in sys.modules)"
    subprocess.run([sys.executable, "-c", line], check=True)
