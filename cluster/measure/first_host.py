"""Starts the only program of a job, on its first host, with the addresses of all hosts."""

import os
import sys

HOSTS = "CLUSTER_HOSTS"  # addresses, in the order of the hosts
SSH_CONFIG = "CLUSTER_SSH_CONFIG"  # for OpenSSH's client; empty where all hosts are this one
REACH = "CLUSTER_REACH"  # the words that run a program on the host `{}`, inside of an allocation
NAMES = "CLUSTER_NAMES"  # of the hosts, for these words


def main(words: list[str]) -> None:
    """Put the hosts into the environment, and replace this process by the program after `--`.

    The words: `--hosts A,B --count 2 [--ssh-config FILE] [--reach WORDS --names A,B] --
    PROGRAM...`.
    """
    flags, program = words[: words.index("--")], words[words.index("--") + 1 :]
    options = dict(zip(flags[::2], flags[1::2], strict=True))
    os.environ[HOSTS] = options["--hosts"]
    os.environ[SSH_CONFIG] = options.get("--ssh-config", "")
    os.environ[REACH] = options.get("--reach", "")
    os.environ[NAMES] = options.get("--names", "")
    os.execvp(program[0], program)  # noqa: S606 - a list, and no shell


if __name__ == "__main__":
    main(sys.argv[1:])
