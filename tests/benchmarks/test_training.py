"""`training`: what it refuses without torch, and real training where torch is."""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from cluster.benchmarks.training import Training
from cluster.benchmarks.training.definitions import TrainingParams
from cluster.core.errors import SpecError
from tests.conftest import answer, command, run, runs_folder

SMALL = ("--rounds=2", "--steps=4", "--warm-up=4", "--samples=2048")


def has_torch() -> bool:
    result = run(sys.executable, "-c", "import torch.distributed, sklearn", status=None)
    return result.returncode == 0


def real_torch() -> None:
    if not has_torch():
        pytest.skip("torch is not here: pip install torch==2.13.0 scikit-learn")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"source": "ftp://x"}, "data are in memory, on disk, or in a store"),
        ({"shard": 100}, "a whole number of batches"),
        ({"steps": 5}, "fetch at once have 4 batches"),
        ({"workers": 2}, "fetch at once have 8 batches"),
        ({"samples": 256}, "1 shards for 2 ranks"),
        ({"rounds": 0}, "at least 1"),
        ({"warm_up": -1}, "must not be negative"),
        ({"target": 97.0}, "an accuracy is a share"),
    ],
)
def test_refuses_data_that_cannot_be_divided(params: Mapping[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=re.escape(words)):
        Training().check(TrainingParams(**params), 2)


def test_torch_for_a_processor_is_wanted_and_a_client_only_for_a_store() -> None:
    in_memory = Training().libraries(TrainingParams())

    assert [name.partition("==")[0] for name in in_memory] == ["torch", "scikit-learn"]
    assert in_memory[0].endswith("+cpu")
    assert "obstore" in Training().libraries(TrainingParams(source="s3://b/p"))


@pytest.mark.usefixtures("tools")
def test_an_index_without_torch_is_told_with_what_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if has_torch():
        pytest.skip("torch is here")
    monkeypatch.setenv("CLUSTER_CACHE", str(tmp_path / "cache"))  # an earlier run may have left it
    for name in ("PIP_NO_INDEX", "PIP_ISOLATED"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    output = command("bench", "training", "--run-local", "--hosts=1", status=2).stderr

    assert "install 'cluster-ruler[training]'" in output


@pytest.mark.usefixtures("tools")
def test_parts_of_a_step_add_up_to_it() -> None:
    """A run of two ranks takes seconds: torch alone needs five to load."""
    real_torch()
    command("bench", "training", "--run-local", "--hosts=2", *SMALL)
    parts: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(dict)
    [folder] = runs_folder().glob("training/*-training")
    for line in (folder / "measurements.jsonl").read_text().splitlines():
        row = json.loads(line)
        if "data" in row["params"] and row["unit"] == "s":
            parts[row["params"]["data"], row["rank"]][row["metric"]] = row["values"]

    assert set(parts) == {(data, rank) for data in ("resident", "memory") for rank in (0, 1)}
    for times in parts.values():
        steps = times.pop("step_time")
        sums = [sum(step) for step in zip(*times.values(), strict=True)]
        assert median(s / t for s, t in zip(sums, steps, strict=True)) == pytest.approx(1, abs=0.01)


@pytest.mark.usefixtures("tools")
def test_one_and_two_ranks_learn_the_same_and_to_97_percent() -> None:
    """Real training, of seconds: the same loss shows that gradients are exchanged rightly."""
    real_torch()
    medians = {}
    for ranks in ("1", "2"):
        words = ("--name", f"t{ranks}", "--hosts", ranks, *SMALL, "--target=0.97", "--seeds=1")
        command("bench", "training", "--run-local", *words)
        summaries = answer("show", f"t{ranks}")["summaries"]
        medians[ranks] = {summary["metric"]: summary["median"] for summary in summaries}

    assert medians["1"]["final_accuracy"] >= 97
    assert medians["1"]["final_loss"] == pytest.approx(medians["2"]["final_loss"], abs=1e-3)
