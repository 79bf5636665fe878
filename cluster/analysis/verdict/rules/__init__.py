"""Known problems, as rules: each is a function of the evidence, and silent without evidence."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import TypeAlias

from cluster.analysis.verdict.evidence import Evidence, Sign

Rule: TypeAlias = "Callable[[Evidence], Sign | None]"


def _rules() -> Iterator[Rule]:
    """Return rules of all files; those that doubt a value come before those that explain one."""
    files = sorted(module.name for module in pkgutil.iter_modules(__path__))
    for name in sorted(files, key=lambda name: name != "trust"):
        yield from importlib.import_module(f"{__name__}.{name}").RULES


RULES: tuple[Rule, ...] = tuple(_rules())
ORDER = ("certain", "likely", "possible")


def diagnose(evidence: Evidence) -> tuple[Sign, ...]:
    """Return what may be wrong, the surest first."""
    findings = [finding for rule in RULES if (finding := rule(evidence)) is not None]
    return tuple(sorted(findings, key=lambda finding: ORDER.index(finding.confidence)))
