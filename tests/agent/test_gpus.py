"""What a host tells of GPUs, by a driver's program that answers as a real one did."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec import structs

from cluster.agent.facts import host_facts
from cluster.agent.hardware import gpus
from cluster.agent.hardware.counters import watch
from cluster.agent.hardware.gpus import STATE_FIELDS as FIELDS
from cluster.cli.commands.top import usage_text
from cluster.core.model.hosts import GpuUsage
from cluster.runs import store
from tests.conftest import Install, answer, command

TOPOLOGY = Path(__file__).parents[1] / "logs" / "topology.nics.txt"
NVIDIA_SMI = f"""\
#!/bin/sh
case "$*" in
"--query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max --format=csv,noheader")
  printf 'Tesla T4, 580.82.07, 3, 16\\nTesla T4, 580.82.07, 3, 8\\n' ;;
"--query-gpu={",".join(FIELDS)} --format=csv")
  printf '%s\\n' '{", ".join(FIELDS)}' \\
    '0, GPU-a, Tesla T4, 3, 16, 5000 MHz, 1590 MHz, 98 %, 11520 MiB, 15360 MiB, 69.50 W' \\
    '1, GPU-b, Tesla T4, 1, 8, 405 MHz, 300 MHz, 0 %, 0 MiB, 15360 MiB, [N/A]' ;;
"topo -m") cat {TOPOLOGY} ;;
*) echo "ERROR: Option $* is not recognized." >&2; exit 6 ;;
esac
"""
OMPI_INFO = """\
#!/bin/sh
[ "$*" = "--parsable -l 9 --all" ] || exit 1
cat << END
mca:mpi:base:param:mpi_built_with_cuda_support:value:true
mca:mpi:base:param:mpi_built_with_cuda_support:source:default
mca:btl:openib:param:btl_openib_have_cuda_gdr:value:false
mca:btl:smcuda:param:btl_smcuda_use_cuda_ipc:value:1
mca:btl:tcp:param:btl_tcp_links:value:1
END
"""


def test_what_is_not_there_leaves_nothing(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr("cluster.agent.commands.find_program", lambda _: None)
    assert gpus.list_gpus() == ()
    assert gpus.topology() == ""
    assert gpus.mpi_flags() == {}
    assert gpus.modules(home / "no-such-file") == ()


def test_a_live_view_has_the_gpus_of_hosts_that_have_some(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as context:
        context.setattr("cluster.agent.commands.find_program", lambda _: None)
        (plain,) = watch(0.01, 1, ())
    install("nvidia-smi", NVIDIA_SMI)
    (usage,) = watch(0.01, 1, ())

    assert plain.gpus == ()
    assert usage.gpus == (
        GpuUsage(busy=0.98, memory=0.75, power=69.5),
        GpuUsage(busy=0.0, memory=0.0),
    )
    assert "49% 75% full 70 W" in usage_text([plain, usage], "")
    assert "GPUs" not in usage_text([plain], "")


def test_a_driver_that_fails_is_none(install: Install) -> None:
    words = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    install("nvidia-smi", f'#!/bin/sh\necho "{words}"\nexit 9\n')
    assert gpus.list_gpus() == ()


def test_what_is_there_is_told(install: Install, home: Path) -> None:
    install("nvidia-smi", NVIDIA_SMI)
    modules = home / "modules"
    modules.write_text("nvidia_peermem 16384 0 - Live 0x0\nnvidia 1 2 gdrdrv, Live 0x0\n")

    report = host_facts()
    assert report.gpus == ("Tesla T4", "Tesla T4")
    assert report.gpu_driver == "580.82.07"
    assert report.gpu_slots == ("8.0 GT/s PCIe x16", "8.0 GT/s PCIe x8")
    assert report.topology == TOPOLOGY.read_text()
    assert gpus.modules(modules) == ("nvidia_peermem",)


def test_open_mpi_is_asked_for_cuda(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ompi_info", OMPI_INFO)
    monkeypatch.setattr("sys.executable", "/nowhere/python3")  # its own MPI would come first
    assert gpus.mpi_flags() == {
        "mpi_built_with_cuda_support": "true",
        "btl_openib_have_cuda_gdr": "false",
        "btl_smcuda_use_cuda_ipc": "1",
    }


@pytest.mark.usefixtures("tools")
def test_a_run_keeps_it_and_shows_it(install: Install) -> None:
    install("nvidia-smi", NVIDIA_SMI)
    bench = answer("bench", "p2p", "--metrics=latency", "--sizes=8", "--iterations=9")
    host = host_facts().host

    folder = Path(bench["run"])
    [report] = json.loads((folder / "run.json").read_text())["environment"]
    assert report["gpus"] == ["Tesla T4", "Tesla T4"]
    assert report["topology"] == ""
    assert (folder / "raw" / f"topology.{host}.txt").read_text() == TOPOLOGY.read_text()
    output = command("show", "p2p").stdout
    assert "2 x Tesla T4" in output


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("model", "path", "variables", "bound"),
    [
        ("Tesla V100-SXM2-16GB", "NV2", {}, 50e9),  # two links of 25 GB/s each way
        ("Tesla T4", "SYS", {}, 8e9 / 8 * 128 / 130 * 8),  # the slower slot: 8 lanes at 8 GT/s
        ("Tesla T4", "SYS", {"CUDA_VISIBLE_DEVICES": "1,0"}, None),
        ("Nobody's GPU", "NV2", {}, None),
    ],
)
def test_what_joins_two_gpus_bounds_what_they_exchange(
    install: Install,
    model: str,
    path: str,
    variables: dict[str, str],
    bound: float | None,
) -> None:
    """The numbers are those of the processor's memory: only what they are held against counts."""
    install("nvidia-smi", NVIDIA_SMI)
    bench = answer("bench", "p2p", "--metrics=bandwidth", "--sizes=8", "--iterations=9")
    folder = Path(bench["run"])
    record = store.record(folder)
    [definition] = record.definitions.values()
    cuda = structs.replace(definition, buffer="cuda")
    values = folder / "measurements.jsonl"
    values.write_text(values.read_text().replace(definition.id, cuda.id))
    [report] = record.environment
    report = structs.replace(report, gpus=(model, model), variables={})
    copy = structs.replace(
        record, definitions={cuda.id: cuda}, environment=(report,), variables=variables
    )
    store.write(folder, copy)
    store.write_raw(
        folder,
        f"topology.{report.host}.txt",
        f"\tGPU0\tGPU1\nGPU0\t X \t{path}\nGPU1\t{path}\t X \n",
    )

    [summary] = store.read(folder).summary()
    assert summary.bound == (bound and pytest.approx(bound))
    assert (summary.limit.kind if summary.limit else None) == ("gpu_pair" if bound else None)


@pytest.mark.usefixtures("tools")
def test_a_host_that_lacked_something_is_asked_again(install: Install) -> None:
    """The first refusal was for the GPU; the next, of the same cluster, is for what comes next."""
    if host_facts().gpus:
        pytest.skip("there is a GPU here")
    words = ("bench", "p2p", "--sizes=8", "--iterations=9", "again")
    command(*words, "--metrics=latency")
    assert f"{host_facts().host} " in command(*words, "--buffer=cuda", status=2).stderr
    install("nvidia-smi", NVIDIA_SMI)
    lacks = "was built without CUDA" if find_spec("torch") else "Neither torch nor CuPy"
    assert lacks in command(*words, "--buffer=cuda", status=2).stderr
