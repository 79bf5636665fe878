"""Try the test cloud by hand: python -m tests.fakes.aws [--hosts] [--port 5005]."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys

from tests.fakes.aws import Cloud


def main() -> None:
    """Serve until Ctrl-C, and leave nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.aws")
    parser.add_argument("--hosts", action="store_true", help="a real host behind each instance")
    parser.add_argument("--port", type=int, default=0, help="any that is free, if not given")
    parser.add_argument("--rate", default="10gbit", help="of each host's link; as EC2 gives a flow")
    asked = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # whoever started this may ignore one
        signal.signal(number, signal.default_int_handler)
    with Cloud(hosts=asked.hosts, port=asked.port) as cloud:
        cloud.set(rate=asked.rate)
        for name, value in cloud.environ.items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
        for gap in cloud.gaps:
            sys.stderr.write(f"not known: {gap}\n")


if __name__ == "__main__":
    main()
