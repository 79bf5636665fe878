"""The interface to one place of a cloud's API: a region of Amazon, a project of Google."""

from __future__ import annotations

from typing import Protocol


class Client(Protocol):
    """Calls the API of a cloud in one place."""

    name: str

    @property
    def account(self) -> str:
        """The account that is billed: its number or name in the cloud."""

    @property
    def owner(self) -> str:
        """The identity of the caller in that account, without the session."""

    @property
    def user(self) -> str:
        """The caller's name in the cloud's policies; empty if these use `owner`."""

    def now(self) -> float:
        """Return the time of the cloud's clock, in seconds since the epoch."""
