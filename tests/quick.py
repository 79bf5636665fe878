"""The `cluster` command in a process of its own that starts at once: what is slow is loaded once.

For tests that start very many.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

PRELOADED = ["cluster.cli", "cluster.providers.gcp", "google.cloud.compute_v1"]
PATIENCE = 120.0  # seconds


def quick(*words: str) -> int:
    """Run it to its end.

    Args:
        words: of the command line.

    Returns:
        Its exit status; minus the number of the signal that killed it.

    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_run, args=(dict(os.environ), str(Path.cwd()), words))
    process.start()
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        raise AssertionError(f"{words} did not end")
    return process.exitcode


def _run(environ: dict[str, str], folder: str, words: tuple[str, ...]) -> None:
    from cluster.cli import main  # noqa: PLC0415 - loaded before

    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    sys.argv = ["cluster", *words]
    main()
