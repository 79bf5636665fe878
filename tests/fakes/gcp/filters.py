"""Filters of lists, as far as they are used here."""

import re
from collections.abc import Mapping
from typing import Any

from tests.fakes.gaps import GapError

TERM = re.compile(r'\(?\s*([\w.-]+)\s*(=|!=|\beq\b|\bne\b)\s*("[^"]*"|[^\s()]+)\s*\)?')
BETWEEN = re.compile(r"\s*(AND\s*)?")


def passes(expression: str, thing: Mapping[str, Any]) -> bool:
    """Tell whether a thing passes a filter."""
    position, holds = 0, True
    while position < len(expression):
        match = TERM.match(expression, position)
        if match is None:
            raise GapError(f"the filter {expression!r}")
        holds = holds and _holds(match[1], match[2], match[3].strip('"'), thing)
        between = BETWEEN.match(expression, match.end())
        position = between.end() if between else match.end()
    return holds


def _holds(field: str, operator: str, operand: str, thing: Mapping[str, Any]) -> bool:
    value: object = thing
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    text = str(value).lower() if isinstance(value, bool) else str(value or "")
    if operator in ("eq", "ne"):
        return (re.fullmatch(operand, text) is not None) == (operator == "eq")
    return (text == operand) == (operator == "=")
