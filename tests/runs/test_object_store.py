"""Runs in an object store: an emulated S3, spoken to over HTTP."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cluster.runs import store
from cluster.runs.object_store import _is_run
from cluster.runs.run import RAW
from tests.conftest import COMMAND, answer, command, run
from tests.reports.test_page import saved
from tests.snapshots import Snapshot

pytest.importorskip("obstore", reason="obstore is missing: pip install 'cluster-ruler[stores]'")
PLACE = "s3://experiments/ruler"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    moto = pytest.importorskip("moto.server", reason="flask is missing, which moto serves with")
    moto_server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto_server.start()
    yield "http://{}:{}".format(*moto_server.get_host_and_port())
    moto_server.stop()


@pytest.fixture
def bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make an empty bucket, and let the command find it as a user's environment would."""
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    experiments = boto3.resource("s3").Bucket("experiments")
    experiments.create()
    experiments.objects.delete()
    return experiments


def test_a_run_goes_to_the_store_and_is_listed_from_there(bucket: Any, home: Path) -> None:
    first, second = saved("one", description="as it is"), saved("two", when=1e9 + 60)
    (first / RAW).mkdir()
    (first / RAW / "stdout").write_text("Process 1 transferred 100 MB\n")
    output = command("more", "push", PLACE, "one").stdout
    command("more", "push", f"{PLACE}/", "two")
    keys = {item.key: item.get()["Body"].read() for item in bucket.objects.all()}

    assert output == f"Kept: {PLACE}/one/{first.name}\n"
    assert keys[f"ruler/one/{first.name}/run.json"] == (first / store.RECORD).read_bytes()
    assert keys[f"ruler/one/{first.name}/raw/stdout"] == b"Process 1 transferred 100 MB\n"
    assert f"ruler/two/{second.name}/measurements.jsonl" in keys
    rows = answer("runs", "--from", PLACE)
    assert [row["run"] for row in rows] == [
        f"{PLACE}/one/{first.name}",
        f"{PLACE}/two/{second.name}",
    ]
    assert rows[0]["description"] == "as it is"
    assert f"one/{first.name}" in command("runs", "--from", PLACE).stdout
    table = command("runs", "--from", PLACE, "--markdown").stdout
    assert f"{PLACE}/one/{first.name} |" in table
    assert "latency, 8 B: 1.010 µs" in table
    assert not [path for path in home.iterdir() if path.name != "runs"]


def test_pushing_again_changes_nothing_and_never_replaces_another_run(
    snapshot: Snapshot, bucket: Any
) -> None:
    folder = saved("one")
    command("more", "push", PLACE, "one")
    times = {item.key: item.last_modified for item in bucket.objects.all()}
    command("more", "push", PLACE, "one")
    assert {item.key: item.last_modified for item in bucket.objects.all()} == times

    fields = json.loads((folder / store.RECORD).read_text())
    (folder / store.RECORD).write_text(json.dumps({**fields, "reason": "another"}))
    snapshot(command("more", "push", PLACE, "one", status=2).stderr)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("raw/stdout", "first\nexport AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMIK7MDENG\n"),
        ("raw/id_ed25519", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n"),
        ("raw/deep/er/notes.txt", "token ghp_0123456789abcdefghij0123456789abcdef\n"),
    ],
)
def test_a_secret_is_refused_before_anything_is_sent(
    snapshot: Snapshot, bucket: Any, file: str, text: str
) -> None:
    folder = saved("one")
    (folder / file).parent.mkdir(parents=True)
    (folder / file).write_text(text)
    refused = command("more", "push", PLACE, "one", status=2).stderr

    snapshot(refused)
    assert not list(bucket.objects.all())


def test_a_secret_in_the_record_is_refused(snapshot: Snapshot, bucket: Any) -> None:
    saved("one", notes=("password: hunter2hunter2",))

    snapshot(command("more", "push", PLACE, "one", status=2).stderr)
    assert not list(bucket.objects.all())


def test_a_run_that_is_not_over_is_refused(bucket: Any) -> None:
    saved("one", status="running")

    command("more", "push", PLACE, "one", status=2)


def test_what_is_damaged_in_the_store_is_left_out(bucket: Any) -> None:
    saved("one")
    command("more", "push", PLACE, "one")
    bucket.put_object(Key="ruler/two/20260101T000000Z-p2p/run.json", Body=b"{")
    bucket.put_object(Key="ruler/readme.txt", Body=b"not a run")
    result = command("runs", "--from", PLACE, "--json")

    assert [row["name"] for row in json.loads(result.stdout)] == ["one"]
    assert result.stderr.count("Left out") == 1
    assert answer("runs", "--from", "s3://experiments/nothing-here") == []


@pytest.mark.parametrize("name", ["..", ".", ""])
def test_names_from_outside_lead_nowhere_else(name: str) -> None:
    assert _is_run("one/20260101T000000Z-p2p/run.json")
    assert not _is_run(f"{name}/20260101T000000Z-p2p/run.json")
    assert not _is_run(f"one/{name}/run.json")


@pytest.mark.parametrize(
    ("url", "status", "message"),
    [
        ("nowhere", 2, "is no place in a store"),
        ("s3://", 2, "is no place in a store"),
        ("s3://key:secret@bucket/prefix", 2, "A URL with a password"),
        ("s3://no-such-bucket/prefix", 1, "NoSuchBucket"),
        ("gopher://bucket/prefix", 1, "gopher"),
    ],
)
def test_a_store_that_cannot_be(bucket: Any, url: str, status: int, message: str) -> None:
    saved("one")
    for words in (("more", "push", url, "one"), ("runs", "--from", url)):
        refused = command(*words, status=status).stderr
        assert message in refused
        assert "Traceback" not in refused
        assert "secret@" not in refused


def test_without_credentials_it_says_so(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    saved("one")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    assert "credentials" in command("more", "push", PLACE, "one", status=1).stderr


def test_any_other_place_that_fsspec_reaches(home: Path) -> None:
    folder = saved("one")
    command("more", "push", f"file://{home}/kept", "one")

    assert (home / "kept" / "one" / folder.name / store.RECORD).is_file()
    assert len(answer("runs", "--from", f"file://{home}/kept")) == 1


def test_many_at_once_all_end_as_they_should(bucket: Any) -> None:
    """A library whose threads outlive its answer has Python aborted on a busy machine."""
    saved("one")
    words = (COMMAND, "more", "push", PLACE, "one")

    with ThreadPoolExecutor(6) as pool:
        outputs = list(pool.map(lambda _: run(*words).stdout, range(24)))
    assert len(set(outputs)) == 1


@pytest.mark.parametrize(("library", "url"), [("obstore", PLACE), ("fsspec", "file:///tmp/kept")])
def test_without_the_libraries_the_message_says_what_to_install(
    snapshot: Snapshot, library: str, url: str
) -> None:
    saved("one")
    script = (
        f"import sys; sys.modules['{library}'] = None;"
        f"sys.argv = ['cluster', 'more', 'push', '{url}', 'one'];"
        "from cluster.cli import main; main()"
    )
    result = run(sys.executable, "-c", script, status=2)

    snapshot(result.stderr)


def test_nothing_is_loaded_for_stores_unless_there_is_one() -> None:
    expression = "bool({'fsspec', 'obstore'} & {*sys.modules})"
    line = f"import sys, cluster, cluster.cli.command_line; sys.exit({expression})"
    subprocess.run([sys.executable, "-c", line], check=True)
