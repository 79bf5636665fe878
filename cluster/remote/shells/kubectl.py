"""Commands in a pod by `kubectl exec`: every way to log in that kubectl has works here, too.

Its connection may be cut with exit status 0 (kubernetes#124571), so that output is shorter and
nothing says so. Each command therefore ends both of its streams with a mark of its own and its
status; a stream without the mark was cut, and that is an error.
"""

import re
import secrets

from cluster.core.errors import ShellError, Unreachable
from cluster.core.kubectl import CONTAINER, parse_pod
from cluster.core.state.files import load_script
from cluster.remote.remote_shell import CHUNK, ENDS_WITHIN, ProcessCommand, ProcessShell

DIGITS = 3  # of an exit status
# The pod does not exist or does not run any more; all else may pass.
FINAL = re.compile(r"not found|completed pod|orbidden|nauthorized|does not exist|no such host")

GUARD = load_script(__file__, "guard_pod_command.sh", DIGITS=DIGITS)


class KubectlShell(ProcessShell):
    """Runs commands in a pod; each is a connection of its own."""

    @property
    def host(self) -> str:
        return parse_pod(self.machine.id)[0] if self.machine else ""

    def begin(self, label: str, line: str, *, reads: bool = False) -> "KubectlCommand":
        if self.machine is None or not self.machine.id:
            raise ShellError("No pod is known for this host.")
        return KubectlCommand(self, label, self.machine.id, line, reads=reads)


class KubectlCommand(ProcessCommand):
    def __init__(
        self, shell: KubectlShell, label: str, machine_id: str, line: str, *, reads: bool
    ) -> None:
        self.mark = secrets.token_hex(16).encode()
        self._pod, namespace = parse_pod(machine_id)
        self._pending = b""  # of its output: what may be the beginning of the mark
        self._status: int | None = None
        self._last_errors = b""  # with the mark, if it has come
        guard = ("sh", "-c", GUARD, "sh", self.mark.decode(), "reads" if reads else "")
        super().__init__(
            shell,
            label,
            namespace.kubectl("exec", "-i", self._pod, f"--container={CONTAINER}", "--", *guard),
            keeps_input=not reads,
            remedy="Run this where kubectl is.",
        )
        text = f"{line.count(chr(10)) + 1}\n{line}\n".encode()
        while text and (size := self.send(text)):
            text = text[size:]

    def receive(self, most: int) -> bytes:
        """Read its output, up to its mark."""
        while self._status is None:
            piece = super().receive(most)
            self._pending += piece
            output, mark, status = self._pending.partition(self.mark)
            if mark and len(status) >= DIGITS:
                self._status, self._pending = int(status[:DIGITS]), b""
                return output
            if mark and piece:
                continue
            keep = _overlap(self._pending, self.mark) if piece else 0
            end = len(self._pending) - keep
            output, self._pending = self._pending[:end], self._pending[end:]
            if output or not piece:
                return output
        return b""

    def receive_error(self, most: int) -> bytes:
        """Read its standard error, up to its mark."""
        if self.mark in self._last_errors:
            return b""
        piece = super().receive_error(most)
        self._last_errors = self._last_errors[-len(self.mark) :] + piece
        return piece

    def has_ended(self, within: float = ENDS_WITHIN) -> bool:
        """Wait for its end, for some seconds; what it left in the background may go on."""
        return self._status is not None or super().has_ended(within)

    def end(self) -> tuple[int, str]:
        """Wait for its end; raise if the connection was cut before both marks came."""
        while self._status is None and self.receive(CHUNK):
            pass
        errors, _, _ = self.errors(ENDS_WITHIN).partition(self.mark.decode())
        if self._status is not None and self.mark in self._last_errors:
            return self._status, errors
        self.process.wait()
        lines = errors.strip().splitlines()
        last = lines[-1] if lines else f"kubectl ended with {self.process.returncode}"
        raise Unreachable(
            f"The command in {self._pod} was cut: {last}",
            state="broken",
            transient=not FINAL.search(last),
            means="Whether it goes on there is not known; nothing of its output is used.",
            remedy=f"Look whether the pod still runs: kubectl get pod {self._pod}",
        )


def _overlap(text: bytes, mark: bytes) -> int:
    """Return how many bytes at the end of a text may be the beginning of a mark."""
    longest = min(len(mark), len(text))
    return next((n for n in range(longest, 0, -1) if mark.startswith(text[-n:])), 0)
