"""Cleaning up after a step that failed."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def on_failure(clean_up: Callable[[], object]) -> Iterator[None]:
    """Clean up if the block fails, then re-raise its exception; do nothing if it succeeds.

    Args:
        clean_up: called before the exception is re-raised, also for Ctrl-C and SIGTERM. If it fails
            itself, its exception replaces the original one, which is kept as the context.
    """
    with ExitStack() as stack:
        stack.callback(clean_up)
        yield
        stack.pop_all()
