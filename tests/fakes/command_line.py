"""A test cloud to try by hand."""

import argparse
import contextlib
import signal
import sys
from typing import Any, Protocol

from tests.fakes.cloud import Emulated


class Makes(Protocol):
    def __call__(self, *, hosts: bool, port: int) -> Emulated[Any]: ...


def serve(name: str, make: Makes, *, rate: str) -> None:
    """Serve until Ctrl-C, and leave nothing."""
    parser = argparse.ArgumentParser(prog=f"python -m {name}")
    parser.add_argument("--hosts", action="store_true", help="a real host behind each instance")
    parser.add_argument("--port", type=int, default=0, help="any that is free, if not given")
    parser.add_argument("--rate", default=rate, help="of each host's link")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever started this may ignore one
        signal.signal(number, signal.default_int_handler)
    with make(hosts=arguments.hosts, port=arguments.port) as cloud:
        cloud.set(rate=arguments.rate)
        for variable, value in cloud.environ.items():
            sys.stdout.write(f"export {variable}={value}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
        for gap in cloud.gaps:
            sys.stderr.write(f"not known: {gap}\n")
