"""Cleaning up after a step that failed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def on_failure(clean_up: Callable[[], object]) -> Iterator[None]:
    """Clean up if the block fails, then let its exception go on; do nothing if it succeeds.

    Args:
        clean_up: called before the exception goes on. What it raises replaces that exception, which
            stays as the context.

    """
    try:
        yield
    except BaseException:  # Ctrl-C and SIGTERM (SystemExit) must not leave half of a step either
        clean_up()
        raise
