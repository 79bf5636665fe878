"""What asks one place of a cloud: a region of Amazon, a project of Google."""

from __future__ import annotations

from typing import Protocol


class Client(Protocol):
    """Asks one place of a cloud."""

    name: str

    @property
    def account(self) -> str:
        """The account that pays, as the cloud numbers or names it."""

    @property
    def owner(self) -> str:
        """Who we are in that account, without the session."""

    @property
    def user(self) -> str:
        """The same in the words of the cloud's policies; empty, if these have no other."""

    def now(self) -> float:
        """Give the time by the cloud's clock, in seconds since the epoch."""
