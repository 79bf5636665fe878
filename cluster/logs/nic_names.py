"""Which NIC of its host a log is of, and which GPU's memory was sent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = r"(?:mlx[45]_(?:bond_)?\d+|bnxt_re\d+|irdma\d+|hfi1_\d+|NIC\d+|(?:eth|ib)\d+|en[opsx]\w+)"
_INSIDE = re.compile(r"\"?\bDevice\"?\s*:\s*\"?(\w+)\"?")  # below the title of perftest
_AHEAD = re.compile(
    r"\bib_\w+_(?:bw|lat)\b.*\s(?:-d\s*|--ib-dev[= ])(\w+)"
    r"|\bNCCL_IB_HCA\s*=+\s*\"?(\w+)(?::\d+)?\"?(?![\w,])"
    r"|\bNET/IB : Using \[0\](\w+):\d+/\w+(?!.*\[1\])"
)
_IN_NAME = re.compile(rf"(?<![a-zA-Z0-9])({_NAME})(?![a-zA-Z0-9])")
_VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES\s*=\s*\"?(\d{1,3})\"?(?![\w,])")
_GPU = re.compile(r"--use_cuda[= ](\d{1,3})\b|\bPicking device No\. (\d{1,3})\b")
_GPU_IN_NAME = re.compile(r"(?<![a-zA-Z0-9])gpu[_-]?(\d{1,3})(?![a-zA-Z0-9])", re.IGNORECASE)


class NamedNic(NamedTuple):
    """The NIC, such as `mlx5_0`, and the GPU, where the log names them, of one result."""

    nic: str
    gpu: int | None


class _Mention(NamedTuple):
    """A name in a line."""

    line: int
    name: str


def nics_of_results(text: str, file: str, firsts: Sequence[int]) -> list[NamedNic]:
    """Find the NIC of each result of a log, and the GPU if there is one."""
    inside, ahead = _mentions(_INSIDE, text), _mentions(_AHEAD, text)
    visible, gpus = _mentions(_VISIBLE, text), _mentions(_GPU, text)
    named, gpu_named = _IN_NAME.search(file), _GPU_IN_NAME.search(file)
    found = []
    for at, first in enumerate(firsts):
        before = firsts[at - 1] if at else 0
        end = firsts[at + 1] if at + 1 < len(firsts) else float("inf")
        own = [m.name for m in inside if first <= m.line < end]
        told = [m.name for m in ahead if m.line < first]
        nic = next(iter((*own, *told[-1:], *([named[1]] if named else []))), "")
        number = _last(visible, 0, first) or _gpu(
            gpus, before, first, end, is_ahead=bool(gpus and gpus[0].line < firsts[0])
        )
        number = number or (gpu_named[1] if gpu_named else "")
        found.append(NamedNic(nic, int(number) if number else None))
    return found


def _gpu(
    mentions: Sequence[_Mention], before: int, first: int, end: float, *, is_ahead: bool
) -> str:
    """Return the GPU of a result: perftest names it before its title, or below it."""
    return _last(mentions, before, first) if is_ahead else _last(mentions, first, end)


def _last(mentions: Sequence[_Mention], first: int, end: float) -> str:
    return next((m.name for m in reversed(mentions) if first <= m.line < end), "")


def _mentions(pattern: re.Pattern[str], text: str) -> list[_Mention]:
    return [
        _Mention(number, next(filter(None, match.groups())))
        for number, line in enumerate(text.splitlines(), 1)
        if (match := pattern.search(line))
    ]
