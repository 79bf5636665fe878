"""Hardware by name and in words; each figure has a source."""

from pathlib import Path

import pytest

from cluster.analysis.limits import hardware
from cluster.analysis.limits.hardware import contradicting_gpu, names, of_devices, with_logged_gpus
from cluster.cli.commands.judge import find_hardware
from cluster.core.errors import SpecError
from cluster.core.model.results.limits import Figure, Hardware

GBIT = 1e9 / 8


@pytest.mark.parametrize("name", names())
def test_every_name_is_known_and_every_figure_has_its_source(name: str) -> None:
    spec = find_hardware(name)
    figures = [spec.nvlink, spec.bus, spec.memory, spec.nic, spec.flow, spec.bridge]

    assert any(figures)
    assert all(figure.rate > 0 and figure.source for figure in figures if figure)


def test_an_instance_type() -> None:
    p4d = find_hardware("p4d.24xlarge")

    assert (p4d.gpus, p4d.nics, p4d.rdma, p4d.mtu) == (8, 4, True, 9001)
    assert p4d.nic is not None
    assert p4d.nic.rate == 400 * GBIT
    assert "EC2 instance types guide" in p4d.nic.source
    assert p4d.flow is not None
    assert p4d.flow.rate == 10 * GBIT
    assert p4d.nvlink is not None
    assert p4d.nvlink.rate == 300e9


@pytest.mark.parametrize(
    ("model", "nvlink", "bus"),
    [
        ("NVIDIA A100-SXM4-80GB", 300e9, 31.5e9),
        ("NVIDIA A100 80GB PCIe", None, 31.5e9),
        ("NVIDIA H100 80GB HBM3", 450e9, 63e9),
        ("NVIDIA H100 PCIe", None, 63e9),
        ("Tesla V100-SXM2-16GB", 150e9, 15.75e9),
        ("Tesla V100-PCIE-16GB", None, 15.75e9),
        ("NVIDIA GH200 480GB", 450e9, 450e9),
        ("Tesla T4", None, 15.75e9),
        ("NVIDIA B200", 900e9, 63e9),
        ("NVIDIA A10", None, 31.5e9),
        ("NVIDIA A10G", None, 31.5e9),
        ("NVIDIA GeForce RTX 4090", None, 31.5e9),
        ("NVIDIA GeForce RTX 5090", None, 63e9),
        ("NVIDIA H100 NVL", None, 63e9),
        ("NVIDIA H20", 450e9, 63e9),
        ("NVIDIA H20-3e", 450e9, 63e9),
        ("NVIDIA H200 NVL", None, 63e9),
        ("NVIDIA A800 80GB PCIe", None, 31.5e9),
        ("NVIDIA H800 PCIe", None, 63e9),
        ("NVIDIA B300 SXM6 AC", 900e9, 121e9),
        ("NVIDIA GB200", 900e9, 450e9),
        ("AMD Instinct MI300X", 448e9, 63e9),
        ("AMD Instinct MI355X", 537.6e9, 63e9),
    ],
)
def test_gpus_as_tools_print_them(model: str, nvlink: float | None, bus: float) -> None:
    spec = of_devices([model, model])

    assert spec is not None
    assert (spec.nvlink and spec.nvlink.rate) == nvlink
    assert spec.bus is not None
    assert spec.bus.rate == pytest.approx(bus, rel=0.01)


def test_gpus_that_nobody_knows_and_several_kinds_are_no_hardware() -> None:
    assert of_devices(["Quadro FX 1800"]) == Hardware(name="Quadro FX 1800")
    assert of_devices(["Tesla T4", "Tesla K80"]) is None
    assert of_devices([]) is None
    assert of_devices(["Tesla T40"]) == Hardware(name="Tesla T40")  # a T4 is something else


def test_words() -> None:
    spec = find_hardware("nic=100gbit,nics=4,gpus=8,gpu=a100,rdma=yes,flow=25gbit,pcie=gen3x8")

    assert spec.nic == Figure(rate=400 * GBIT, source="4 x 100gbit: as --hardware said")
    assert (spec.gpus, spec.nics, spec.rdma) == (8, 4, True)
    assert spec.flow is not None
    assert spec.flow.rate == 25 * GBIT
    assert spec.bus is not None
    assert spec.bus.rate == pytest.approx(7.877e9, rel=1e-3)


def test_words_change_what_a_name_says() -> None:
    spec = find_hardware("p4d.24xlarge,flow=25gbit,mtu=1500")

    assert (spec.mtu, spec.gpus) == (1500, 8)
    assert spec.flow is not None
    assert spec.flow.rate == 25 * GBIT


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        'name = "rack 7"\ngpu = "h100"\ngpus = 4\nnic = "400gbit"\nnics = 2\nrdma = true\n'
        'source = "its data sheet"\n'
    )
    spec = find_hardware(str(file))

    assert (spec.name, spec.gpus, spec.gpu) == ("rack 7", 4, "H100 80GB HBM3")
    assert spec.nic == Figure(rate=800 * GBIT, source="2 x 400gbit: its data sheet")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("p99.huge", "no hardware 'p99.huge'"),
        ("", "is empty"),
        ("nic=fast", "'fast' is not a rate"),
        ("colour=red", "does not understand 'colour=red'"),
        ("p4d.24xlarge,fast", "does not understand 'fast'"),
        ("gpus=many", "gpus"),
        ("gpu=voodoo", "no GPU 'voodoo'"),
        ("pcie=gen9x1", "no slot of PCIe"),
        ("/nowhere/x.toml", "cannot be read"),
    ],
)
def test_what_it_does_not_understand_is_said_with_what_to_type(words: str, says: str) -> None:
    with pytest.raises(SpecError, match=says.replace("(", r"\(")) as error:
        find_hardware(words)

    assert str(error.value).count("\n") >= (says != "cannot be read")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("nic = [")

    with pytest.raises(SpecError, match=r"mine\.toml"):
        find_hardware(str(file))
    file.write_text("nics = 'two'")
    with pytest.raises(SpecError, match="nics"):
        find_hardware(str(file))


def test_a_log_completes_what_was_said_and_may_contradict_it() -> None:
    n1 = find_hardware("n1-standard-8")
    spec = with_logged_gpus(n1, ["Tesla K80"])

    assert spec is not None
    assert (spec.name, spec.gpu, spec.nic) == ("n1-standard-8", "Tesla K80", n1.nic)
    assert with_logged_gpus(None, ["Tesla K80"]) == hardware.of_devices(["Tesla K80"])
    assert with_logged_gpus(n1, ["what?"]) == n1
    assert contradicting_gpu(find_hardware("h100"), ["NVIDIA A100-SXM4-40GB"])
    assert not contradicting_gpu(find_hardware("a100"), ["NVIDIA A100-SXM4-40GB"])
    assert not contradicting_gpu(n1, ["NVIDIA A100-SXM4-40GB"])


@pytest.mark.parametrize(
    ("shape", "gpu", "gbit"),
    [
        ("BM.GPU.GB200.4", "NVIDIA GB200", 1600),
        ("BM.GPU.GB300.4", "NVIDIA GB300", 3200),
        ("BM.GPU.MI355X.8", "AMD Instinct MI355X", 3200),
        ("BM.GPU.L40S.4", "NVIDIA L40S", 800),
        ("BM.GPU.A10.4", "NVIDIA A10", 100),
    ],
)
def test_shapes_of_oracle_have_the_network_of_its_table(shape: str, gpu: str, gbit: int) -> None:
    spec = find_hardware(shape)

    assert (spec.gpu, spec.nic and spec.nic.rate) == (gpu, gbit * 1e9 / 8)
    assert spec.fabric == ("GB" in gpu)
    assert spec.rdma == ("A10" not in gpu)
