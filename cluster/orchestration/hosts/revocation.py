"""Machines that are reclaimed while they start or run a job: their provider is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Self

from cluster.core.errors import ClusterError, ProvisionError
from cluster.core.model.hosts import Machine
from cluster.core.model.spec import ClusterSpec
from cluster.providers import Provider, Revocable
from cluster.remote.shells import Shell
from cluster.remote.threads import start

BETWEEN = 4.0  # seconds between two questions
ANSWERS_WITHIN = 5.0  # seconds that a run which has ended waits for the answer


class RevocationWatch:
    """Asks a provider, while a block runs, for the `reason` why machines are not ours."""

    def __init__(
        self, revocation: Callable[[], ProvisionError | None] | None, stop: Callable[[], object]
    ) -> None:
        self._revocation_of = revocation
        self._stop = stop
        self._over = threading.Event()
        self._stopping = threading.Lock()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.reason: ProvisionError | None = None

    def __enter__(self) -> Self:
        if self._revocation_of is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask no more; wait until nothing is being stopped, but not for an answer."""
        self._over.set()
        with self._stopping:
            pass

    def check(self) -> None:
        """Raise the reason, if it is known by now."""
        if self.reason:
            raise self.reason

    def ask(self) -> ProvisionError | None:
        """Ask now; none while the machines are ours, or if no answer comes in time."""
        if self._revocation_of is not None and not self.reason:
            answer = start(self._revocation_of)
            with suppress(TimeoutError):
                self.reason = answer.result(ANSWERS_WITHIN)
        return self.reason

    def _ask(self) -> None:
        while self._revocation_of is not None and not self._over.wait(BETWEEN):
            reason = self._revocation_of()
            with self._stopping:
                if not reason or self._over.is_set():
                    continue
                self.reason = reason
                with suppress(ClusterError):
                    self._stop()
                return


@contextmanager
def unless_revoked(
    provider: Provider, spec: ClusterSpec, machines: Sequence[Machine], shells: Mapping[str, Shell]
) -> Iterator[Callable[[], None]]:
    """Raise why machines are not ours any more in place of the errors that this causes in a block.

    Their commands end as soon as it is known. The function that the block gets raises the reason,
    too: waits call it between two tries.
    """
    revocation = (
        partial(provider.revocation_reason, spec, tuple(machines))
        if isinstance(provider, Revocable)
        else None
    )

    def end_commands() -> None:
        for shell in shells.values():
            shell.close()

    with RevocationWatch(revocation, end_commands) as watch:
        try:
            yield watch.check
        except ClusterError as error:
            reason = watch.ask()
            if reason is None or reason is error:
                raise
            raise reason from error
