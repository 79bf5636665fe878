"""The error tree: every error says what happened, what it means and what to type next.

ClusterError
├── SpecError          what was asked for cannot be done; nothing was created
│   ├── InUse          another process uses the cluster; it is left alone
│   └── LargeDownload  a download is too large to begin without a question
├── ProvisionError     a provider could not provide the machines
│   ├── Capacity       the zone has no room now; another zone or time may have
│   ├── Quota          the account's limit is reached; ask for more
│   ├── Denied         the account may not do this
│   ├── Timeout        something did not happen in time
│   └── LaunchLeft     the user left a request in a queue; the same command continues it
├── ShellError         a command could not be run, or its connection broke
│   └── Unreachable    there is no connection; carries how far connecting got
├── JobError           the job on the hosts failed; carries the tails of both streams
├── ParseError         a text is not in the format expected; carries the line
└── HostErrors         several hosts failed; an ExceptionGroup with the error of each
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Self

from cluster.core.messages import for_reader

TAIL_LINES = 40  # mpirun alone prints more than 20 when a rank exits without an error message
STATES = {  # the steps of a connection, and what a failure in each means
    "resolving": "The name could not be resolved to an address.",
    "connecting": "A firewall or a missing route drops the packets, or the host is down.",
    "banner": "Something answers, but not with SSH: its sshd may still be starting.",
    "authentication": "Its sshd answers, but does not finish the login.",
    "ready": "",
}


class ClusterError(Exception):
    """Anything that goes wrong in `cluster`.

    Args:
        what: what happened, one sentence.
        means: what that means for the user, if it is not obvious.
        remedy: what to do next, ideally a command to type.
        host: the machine that the error is about, if `what` names it.
    """

    def __init__(self, what: str, *, means: str = "", remedy: str = "", host: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.means = means
        self.remedy = remedy
        self.host = host
        self.file = ""  # of this machine, which the remedy names

    def __str__(self) -> str:
        return for_reader("\n".join(part for part in (self.what, self.means, self.remedy) if part))


class SpecError(ClusterError):
    """What was asked for cannot be done; nothing was created."""


class InUse(SpecError):
    """Another process uses the cluster; it is left alone."""


class LargeDownload(SpecError):
    """A download is too large to begin without a question; nothing was downloaded."""


class ProvisionError(ClusterError):
    """A provider could not provide the machines."""


class Capacity(ProvisionError):
    """There is no room for these machines now, in this zone."""


class Quota(ProvisionError):
    """The account's limit is reached."""


class Denied(ProvisionError):
    """The account is not permitted to do this."""


class Timeout(ProvisionError):
    """The machines did not become ready in time; `host` is one that does not answer."""


class LaunchLeft(ProvisionError):
    """The user left a launch unfinished: its request stays, and the same command continues it."""


class ShellError(ClusterError):
    """A command could not be run on a host, or the connection to it broke."""


class Unreachable(ShellError):
    """There is no connection to a host.

    Args:
        state: how far connecting got (one of `STATES`), or what ended it, such as `refused`.
        transient: whether waiting may help, because the host may still be booting.
        parts: `means`, `remedy` and `host` of a `ClusterError`.
    """

    def __init__(
        self, what: str, *, state: str = "", transient: bool = False, **parts: str
    ) -> None:
        super().__init__(what, **parts)
        self.state = state
        self.transient = transient


class JobError(ClusterError):
    """A job on the hosts failed.

    Args:
        stdout: the job's standard output, of which the tail is shown.
        stderr: the job's standard error, of which the tail is shown.
        parts: `means`, `remedy` and `host` of a `ClusterError`.
    """

    def __init__(self, what: str, *, stdout: str = "", stderr: str = "", **parts: str) -> None:
        super().__init__(what, **parts)
        self.stdout = tail(stdout)
        self.stderr = tail(stderr)

    def __str__(self) -> str:
        tails = [
            f"--- last lines of {name} ---\n{text}"
            for name, text in (("stdout", self.stdout), ("stderr", self.stderr))
            if text
        ]
        what, means, remedy = map(for_reader, (self.what, self.means, self.remedy))
        return "\n".join(part for part in (what, means, *tails, remedy) if part)


class HostErrors(ClusterError, ExceptionGroup[ClusterError]):
    """Several hosts, clusters or providers failed: `except ClusterError` and `except*` see it.

    Args:
        what: what happened to how many, without a full stop.
        errors: the error of each.
    """

    def __new__(cls, what: str, errors: Sequence[ClusterError]) -> Self:
        return ExceptionGroup.__new__(cls, what, errors)

    def __init__(self, what: str, errors: Sequence[ClusterError]) -> None:
        super().__init__(what)
        self.args = (what, errors)  # those of an ExceptionGroup

    def __str__(self) -> str:
        text = "".join(f"\n- {error}" for error in self.exceptions)
        return for_reader("\n".join(filter(None, (f"{self.what}.{text}", self.means, self.remedy))))

    def derive(self, errors: Sequence[ClusterError]) -> "HostErrors":  # type: ignore[override]
        return HostErrors(self.what, errors)


def raise_all(errors: Sequence[ClusterError], outcome: str) -> None:
    """Raise the only error, or HostErrors with the number of several; nothing if there is none."""
    if errors:
        raise errors[0] if len(errors) == 1 else HostErrors(f"{len(errors)} {outcome}", errors)


@contextmanager
def collect_errors(errors: list[ClusterError]) -> Iterator[None]:
    """Add the error of a block, if it fails, to others, and go on."""
    try:
        yield
    except ClusterError as error:
        errors.append(error)


class ParseError(ClusterError):
    """A text is not in the format expected.

    Args:
        line: the line that could not be read.
    """

    def __init__(self, what: str, *, line: str = "", remedy: str = "") -> None:
        super().__init__(what, means=f"The line: {line[:200]!r}" if line else "", remedy=remedy)
        self.line = line


def tail(text: str, lines: int = TAIL_LINES) -> str:
    """Return the last lines of a text, without its last newline, or the zero of prterun's text."""
    return "\n".join(text.rstrip("\n\0").splitlines()[-lines:])


@contextmanager
def on_failure(clean_up: Callable[[], object]) -> Iterator[None]:
    """Clean up if the block fails, even by Ctrl-C or SIGTERM, then re-raise its exception."""
    with ExitStack() as stack:
        stack.callback(clean_up)
        yield
        stack.pop_all()
