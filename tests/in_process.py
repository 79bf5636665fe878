"""Runs commands that only read and write files in this process, which a fork costs more than."""

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from unittest import mock

from cluster import cli
from cluster.cli import signals, terminal

READERS = {
    *("judge", "show", "compare", "runs", "import"),
    *("share", "verify", "corpus", "topology", "profile", "scaling", "script"),
}
"""Commands that start nothing and wait for nothing, and draw nothing."""
OF_A_PROCESS = ("CLUSTER_PLUGINS", "TZ")  # variables whose effect would stay


def can_run_here(*words: str) -> bool:
    """Say whether a command line is the same in this process as in one of its own."""
    name = next((word for word in words if word != "more"), "")
    reads = (name in READERS and "--again" not in words) or "--fit" in words
    return reads and not any(variable in os.environ for variable in OF_A_PROCESS)


def run_here(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run `cluster` with these words, and a text as its standard input."""
    streams = [io.TextIOWrapper(io.BytesIO(b), "utf-8") for b in (text.encode(), b"", b"")]
    with _as_a_process(["cluster", *words], *streams):
        try:
            cli.main()
        except SystemExit as end:
            status = end.code
    out, err = (_read(stream) for stream in streams[1:])
    return subprocess.CompletedProcess(words, int(status or 0), out, err)


def _read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read().replace("\r\n", "\n")


@contextmanager
def _as_a_process(
    words: list[str], stdin: io.TextIOWrapper, out: io.TextIOWrapper, err: io.TextIOWrapper
) -> Iterator[None]:
    """Have the arguments, streams, signals and logger of a new process; then those from before."""
    logger = logging.getLogger("cluster")
    handlers, level = list(logger.handlers), logger.level
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")  # names cluster
    with (
        mock.patch.multiple(sys, argv=words, stdin=stdin, stdout=out, stderr=err),
        mock.patch.object(signals, "handle", list),
        mock.patch.object(terminal, "_verbosity", 0),
    ):
        try:
            yield
        finally:
            for handler in set(logger.handlers) - set(handlers):
                logger.removeHandler(handler)
                handler.close()
            logger.setLevel(level)
            sys.modules["__main__"] = main
