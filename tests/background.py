"""A command that is left to run, and what is found of its run afterwards."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.conftest import COMMAND, PATIENCE, processes, runs_folder, until


def only_run() -> Path:
    [folder] = runs_folder().glob("*/*")
    return folder


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


def values(folder: Path) -> dict[int, list[float]]:
    lines = (folder / "measurements.jsonl").read_text().splitlines()
    return {m["rank"]: m["values"] for m in map(json.loads, lines)}


def counts(document: dict[str, Any]) -> list[tuple[str, int]]:
    """Return the metrics of a run by `show --format json`, each with the number of its values."""
    return [(summary["metric"], summary["n"]) for summary in document["summaries"]]


def no_rank_is_left() -> bool:
    return not processes("faulty.py")


class Background:
    """The `cluster` command, started and left to run.

    Args:
        words: its arguments.
        signals: what it inherits, whatever the tests have inherited: an option of `env`.
    """

    def __init__(self, *words: str, signals: str = "--default-signal") -> None:
        self.process = subprocess.Popen(
            ["env", signals, COMMAND, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def wait_for(self, line: str) -> None:
        assert self.process.stdout is not None
        for output in self.process.stdout:
            if line in output:
                return
        raise AssertionError(f"never printed: {line}")

    def end(self) -> tuple[int, str]:
        _, stderr = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, stderr


@contextmanager
def hanging_run(**how: str) -> Iterator[Background]:
    """Yield a run whose ranks sleep without end, once both have said that they are ready."""
    words = ("bench", "faulty", "--how", "sleep", "hanging")
    with Background(*words, **how) as background:
        background.wait_for("ready")
        until(_both_are_ready, "both ranks are ready")
        yield background


def _both_are_ready() -> bool:
    host = Path(os.environ["CLUSTER_STATE"], "hanging", "host")
    text = "".join(path.read_text() for path in host.glob("*/stdout"))
    return "ready 0" in text and "ready 1" in text
