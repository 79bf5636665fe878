"""Calls in daemon threads: neither Ctrl-C nor the end of the process waits for them."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def start(call: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    threading.Thread(target=complete, args=(future, call), daemon=True).start()
    return future


def complete(future: Future[T], call: Callable[[], T]) -> None:
    """Call a function, and give a future what it returns or raises."""
    try:
        result = call()
    # Every exception, as ThreadPoolExecutor does: none is dropped, as the waiting thread raises it,
    # and a thread that ended at SystemExit without a result would be waited for without end.
    except BaseException as error:  # noqa: BLE001
        future.set_exception(error)
    else:
        future.set_result(result)
