"""What may be wrong, by rules of `RULES` in files: evidence, how sure it is, how to confirm it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import TypeAlias

from cluster.analysis.verdict import rules
from cluster.analysis.verdict.evidence import Evidence, Sign

Rule: TypeAlias = "Callable[[Evidence], Sign | None]"


def _rules() -> Iterator[Rule]:
    """Return rules of all files; those that doubt a value come before those that explain one."""
    files = sorted(module.name for module in pkgutil.iter_modules(rules.__path__))
    for name in sorted(files, key=lambda name: name != "trust"):
        yield from importlib.import_module(f"{rules.__name__}.{name}").RULES


RULES: tuple[Rule, ...] = tuple(_rules())
ORDER = ("certain", "likely", "possible")


def diagnose(evidence: Evidence) -> tuple[Sign, ...]:
    """Return what may be wrong, the surest first."""
    findings = [finding for rule in RULES if (finding := rule(evidence)) is not None]
    return tuple(sorted(findings, key=lambda finding: ORDER.index(finding.confidence)))
