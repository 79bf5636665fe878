"""Mistakes that people make: each is answered by what happened, what it means, what to type."""

import sys
from pathlib import Path

import pytest

import cluster
from tests.cli.conftest import Typed
from tests.snapshots import Snapshot


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        ("bench p2p --hosts 1000", "1000 ranks on the ", "--hosts "),
        ("bench p2p --ab sizes=8,16", "no data point in common", "--sizes 8,16"),
        ("bench p2p --ab metrics=latency,bandwidth", "no data point in common", "--ab window"),
        ("bench p2p --pair 0,5", "with 2 of them, the last is 1", "--hosts 6"),
        ("bench p2p --pair 1,1", "does not send messages to itself", "different ranks: --pair 0,1"),
        ("bench p2p --pair 0", "2 values are needed, such as 0,1", "'0' has 1"),
        ("bench p2p --kernel rust", "--kernel=rust is not valid", "There are: auto, c, python"),
        (
            "bench p2p --hosts two",
            "'--hosts': a whole number is needed.",
            "cluster bench p2p --help",
        ),
        ("plot latest --kind pie", "'pie' is none of 'sweep', 'comparison'", "cluster plot --help"),
        ("run mine uname -a", "No such option '-a'", "cluster run mine -- uname -a"),
        ("bench p2p --run-local --junit no/j.xml", "there is no folder no", "mkdir -p no"),
        ("judge /", "/ is a folder, but not of a run", "cluster runs"),
        (f"judge {sys.executable}", "is a binary file, and a log is text", "Name a file"),
        ("import .", ". is a folder, and a log is a file.", "There are no files in it"),
        ("runs --runs nowhere", "nowhere does not exist", "Name another --runs"),
        ("show --runs nowhere", "nowhere does not exist", "cluster bench p2p --run-local"),
        ("run mine --workdir . -- ls", "--workdir has no effect without --mpi", "cluster put mine"),
        ("run mine --mpi --workdir nowhere -- ls", "nowhere is no folder here", "--workdir FOLDER"),
        ("run mine --mpi --workdir= -- ls", "'' is no folder here", "--workdir none"),
        ("connect nosuch", "no cluster or host with 'nosuch' in its name", "cluster ls"),
        ("connect", "There are no clusters.", "cluster ls"),
        ("gc -y", "No such command 'gc'", "cluster more gc"),
        ("compare a b --hosts 4", "--hosts has no effect without --again", "compare RUN --again"),
        ("compare a b c --again", "3 words were given with --again", "compare a again --again"),
        ("check --near --fail-on low", "--near finds groups of hosts", "Leave --near out"),
        ("ls --ssh-config", "of one cluster, and none was named", "cluster ls NAME --ssh-config"),
        ("bench p3p", "There is no benchmark 'p3p'", "Did you mean p2p?"),
        ("up x --provider gpc", "There is no provider 'gpc'", "Did you mean gcp?"),
        ("up x --provider slurm --group a=2", "Slurm are of one kind, so", "Leave --group out"),
        ("up x --provider kubernetes --group a=2", "a Job are of one kind, so", "Leave --group"),
        ("bencg", "No such command 'bencg'", "Did you mean 'bench'?"),
    ],
)
def test_a_mistake_is_answered(typed: Typed, line: str, message: str, remedy: str) -> None:
    status, _, error = typed(line)

    assert status == 2
    assert message in error
    assert remedy in error
    assert "Input should be" not in error, "words of a library"
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (".venv/bin/python", ".venv/bin/python is not copied to the hosts"),
        ("hello.py .venv/bin/python", ".venv/bin/python is not copied to the hosts"),
        ("hello.py linked/data", "linked/data is not copied to the hosts"),
        ("hello.py", "There is no cluster 'mine'"),
        ("hello.py link", "There is no cluster 'mine'"),
        ("../hello.py", "There is no cluster 'mine'"),
        (f"python3 -c {'x' * 300}", "There is no cluster 'mine'"),
    ],
)
def test_a_file_that_is_not_copied_is_no_program_of_the_hosts(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    folder = tmp_path / "here"
    (folder / ".venv" / "bin").mkdir(parents=True)
    for path in ("hello.py", "here/hello.py", "here/.venv/bin/python", "data/data"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    (folder / "linked").symlink_to(tmp_path / "data")
    (folder / "link").symlink_to(tmp_path / "hello.py")
    monkeypatch.chdir(folder)

    error = typed(f"run mine --mpi -- {words}")[2]

    assert message in error
    assert "copy of" not in error, "nothing is copied before there is a cluster"


@pytest.mark.usefixtures("tools")
def test_messages_that_no_memory_holds_start_nothing(typed: Typed, home: Path) -> None:
    status, _, error = typed("bench p2p --sizes 100GB")

    assert status == 2
    assert "600.0 GB" in error
    assert "--sizes" in error
    assert not list(home.parent.glob("runs/*/*"))


@pytest.mark.usefixtures("tools")
def test_a_cluster_is_not_replaced_by_one_of_another_size(snapshot: Snapshot, typed: Typed) -> None:
    cluster.launch("mine", hosts=2)
    status, _, error = typed("up mine --hosts 3")

    assert status == 2
    snapshot(error)


@pytest.mark.usefixtures("tools")
def test_a_running_cluster_is_used_as_it_is_and_not_replaced(
    snapshot: Snapshot, typed: Typed
) -> None:
    """Without a provider, the named cluster is meant; another provider is no reason to end it."""
    cluster.launch("mine", hosts=3)
    assert typed("bench p2p mine --metrics latency --sizes 8 --launches 1 --keep")[0] == 0
    assert cluster.load("mine").record.spec.hosts == 3
    with snapshot.raises(cluster.SpecError):
        cluster.launch("mine", hosts=2)
    status, _, error = typed("bench p2p mine --provider sim")

    assert status == 2
    snapshot(error)
    assert len(cluster.attach("mine").machines) == 3


def test_without_credentials_nobody_is_said_to_have_refused(
    snapshot: Snapshot, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    status, _, error = typed("up a --plan --provider aws --instance c5.large")

    assert status == 1
    snapshot(error)
