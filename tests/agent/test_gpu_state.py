"""What nvidia-smi printed on real machines, and what it says of the link and the clocks."""

from benchmarks.gpu.host import memory_rate, the_one, while_busy
from cluster.agent.hardware.gpus import STATE_FIELDS as FIELDS
from cluster.agent.hardware.gpus import gpu_states

# Idle, and with a model loaded: the link and the memory of the same GPU (a published benchmark of
# llama.cpp, git HEAD bf39f1c, started 2026-10-03; found by find_string, which names no file).
IDLE = """\
memory.used [MiB], memory.free [MiB], memory.total [MiB], pcie.link.gen.current, \
pcie.link.width.current, clocks.current.memory [MHz]
1761 MiB, 6135 MiB, 8151 MiB, 2, 8, 810 MHz
"""
LOADED = IDLE.replace(
    "1761 MiB, 6135 MiB, 8151 MiB, 2, 8, 810", "7451 MiB, 445 MiB, 8151 MiB, 3, 8, 7001"
)
# Two idle GPUs (published notes on a workstation; torch 2.5.1).
TWO = """\
index, name, memory.used, pstate, pcie.link.gen.current, pcie.link.width.current
0, NVIDIA RTX A6000, 1 MiB, P8, 1, 16
1, NVIDIA GeForce RTX 3090, 1 MiB, P8, 1, 16
"""
H100 = """\
index, name, pcie.link.gen.current, pcie.link.width.current
0, NVIDIA H100 80GB HBM3, 5, 16
1, NVIDIA H100 80GB HBM3, 5, 16
"""


def test_an_idle_gpu_has_another_link_and_another_clock_than_under_load() -> None:
    [idle], [busy] = gpu_states(IDLE), gpu_states(LOADED)

    assert (idle.slot, idle.memory_clock) == ("5.0 GT/s PCIe x8", 810e6)
    assert (busy.slot, busy.memory_clock) == ("8.0 GT/s PCIe x8", 7001e6)


def test_gpus_are_numbered_as_the_driver_does() -> None:
    gpus = gpu_states(TWO)

    assert [(gpu.index, gpu.model) for gpu in gpus] == [
        (0, "NVIDIA RTX A6000"),
        (1, "NVIDIA GeForce RTX 3090"),
    ]
    assert {gpu.slot for gpu in gpu_states(H100)} == {"32.0 GT/s PCIe x16"}


def test_what_the_driver_does_not_know_is_none() -> None:
    row = "0, GPU-5e0b, Tesla T4, [N/A], [N/A], [N/A], 300 MHz, 7 %, 1 MiB, [N/A], [N/A]"
    text = f"{', '.join(FIELDS)}\n{row}\n"
    [gpu] = gpu_states(text)

    assert (gpu.slot, gpu.memory_clock, gpu.clock, gpu.busy) == ("", None, 300e6, 0.07)
    assert (gpu.memory, gpu.power) == (None, None)
    assert gpu_states("NVIDIA-SMI has failed because it couldn't communicate, sorry\n1, 2\n") == ()
    assert gpu_states("No devices were found\n") == ()


def test_a_gpu_is_found_by_its_uuid_because_torch_may_number_others() -> None:
    text = "index, uuid, name\n0, GPU-aaaa, T4\n1, GPU-bbbb, T4\n"
    states = gpu_states(text)

    assert the_one(states, "bbbb", 0) == states[1]
    assert the_one(states, "cccc", 0) is None
    assert the_one(states, "", 0) == states[0]
    assert the_one((), "", 0) is None


def test_the_peak_of_a_memory_is_that_of_its_data_sheet() -> None:
    assert memory_rate(1215e6, 5120) == 1555.2e9  # A100 40 GB
    assert memory_rate(7001e6, 128) == 224.032e9  # RTX 3050


def test_the_driver_is_asked_while_copies_run() -> None:
    copies: list[int] = []
    states = gpu_states(TWO)

    def ask() -> tuple[object, ...]:
        assert copies
        return states

    assert while_busy(lambda: copies.append(1), ask) == states  # type: ignore[arg-type]
