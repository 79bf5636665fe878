"""Answers for which Google's client for Compute Engine has no messages, as far as they are read."""

from __future__ import annotations

import msgspec


class GcpResponse(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of every answer; fields that are not listed are ignored."""


class AnyAnswer(GcpResponse, frozen=True, kw_only=True):
    """What all answers of Compute Engine have in common."""

    kind: str = ""  # such as `compute#instanceList`; only a refusal has none
    error: dict[str, msgspec.Raw] = {}  # of a refusal, or of an operation
    unreachables: tuple[str, ...] = ()  # regions or zones that a list lacks


class RefusalError(GcpResponse, frozen=True, kw_only=True):
    """The error in a refusal."""

    message: str = ""


class Refusal(GcpResponse, frozen=True, kw_only=True):
    """A refusal by a service other than Compute Engine."""

    error: RefusalError


class SkuPage(GcpResponse, frozen=True, kw_only=True):
    """A page of the price list."""

    skus: tuple[msgspec.Raw, ...]
    next_page_token: str = ""


class PolicyValues(GcpResponse, frozen=True, kw_only=True):
    """The values that a rule of a list constraint allows or denies."""

    allowed_values: tuple[str, ...] = ()
    denied_values: tuple[str, ...] = ()


class PolicyRule(GcpResponse, frozen=True, kw_only=True):
    """A rule of an organisation policy; one of its fields is set."""

    enforce: bool = False
    deny_all: bool = False
    values: PolicyValues = PolicyValues()


class PolicySpec(GcpResponse, frozen=True, kw_only=True):
    """The rules of an organisation policy."""

    rules: tuple[PolicyRule, ...] = ()


class EffectivePolicy(GcpResponse, frozen=True, kw_only=True):
    """The organisation policy in effect for a project, with its conditions evaluated."""

    name: str
    spec: PolicySpec = PolicySpec()

    @property
    def restricts(self) -> bool:
        """Whether it restricts new machines; an allow list counts, as it can name only old ones."""
        return any(
            rule.enforce or rule.deny_all or rule.values.allowed_values for rule in self.spec.rules
        )
