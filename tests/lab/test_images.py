"""Ranks in a container; the engine is a strict fake, because none runs containers everywhere."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster
from cluster.core.errors import HostErrors
from cluster.core.model.results.records import Note
from tests.conftest import command, write_program

# It knows the words that we use and no others, and runs with nothing but what it was given.
ENGINE = """\
#!/usr/bin/python3
import os, sys
verb, *words = sys.argv[1:]
image, folder, known = "bench/worker:1", "/root/.cluster-boxed", {"HOME": "/root"}
if verb == "info":
    sys.exit(0)
if verb == "image" and words == ["inspect", image]:
    sys.exit(not os.path.exists("/pulled"))
if verb == "pull" and words == ["-q", image]:
    sys.exit(open("/pulled", "x").close())
if verb != "run":
    sys.exit(f"what is {verb}?")
while (word := words.pop(0)) != image:
    value = "" if word == "--rm" else words.pop(0)
    if word in ("--network", "--ipc", "--pid"):
        assert value == "host"
    elif word == "-v":
        assert value in ("/tmp:/tmp", f"{folder}:{folder}"), value
    elif word == "-w":
        os.chdir(value)
    elif word == "-e":
        name, _, text = value.partition("=")
        known[name] = text or os.environ[name]
    else:
        assert word == "--rm", word
known["PATH"] = f"{folder}/env/bin:/usr/bin:/bin"
open("/ran", "a").write(f"{words[0]} {known['PYTHONPATH']}\\n")
os.execvpe(words[0], [words[0], *words[1:]], known)
"""


@pytest.fixture
def boxed(own_labs: None) -> Iterator[cluster.Cluster]:
    """Yield a lab whose ranks are to run in an image."""
    with cluster.launch("boxed", provider="lab", options={"image": "bench/worker:1"}) as handle:
        yield handle


def put_engine(boxed: cluster.Cluster, home: Path, text: str = ENGINE) -> None:
    boxed.put(write_program(home / "podman", text), "/usr/local/bin/podman")


def test_ranks_run_in_a_container(boxed: cluster.Cluster, home: Path) -> None:
    """The image is fetched once, and what mpirun tells ranks reaches them."""
    put_engine(boxed, home)
    run = boxed.bench("p2p", metrics=["latency"], sizes="8", iterations=10)
    boxed.bench("p2p", metrics=["latency"], sizes="8", iterations=10)

    assert run.summary()[0].n == 10
    assert Note("container_image", ("bench/worker:1",)) in run.record.notes
    log = boxed.run(["cat", "/ran"])["1.mpi.boxed"].stdout.splitlines()
    look, *runs = [f"{word} /root/.cluster-boxed/env/image" for word in ("python3", "env", "env")]
    assert log == [look, *runs]


def test_ranks_in_a_container_are_profiled(boxed: cluster.Cluster, home: Path) -> None:
    """The profiler is compiled by the image, for the MPI in it; engines themselves are let be."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler: apt-get install gcc")
    put_engine(boxed, home)
    how = {"metrics": ["latency"], "sizes": "8", "iterations": 10, "warm_up": 0}
    run = boxed.bench("p2p", profile="own", **how)  # type: ignore[arg-type]
    log = boxed.run(["cat", "/ran"])["1.mpi.boxed"].stdout.splitlines()

    assert len(list((run.folder / "raw").glob("mpi_profile.*"))) == 2
    assert [line.split()[0] for line in log] == ["python3", "python3", "env"]  # look, compile, run
    assert run.record.variables["LD_PRELOAD"].startswith("/root/.cluster-boxed/kernels/profile-")
    assert [process.rank for process in run.evidence(()).processes] == [0, 1]


def test_a_profiler_that_the_image_does_not_see_is_refused(
    boxed: cluster.Cluster, home: Path
) -> None:
    """The linker would only warn, and no profile be written."""
    hidden = 'if words[0] == "python3" and words[-1] == "/opt/own.so":\n    sys.exit(1)\nos.execvpe'
    put_engine(boxed, home, ENGINE.replace("os.execvpe", hidden))
    boxed.run(["sh", "-c", "mkdir -p /opt && touch /opt/own.so"])
    with pytest.raises(HostErrors) as failed:
        boxed.bench("p2p", profile="/opt/own.so")

    message = str(failed.value.exceptions[0])
    assert "/opt/own.so" in message
    assert "0.mpi.boxed" in message
    assert 'cluster.attach("NAME").put("libmpitrace.so", "/tmp/libmpitrace.so")' in message


def test_an_image_without_a_compiler_is_said_to_lack_one(
    boxed: cluster.Cluster, home: Path
) -> None:
    patch = 'known["OMPI_CC"] = "/nowhere/cc"\nos.execvpe'
    put_engine(boxed, home, ENGINE.replace("os.execvpe", patch))
    with pytest.raises(HostErrors) as failed:
        boxed.bench("p2p", profile="own")

    message = str(failed.value.exceptions[0])
    assert "bench/worker:1" in message


def test_an_image_without_what_ranks_need_is_refused(boxed: cluster.Cluster, home: Path) -> None:
    put_engine(boxed, home, ENGINE.replace("{folder}/env/bin:", ""))
    with pytest.raises(HostErrors) as failed:
        boxed.bench("p2p")

    assert "bench/worker:1" in str(failed.value.exceptions[0])


def test_an_engine_that_does_not_work_is_named(boxed: cluster.Cluster) -> None:
    boxed.run(["sh", "-c", "ln -s /bin/false /usr/local/bin/podman; rm -f /usr/bin/docker"])
    with pytest.raises(HostErrors) as failed:
        boxed.bench("p2p")

    message = str(failed.value.exceptions[0])
    assert ("podman" in message, "docker" in message) == (True, False)


def test_no_engine_is_said_with_what_to_type(boxed: cluster.Cluster) -> None:
    script = "rm -f /usr/bin/podman /usr/bin/docker /usr/local/bin/docker"
    boxed.run(["sh", "-c", script])
    words = ("bench", "p2p", "--provider=lab", "boxed", "--option=image=bench/worker:1")
    result = command(*words, "--json", status=1)

    assert "0.mpi.boxed" in result.stderr
    assert "sudo apt-get install podman" in result.stderr
