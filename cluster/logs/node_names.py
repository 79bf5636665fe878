"""On which NUMA node of its host a tool ran: by its numactl, or by the name of its log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_ONE = r"(\d{1,3})(?![\d,\-])"  # of several nodes, none is meant
_MEMORY = re.compile(rf"\bnumactl\b.*?\s(?:--membind[= ]|-m\s*){_ONE}")
_CORES = re.compile(rf"\bnumactl\b.*?\s(?:--cpunodebind[= ]|-N\s*){_ONE}")
_IN_NAME = re.compile(r"(?<![a-zA-Z0-9])numa[_-]?(\d{1,3})(?![a-zA-Z0-9])", re.IGNORECASE)


def nodes_of_results(text: str, file: str, firsts: Sequence[int]) -> list[int | None]:
    """Find the NUMA node whose memory each result used, as the last numactl above it says."""
    told = [
        (number, int(match[1]))
        for number, line in enumerate(text.splitlines(), 1)
        if (match := _MEMORY.search(line) or _CORES.search(line))
    ]
    named = _IN_NAME.search(file)
    at_least = int(named[1]) if named else None
    return [
        next((node for line, node in reversed(told) if line <= first), at_least) for first in firsts
    ]
