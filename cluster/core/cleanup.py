"""Cleaning up after a step that failed."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def on_failure(clean_up: Callable[[], object]) -> Iterator[None]:
    """Clean up if the block fails, also by Ctrl-C or SIGTERM, then re-raise its exception."""
    with ExitStack() as stack:
        stack.callback(clean_up)
        yield
        stack.pop_all()
