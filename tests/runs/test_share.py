"""A run in one file: nothing in it says whose it was, and no byte can be changed unseen."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import msgspec
import pytest

from cluster.core.errors import SpecError
from cluster.runs import share, shared_file, store
from tests.conftest import ROOT, answer, command, run

if TYPE_CHECKING:
    from pathlib import Path

ACCOUNTS = "arn:aws:iam::123456789012:role/x owner=210987654321 345678901234.dkr.ecr.eu.example\n"
PLANTED = (
    "10.20.30.40",
    "10.20.30.41",
    "fe80:1:2:3::4",
    "52:54:00:ab:cd:ef",
    "i-0123456789abcdef0",
    "123456789012",
    "210987654321",
    "345678901234",
    "gpu-node-7",
    "ip-10-20-30-40.eu-west-1.compute.internal",
    "alice@example.org",
    "/home/alice/secret-project",
    "AKIAIOSFODNN7EXAMPLE",
)
LOG = (
    "#  Rank  0 Group  0 Pid 4242 on gpu-node-7 device  0 [0x07] NVIDIA H100 80GB HBM3\n"
    "gpu-node-7:4242:4250 [0] NCCL INFO NET/IB : Using eth0:10.20.30.40<0>\n"
    "gpu-node-7 to ip-10-20-30-40.eu-west-1.compute.internal at 10.20.30.41\n"
    f"i-0123456789abcdef0 52:54:00:ab:cd:ef fe80:1:2:3::4 alice@example.org\n{ACCOUNTS}"
    "cd /home/alice/secret-project\nAWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\n"
    "bus 0000:53:00 at 12:30:45 netmask 255.255.255.0\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "runs" / "old" / "20261121T144700Z-p2p"
    shutil.copytree(ROOT / "tests" / "plain_run", made)
    record = made / "run.json"
    text = record.read_text().replace('"address": "127.0.0.1"', '"address": "10.20.30.40"', 1)
    record.write_text(text.replace('"local-1"', '"i-0123456789abcdef0"'))
    (made / "raw").mkdir()
    (made / "raw" / "nccl.log").write_text(LOG)
    return made


def test_nothing_planted_is_left_and_pairs_stay_apart(folder: Path) -> None:
    made, found = share.prepare(folder)
    text = shared_file.encode(made).decode()

    assert [name for name in PLANTED if name in text] == []
    pseudonyms = [each.pseudonym for each in found]
    assert len(set(pseudonyms)) == len(pseudonyms)
    log = next(part.text for part in made.parts if part.name == "raw/nccl.log")
    first, second = log.splitlines()[:2]
    assert first.split(" on ")[1].split()[0] == second.split(":")[0]
    assert "bus 0000:53:00 at 12:30:45 netmask 255.255.255.0" in log


def test_names_that_chance_plants_are_found(folder: Path) -> None:
    chance = random.Random(7)
    for _ in range(40):
        address = ".".join(str(chance.randint(11, 223)) for _ in range(4))
        instance = f"i-{chance.getrandbits(68):017x}"
        user = "".join(chance.choices("bcdfghjk", k=9))
        planted = f"x={address} [{instance}] {user}@{address}: /home/{user}/a.b\n"
        (folder / "raw" / "nccl.log").write_text(planted)
        text = shared_file.encode(share.prepare(folder)[0]).decode()
        assert not [name for name in (address, instance, user) if name in text], planted


def test_the_numbers_stay_what_they_were(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.share.json"
    path.write_bytes(shared_file.encode(share.prepare(folder)[0]))
    there = store.read(store.find(tmp_path, str(path)))
    here = store.read(folder)

    assert [m.values for m in there.measurements] == [m.values for m in here.measurements]
    assert there.summary() == here.summary()


def test_any_changed_byte_is_found(folder: Path) -> None:
    content = shared_file.encode(share.prepare(folder)[0])
    shared_file.decode(content, "a")
    chance = random.Random(5)
    for at in [*range(40), *chance.sample(range(40, len(content)), 60)]:
        changed = bytearray(content)
        changed[at] ^= 1
        with pytest.raises(SpecError):
            shared_file.decode(bytes(changed), "a")
    for end in (0, 1, len(content) // 2, len(content) - 1):
        with pytest.raises(SpecError):
            shared_file.decode(content[:end], "a")


def test_a_newer_version_and_a_file_outside_are_refused(folder: Path, tmp_path: Path) -> None:
    made, _ = share.prepare(folder)
    newer = msgspec.structs.replace(made, version=99)
    with pytest.raises(SpecError, match="newer"):
        shared_file.decode(shared_file.encode(newer), "a")
    evil = (msgspec.structs.replace(made.parts[0], name="../../evil"), *made.parts[1:])
    digest = shared_file.digest(shared_file.listing(evil, 1, simulated=False))
    path = tmp_path / "evil.json"
    path.write_bytes(shared_file.encode(msgspec.structs.replace(made, parts=evil, sha256=digest)))
    with pytest.raises(SpecError, match="outside"):
        shared_file.unpack(path)


def test_its_metadata_name_every_file(folder: Path) -> None:
    made, _ = share.prepare(folder)
    *files, crate = made.parts
    graph = msgspec.json.decode(crate.text)["@graph"]

    assert crate.name == "ro-crate-metadata.json"
    assert {(e["@id"], e["sha256"]) for e in graph if e["@type"] == "File"} == {
        (part.name, part.sha256) for part in files
    }


@pytest.mark.usefixtures("openssh")
def test_it_is_shared_signed_verified_and_judged_alone(folder: Path, tmp_path: Path) -> None:
    key, path = tmp_path / "key", tmp_path / "run.share.json"
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", str(key))
    signers = tmp_path / "signers"
    signers.write_text(f"me {key.with_suffix('.pub').read_text()}")
    shown = command("share", str(folder), "-o", str(path), "-y", "--sign", str(key)).stdout
    shutil.rmtree(folder)

    assert "10.20.30.40" in shown
    assert "198.18." in shown
    verified = command("verify", str(path), "--signers", str(signers), "--signer", "me").stdout
    assert " files, signed by me." in verified
    assert "signed by me." in command("verify", str(path), "--signers", str(signers)).stdout
    assert "by a key that was not checked" in command("verify", str(path)).stdout
    refused = {
        ("--signer", "me"): (2, "Name a file of allowed signers"),
        ("--signers", "nothing", "--signer", "me"): (2, "There is no file nothing"),
        ("--signers", str(signers), "--signer", "you"): (1, "NOT SIGNED by you"),
    }
    for words, (status, said) in refused.items():
        done = command("verify", str(path), *words, status=status)
        assert said in done.stdout + done.stderr
    assert answer("judge", str(path))["status"] == "done"
    path.write_bytes(path.read_bytes().replace(b"198.18.0", b"198.18.1", 1))
    assert "CHANGED" in command("verify", str(path), status=1).stdout


@pytest.mark.usefixtures("openssh")
def test_who_is_not_an_allowed_signer_is_found_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file signed by one key, and signers who have others; and a machine without ssh-keygen."""
    ours, theirs, path = tmp_path / "ours", tmp_path / "theirs", tmp_path / "run.share.json"
    for key in (ours, theirs):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
    signers = tmp_path / "signers"
    signers.write_text(f"me {theirs.with_suffix('.pub').read_text()}")
    command("share", str(folder), "-o", str(path), "-y", "--sign", str(ours))

    for words in (["--signer", "me"], []):
        found = command("verify", str(path), "--signers", str(signers), *words, status=1)
        assert "NOT SIGNED" in found.stdout

    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "python3"):
        (programs / name).symlink_to(shutil.which(name) or "")
    monkeypatch.setenv("PATH", str(programs))
    found = command("verify", str(path), status=None)
    assert "There is no ssh-keygen" in found.stderr
    assert "CHANGED" not in found.stdout


@pytest.mark.parametrize(
    "name", ["vm", "net", "fs", "kernel", "host", "latency", "p2p", "run", "host1", "size", "raw"]
)
def test_a_host_whose_name_is_also_a_word_is_replaced_and_the_run_is_read(
    name: str, folder: Path, tmp_path: Path
) -> None:
    record = msgspec.json.decode((folder / "run.json").read_bytes())
    record["machines"][0]["name"] = name
    record["environment"][0]["host"] = name
    record["environment"][0]["tuning"] = {
        "sysctls": {"vm.nr_hugepages": "4", "net.core.rmem_max": "9"}
    }
    record["notes"] = [f"vm.nr_hugepages is 4 on {name}"]
    (folder / "run.json").write_bytes(msgspec.json.encode(record))
    lines = (folder / "measurements.jsonl").read_text()
    (folder / "measurements.jsonl").write_text(lines.replace('"host":"vm"', f'"host":"{name}"'))
    (folder / "raw" / "nccl.log").write_text(f"{name}:42:43 [0] NCCL\nvm.nr_hugepages = 4\n")

    made, _ = share.prepare(folder)
    path = tmp_path / "run.share.json"
    path.write_bytes(shared_file.encode(made))
    there, here = store.read(store.find(tmp_path, str(path))), store.read(folder)
    known = there.record.machines[0].name

    assert known != name
    assert known.startswith("host")
    assert {m.host for m in there.measurements} == {known}
    assert there.record.environment[0].host == known
    assert there.record.environment[0].tuning == here.record.environment[0].tuning
    assert there.record.notes == (f"vm.nr_hugepages is 4 on {known}",)
    assert there.summary() == here.summary()
    log = next(part.text for part in made.parts if part.name.endswith("nccl.log"))
    assert log == f"{known}:42:43 [0] NCCL\nvm.nr_hugepages = 4\n"
