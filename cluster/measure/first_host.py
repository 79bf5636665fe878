"""Becomes the one program of a job that runs on the first host, and tells it of all hosts."""

from __future__ import annotations

import os
import sys

HOSTS = "CLUSTER_HOSTS"  # addresses, in the order of the hosts
SSH_CONFIG = "CLUSTER_SSH_CONFIG"  # for OpenSSH's client; empty where all hosts are this one


def main(words: list[str]) -> None:
    """Put what the words say into the environment, and become the program behind `--`.

    Args:
        words: `--hosts A,B --count 2 [--ssh-config FILE] -- PROGRAM...`.

    """
    own, program = words[: words.index("--")], words[words.index("--") + 1 :]
    said = dict(zip(own[::2], own[1::2], strict=True))
    os.environ[HOSTS] = said["--hosts"]
    os.environ[SSH_CONFIG] = said.get("--ssh-config", "")
    os.execvp(program[0], program)  # noqa: S606 - a list, and no shell


if __name__ == "__main__":
    main(sys.argv[1:])
