"""Who may do what: IAM policy documents, as far as this project's own policies need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.fakes.aws.errors import refused

if TYPE_CHECKING:
    from tests.fakes.aws.service import Service

ACCOUNT = "123456789012"
ADMIN = "AKIATESTCLOUDADMIN00"  # may do everything


class Permissions:
    """The users of the account, by access key."""

    def __init__(self) -> None:
        self._policies: dict[str, dict[str, Any]] = {}
        self._names = {ADMIN: "admin"}

    def add(self, name: str, policy: dict[str, Any]) -> str:
        """Give the access key of a new user."""
        key = f"AKIATESTCLOUDUSER{len(self._names):03}"
        self._names[key] = name
        self._policies[key] = policy
        return key

    def name(self, key: str) -> str:
        return self._names[key]

    def check(self, service: Service) -> None:
        """Refuse a call that its caller may not make."""
        if service.user not in self._names:
            raise refused(
                "AuthFailure",
                "AWS was not able to validate the provided access credentials",
            )
