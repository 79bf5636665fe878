"""A run in one file: nothing in it says whose it was, and its figures are those of the run."""

import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from cluster.core.errors import ClusterError
from cluster.core.model.hosts import RankProcess
from cluster.core.model.logs import NcclLog, Parsed, PeerAccess, Profile, Symptoms, Topology
from cluster.core.model.network.fleet import FleetVerdict
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.results.records import Record
from cluster.runs import share, shared_file, store
from cluster.runs.import_.logs import import_logs
from cluster.runs.run import Run
from cluster.runs.share import TEXTS
from tests.conftest import ROOT, answer, command, run
from tests.logs.samples import LOGS
from tests.snapshots import Snapshot

PLANTED = (
    "qvhost7.corp.example",
    "gpu-node-7",
    "10.20.30.40",
    "fe80:1:2:3::4",
    "52:54:00:ab:cd:ef",
    "i-0123456789abcdef0",
    "123456789012",
    "ip-10-20-30-40.eu-west-1.compute.internal",
    "qvuser@site.org",
    "/home/qvuser/secret-project",
    "AKIAIOSFODNN7EXAMPLE",
    "arn:aws:iam::123456789012:role/qvrole",
    "qvhôte",
    'qv"quoted\\name\n',
)


def fill(kind: inspect.Type, text: str) -> Any:
    """Return a value of a type as JSON has it, with a text in every field that takes one."""
    plain = {inspect.StrType: text, inspect.BoolType: True, inspect.IntType: 3}
    plain |= {inspect.FloatType: 100.0, inspect.RawType: {"sizes": [8], text: [text]}}
    if isinstance(kind, inspect.UnionType):
        kind = next((t for t in kind.types if isinstance(t, inspect.StrType)), kind.types[-1])
    if isinstance(kind, inspect.StructType):
        tag = {str(kind.tag_field): kind.tag} if kind.tag_field else {}
        return {field.encode_name: fill(field.type, text) for field in kind.fields} | tag
    if isinstance(kind, inspect.LiteralType):
        return kind.values[-1]
    if isinstance(kind, inspect.VarTupleType | inspect.CollectionType):
        return [fill(kind.item_type, text)]
    if isinstance(kind, inspect.TupleType):
        return [fill(item, text) for item in kind.item_types]
    if isinstance(kind, inspect.DictType):
        return {fill(kind.key_type, text): fill(kind.value_type, text)}
    return plain.get(type(kind))


def plant(folder: Path, text: str) -> Path:
    """Write a run with a text in each of its fields, in its logs, and in the names of these."""

    def encode(kind: type, **fields: object) -> bytes:
        return msgspec.json.encode({**fill(inspect.type_info(kind), text), **fields})

    raw = folder / "raw"
    raw.mkdir(parents=True)
    spec = fill(inspect.type_info(Record), text)["spec"]
    spec |= {"name": "qvmine", "groups": {"qvgroup": spec["groups"][text]}}
    (folder / "run.json").write_bytes(encode(Record, version=1, spec=spec))
    (folder / "measurements.jsonl").write_bytes(encode(Measurement) + b"\n")
    details = (Topology, PeerAccess, NcclLog, Profile, Symptoms)
    results = (encode(Parsed, detail=msgspec.json.decode(encode(kind))) for kind in details)
    (folder / "results.jsonl").write_bytes(b"".join(line + b"\n" for line in results))
    (folder / "verdict.json").write_bytes(encode(FleetVerdict))
    (raw / "process.3.json").write_bytes(encode(RankProcess))
    name = text.replace("/", "_").strip()
    matrix = (LOGS / "topology.dgx1v.txt").read_text()
    (raw / f"topology.{name}.txt").write_text(matrix)
    log = (LOGS / "nccl_log.two_nodes.txt").read_text()
    (raw / "nccl.1.log").write_text(log.replace("node-a", name))
    (raw / f"{name}.log").write_text(f"{text}\n")
    (raw / "stdout").write_text(f"on {text}\n")
    return folder


def at_random(chance: random.Random) -> str:
    address = ".".join(str(chance.randint(11, 223)) for _ in range(4))
    word = "".join(chance.choices("bcdfghjkqvxz", k=9))
    forms = (address, f"{word}{chance.randint(1, 99)}", f"/{word}/{address}", f"{word}@{address}")
    return chance.choice(forms)


def is_in(text: str, content: bytes) -> bool:
    """Tell whether a text is in a shared file: as it is, or as JSON in JSON writes it."""
    body = content.decode().lower()
    forms = {text, text.strip()}
    for _ in range(3):
        forms |= {msgspec.json.encode(form).decode()[1:-1] for form in forms}
    return any(form.lower() in body for form in forms) or "qv" in body.replace("qvmine", "qv")


CHANCE = random.Random(7)


@pytest.mark.parametrize("text", [*PLANTED, *(at_random(CHANCE) for _ in range(20))])
@pytest.mark.parametrize("around", ["", "x is {} here"], ids=["alone", "in words"])
def test_no_byte_of_a_name_is_shared_wherever_it_was(
    text: str, around: str, tmp_path: Path
) -> None:
    """In every field of every value that a run may hold, also of those that come later."""
    folder = plant(tmp_path / "old", around.format(text) if around else text)
    shared_run = share.prepare(folder).run
    content = shared_file.encode(shared_run)

    assert not is_in(text, content)
    path = tmp_path / "a.json"
    path.write_bytes(content)
    copy, original = store.read(store.find(tmp_path, str(path))), store.read(folder)
    assert [m.values for m in copy.measurements] == [m.values for m in original.measurements]
    assert len(copy.results) == len(original.results)
    assert copy.fleet is not None
    assert {m.definition for m in copy.measurements} <= set(copy.record.definitions)


def test_every_rule_is_about_a_field_that_there_is() -> None:
    for kind, rules in TEXTS.items():
        assert set(rules) <= set(kind.__struct_fields__), kind


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "runs" / "old" / "20261121T144700Z-p2p"
    shutil.copytree(ROOT / "tests" / "plain_run", path)
    record = path / "run.json"
    text = record.read_text().replace('"address": "127.0.0.1"', '"address": "10.20.30.40"', 1)
    record.write_text(text.replace('"local-1"', '"i-0123456789abcdef0"'))
    (path / "raw").mkdir()
    (path / "raw" / "job.log").write_text("on gpu-node-7\npassword: hunter2secret\n")
    return path


def share_run(folder: Path, tmp_path: Path) -> Run:
    path = tmp_path / "run.share.json"
    path.write_bytes(shared_file.encode(share.prepare(folder).run))
    return store.read(store.find(tmp_path, str(path)))


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.txt")), ids=lambda path: path.stem)
def test_a_shared_log_has_the_same_figures_and_verdicts(log: Path, tmp_path: Path) -> None:
    try:
        folder = import_logs([str(log)], tmp_path / "runs").folder
    except ClusterError:
        return  # pairs of logs, which are read by other commands
    original, copy = store.read(folder), share_run(folder, tmp_path)

    assert [m.values for m in copy.measurements] == [m.values for m in original.measurements]
    assert copy.judge().word == original.judge().word
    figures = [
        sorted((s.n, s.median, s.bound or 0.0, s.unit) for s in run_.summary())
        for run_ in (original, copy)
    ]
    assert figures[0] == figures[1]
    words = [sorted(v.word for v in run_.judge().verdicts) for run_ in (original, copy)]
    assert words[0] == words[1]


def test_the_facts_that_explain_a_figure_stay(folder: Path, tmp_path: Path) -> None:
    original, copy = store.read(folder), share_run(folder, tmp_path)
    expected, facts = original.record.environment[0], copy.record.environment[0]

    for name in ("system", "kernel", "cpu", "mpi", "libraries", "cores", "memory"):
        assert getattr(facts, name) == getattr(expected, name)
    assert copy.record.params == original.record.params or msgspec.json.decode(
        copy.record.params
    ) == msgspec.json.decode(original.record.params)
    assert copy.record.definitions == original.record.definitions
    assert copy.summary() == original.summary()
    assert copy.judge().answer == original.judge().answer


def test_addresses_of_a_network_stay_in_one(folder: Path, tmp_path: Path) -> None:
    record = msgspec.json.decode((folder / "run.json").read_bytes())
    inputs = (("10.9.1.3", 24), ("10.9.1.9", 24), ("10.9.2.3", 24), ("10.1.0.1", 24))
    [facts] = record["environment"]
    record["environment"] = [
        {**facts, "interfaces": [{"name": "eth0", "address": a, "prefix": p, "mtu": 1500}]}
        for a, p in inputs
    ]
    (folder / "run.json").write_bytes(msgspec.json.encode(record))
    environment = share_run(folder, tmp_path).record.environment
    networks = [facts.interfaces[0].network for facts in environment]
    addresses = {facts.interfaces[0].address for facts in environment}

    assert networks[0] == networks[1]
    assert len(set(networks)) == 3
    assert len(addresses) == 4
    assert addresses.isdisjoint(a for a, _ in inputs)


@pytest.mark.parametrize(
    "name", ["vm", "net", "kernel", "host", "latency", "p2p", "run", "host1", "size", "raw"]
)
def test_a_host_whose_name_is_also_a_word_is_replaced_and_the_run_is_read(
    name: str, folder: Path, tmp_path: Path
) -> None:
    record = msgspec.json.decode((folder / "run.json").read_bytes())
    record["machines"][0]["name"] = name
    record["environment"][0]["host"] = name
    (folder / "run.json").write_bytes(msgspec.json.encode(record))
    lines = (folder / "measurements.jsonl").read_text()
    (folder / "measurements.jsonl").write_text(lines.replace('"host":"vm"', f'"host":"{name}"'))
    copy, original = share_run(folder, tmp_path), store.read(folder)
    host = copy.record.machines[0].name

    assert host != name
    assert host.startswith("host")
    assert {m.host for m in copy.measurements} == {host}
    assert copy.record.environment[0].host == host
    assert [s.median for s in copy.summary()] == [s.median for s in original.summary()]


def test_logs_are_added_without_secrets_after_a_question(folder: Path, tmp_path: Path) -> None:
    """Names stay in them, which is said first."""
    path = tmp_path / "run.share.json"
    bare = command("more", "share", str(folder), "-o", str(path)).stdout
    assert "10.20.30.40" in bare
    assert b"gpu-node-7" not in path.read_bytes()
    path.unlink()

    command("more", "share", str(folder), "-o", str(path), "--with-logs", status=1, text="n\n")
    assert not path.exists()
    command("more", "share", str(folder), "-o", str(path), "--with-logs", "-y")
    content = path.read_bytes()
    assert b"gpu-node-7" in content
    assert b"hunter2secret" not in content
    assert b"10.20.30.40" not in content


@pytest.mark.parametrize(
    "text",
    [
        '{"argv": ["run", "--token ghp_0123456789abcdefghij0123456789abcdef"], "n": 1}\n',
        '{"password": "hunter2secret", "n": [1, 2]}\n{"a": "Authorization: Bearer abcdefgh12"}\n',
        '{\n  "env": {"API_TOKEN": "hunter2secret"},\n  "n": 3\n}\n',
    ],
)
def test_json_without_its_secrets_stays_json(text: str, folder: Path) -> None:
    (folder / "raw" / "a.jsonl").write_text(text)
    (folder / "raw" / "a.log").write_text(text)
    shared_run = share.prepare(folder, with_logs=True).run
    [content] = [part.text for part in shared_run.parts if part.name == "raw/a.jsonl"]

    for line in [content] if content.startswith("{\n") else content.splitlines():
        assert msgspec.json.decode(line)
    for secret in ("hunter2secret", "ghp_0123", "abcdefgh12"):
        assert secret not in content


def test_a_log_that_is_no_text_is_refused_and_the_run_alone_is_shared(
    snapshot: Snapshot, folder: Path
) -> None:
    (folder / "raw" / "a.bin").write_bytes(b"\xff\xfe\x00")
    with snapshot.raises(ClusterError):
        share.prepare(folder, with_logs=True)

    assert share.prepare(folder).run.parts


def test_its_metadata_name_every_file(folder: Path) -> None:
    *files, crate = share.prepare(folder).run.parts
    graph = msgspec.json.decode(crate.text)["@graph"]

    assert crate.name == "ro-crate-metadata.json"
    assert {(e["@id"], e["sha256"]) for e in graph if e["@type"] == "File"} == {
        (part.name, shared_file.digest(part.text.encode())) for part in files
    }


def test_it_is_shared_verified_imported_and_judged_alone(
    snapshot: Snapshot, folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.share.json"
    command("more", "share", str(folder), "-o", str(path))
    shutil.rmtree(folder)

    snapshot(command("more", "verify", str(path)).stdout)
    assert answer("judge", str(path))["status"] == "done"
    reply = answer("import", str(path), "--name", "theirs")
    assert reply["status"] == "done"
    assert len(reply["summaries"]) == 2
    again = answer("import", str(path), "--name", "theirs")
    assert again["run"] == reply["run"]
    path.write_bytes(path.read_bytes().replace(b"host1", b"host9", 1))
    assert "CHANGED" in command("more", "verify", str(path), status=1).stdout


@pytest.mark.usefixtures("openssh")
def test_the_signature_of_the_how_to_holds_for_these_bytes_only(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands of docs/how-to/share.md, as they stand."""
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "how-to" / "share.md").read_text()
    lines = [line[2:] for line in page.splitlines() if line.startswith("$ ssh-keygen")]
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "id_ed25519")
    (tmp_path / "allowed_signers").write_text(
        f"alice@example.org {(tmp_path / 'id_ed25519.pub').read_text()}"
    )
    command("more", "share", str(folder), "-o", "run.share.json")
    sign, verify = (line.replace("~/.ssh/", "") for line in lines)
    run("sh", "-ec", sign)

    assert 'Good "cluster-share" signature for alice@example.org' in run("sh", "-ec", verify).stdout
    path = tmp_path / "run.share.json"
    path.write_bytes(path.read_bytes() + b" ")
    run("sh", "-ec", verify, status=255)
