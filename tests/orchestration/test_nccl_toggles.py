"""A/B tests of NCCL's peer-to-peer: the proof from its own log, and no verdict without it.

The logs are real: `nccl_toggles/README.md` says where they are from. The values beside them are
made up, because nobody gave us a GPU.
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cluster.analysis.topology.nccl_toggles import level, toggle_proof
from cluster.benchmarks.training.definitions import SAMPLES_RATE
from cluster.core.errors import SpecError
from cluster.core.model.logs import NcclLog, Topology
from cluster.core.model.results.measurements import Measurement
from cluster.core.model.spec import ClusterSpec
from cluster.logs import reader
from cluster.orchestration.ab_test import check_toggles, compare_conditions, trials
from cluster.orchestration.bench.plan import check_bench
from cluster.reports.words.comparison import note_words, proof_fault_words, with_words
from cluster.runs import store
from cluster.runs.comparison import RunComparison, proof_of
from cluster.runs.run import Run
from tests.plain_values import plain_record
from tests.snapshots import Snapshot

HERE = Path(__file__).with_name("nccl_toggles")
ON, OFF = HERE / "p2p_on.log", HERE / "p2p_off.log"
DGX1 = Path(__file__).parents[1] / "logs" / "topology.dgx1v.txt"


def log(path: Path) -> NcclLog:
    detail = reader.read([path.read_bytes()], "nccl_log").results[0].detail
    assert isinstance(detail, NcclLog)
    return detail


def dgx1() -> dict[str, Topology]:
    detail = reader.read([DGX1.read_bytes()], "topology").results[0].detail
    assert isinstance(detail, Topology)
    return {"dgx1": detail}


def why(variables: dict[str, str], path: Path, topologies: dict[str, Topology]) -> str:
    proof = toggle_proof(variables, log(path), topologies)
    assert proof is not None
    return proof_fault_words(proof.fault) if proof.fault else ""


def test_a_pair_of_gpus_without_peer_to_peer_is_proven_by_shared_memory() -> None:
    proof = toggle_proof({"NCCL_P2P_DISABLE": "1"}, log(OFF), {})

    assert proof is not None
    assert proof.fault is None
    assert [(p.name, p.via) for p in proof.pairs] == [("GPU1-GPU2", "SHM/direct/direct")]


def test_a_variable_of_0_needs_no_line_but_a_pair_that_uses_peer_to_peer(
    snapshot: Snapshot,
) -> None:
    assert why({"NCCL_P2P_DISABLE": "0"}, ON, {}) == ""
    snapshot(why({"NCCL_P2P_DISABLE": "0"}, OFF, {}))


def test_a_line_that_is_missing_is_no_proof_whatever_was_used(snapshot: Snapshot) -> None:
    snapshot(why({"NCCL_P2P_DISABLE": "1"}, ON, {}))
    snapshot(why({"NCCL_P2P_LEVEL": "NVL"}, ON, {}))


@pytest.mark.parametrize("level", ["0", "LOC"])
def test_the_founding_log_of_level_loc_is_a_proof(level: str) -> None:
    assert why({"NCCL_P2P_LEVEL": level}, HERE / "v100_loc.log", dgx1()) == ""


def test_the_founding_log_of_level_pix_proves_the_level_and_knows_the_path() -> None:
    proof = toggle_proof({"NCCL_P2P_LEVEL": "1"}, log(HERE / "v100_pix.log"), dgx1())

    assert proof is not None
    assert proof.fault is None
    assert [(p.name, p.path, p.via) for p in proof.pairs] == [("GPU0-GPU3", "NV2", "P2P/IPC")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("P2P_DISABLE set by environment to 1", "P2P_LEVEL set by environment to NVL"),
         "GPU1-GPU2 uses SHM/direct/direct, and how it is connected is not known"),
        (("SHM/direct/direct", "P2P/CUMEM"), "GPU1-GPU2 uses P2P/CUMEM all the same"),
        ((r"Channel.*", "Channel nothing"), "no two GPUs of one host exchanged data"),
    ],
)  # fmt: skip
def test_a_log_that_contradicts_the_variable_is_no_proof(
    tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    (tmp_path / "log").write_text(re.sub(*change, OFF.read_text()))
    variables = {"NCCL_P2P_LEVEL": "NVL"} if "NVL" in change[1] else {"NCCL_P2P_DISABLE": "1"}

    assert words in why(variables, tmp_path / "log", {})


def test_a_level_allows_the_paths_up_to_it_and_names_those_beyond(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    text = (HERE / "v100_pix.log").read_text().replace("to PIX", "to NVL")
    (tmp_path / "nvl").write_text(text)
    (tmp_path / "shm").write_text(text.replace("P2P/IPC", "SHM/direct"))
    (tmp_path / "far").write_text(text.replace("for GPU 3", "for GPU 5"))
    variables = {"NCCL_P2P_LEVEL": "NVL"}

    assert why(variables, tmp_path / "nvl", dgx1()) == ""
    snapshot(why(variables, tmp_path / "shm", dgx1()))
    snapshot(why(variables, tmp_path / "far", dgx1()))


def test_levels_are_those_of_nccl() -> None:
    assert level({"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"}) == "LOC"
    assert [level({"NCCL_P2P_LEVEL": text}) for text in ("1", "9", "NVL", "nvl")] == [
        *("PIX", "SYS", "NVL", "")
    ]


def launched(root: Path, number: int, variables: dict[str, str], log: Path | None) -> Run:
    folder = store.create(root, f"gpus{number}", "training", 1e9 + number)
    record = plain_record(
        "gpus",
        id=folder.name,
        benchmark="training",
        at=1e9 + number,
        variables=variables,
        definitions={SAMPLES_RATE.id: SAMPLES_RATE},
    )
    store.write(folder, record)
    if log is not None:
        (folder / "raw").mkdir(exist_ok=True)
        shutil.copy(log, folder / "raw" / "nccl.proxmox.7.log")
    rate = Measurement(
        metric=SAMPLES_RATE.metric,
        definition=SAMPLES_RATE.id,
        unit="samples/s",
        params={"data": "resident"},
        rank=0,
        host="proxmox",
        values=tuple(1000.0 + number + step / 10 for step in range(8)),
    )
    store.append(folder, [rate])
    return store.read(folder)


def compared(root: Path, logs: Sequence[Path | None]) -> RunComparison:
    pair = trials("env:NCCL_P2P_DISABLE=0,1", "training")
    launches = [
        (pair[side], launched(root, 2 * number + side, pair[side].variables, logs[side]))
        for number in range(5)
        for side in (0, 1)
    ]
    return compare_conditions(pair, launches)


def test_a_proven_toggle_that_changes_nothing_is_equivalent(tmp_path: Path) -> None:
    comparison = compared(tmp_path, (ON, OFF))

    assert [cell.verdict for cell in comparison.cells] == ["equivalent"]
    assert any(
        note_words(note)
        == "NCCL_P2P_DISABLE=1 in 5 of 5 launch(es) of env:NCCL_P2P_DISABLE=1: took effect, "
        "by NCCL's log: GPU1-GPU2 (?) via SHM/direct/direct."
        for note in comparison.notes
    )


@pytest.mark.parametrize(
    ("logs", "reason"),
    [
        ((ON, None), "NCCL_P2P_DISABLE=1 is not proven: there is no log of NCCL"),
        ((ON, ON), "NCCL_P2P_DISABLE=1 is not proven: NCCL's log does not say"),
        ((OFF, OFF), "NCCL_P2P_DISABLE=0 is not proven: NCCL read NCCL_P2P_DISABLE=1 elsewhere"),
    ],
)
def test_without_proof_there_is_no_verdict(
    tmp_path: Path, logs: Sequence[Path | None], reason: str
) -> None:
    comparison = compared(tmp_path, logs)

    assert [cell.verdict for cell in comparison.cells] == ["inconclusive"]
    assert reason in with_words(comparison).cells[0].why
    assert any(note.proof and note.proof.fault for note in comparison.notes)


def test_other_runs_have_nothing_to_prove(tmp_path: Path) -> None:
    assert proof_of(launched(tmp_path, 1, {"OMP_NUM_THREADS": "1"}, ON)) is None


@pytest.mark.parametrize(
    ("benchmark", "params", "text", "words"),
    [
        ("training", {}, "env:NCCL_P2P_LEVEL=NVL,LOC", "training would use gloo"),
        ("collectives", {}, "env:NCCL_P2P_DISABLE=0,1", "collectives would use mpi"),
        ("p2p", {}, "env:NCCL_P2P_LEVEL=NVL,LOC", "(?s)p2p would use mpi.*collectives --tran"),
        ("iperf", {}, "env:NCCL_P2P_DISABLE=0,1", "iperf would use tcp"),
        ("training", {"device": "cuda"}, "env:NCCL_P2P_LEVEL=NVL,NVLINK", "knows no NCCL_P2P_LEV"),
    ],
)
def test_a_toggle_that_could_do_nothing_is_refused(
    benchmark: str, params: dict[str, str], text: str, words: str
) -> None:
    spec = ClusterSpec(name="gpus", hosts=2)
    pair = trials(text, benchmark)
    with pytest.raises(SpecError, match=words):
        check_toggles([check_bench(spec, benchmark, params, 60) for _ in pair], pair)


def test_nccl_is_what_the_benchmarks_for_gpus_use() -> None:
    spec = ClusterSpec(name="gpus", hosts=2)
    for benchmark, params in (
        ("training", {"device": "cuda"}),
        ("collectives", {"transport": "nccl"}),
        ("collectives", {"transport": "nccl4py"}),
    ):
        pair = trials("env:NCCL_P2P_LEVEL=NVL,LOC", benchmark)
        check_toggles([check_bench(spec, benchmark, params, 60) for _ in pair], pair)
