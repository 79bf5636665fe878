"""Plain values in a pickle, without running it.

`pickle.loads` calls what a pickle names. Here, each operation that imports or calls is refused;
those that build numbers, texts, lists, tuples and dicts are enough for PyTorch's dumps
(torch/csrc/jit/serialization/pickler.cpp).
"""

from __future__ import annotations

import pickletools
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[Plain, Plain] | None"
MOST_VALUES = 3_000_000  # with all repetitions of what is shared
MOST_DEPTH = 20
MALFORMED = "The pickle is malformed."
_SCALARS = (
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "INT", "LONG", "FLOAT", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"),
    *("BINSTRING", "SHORT_BINSTRING", "STRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
)
_PUSHED: dict[str, Callable[[Plain], Plain]] = {
    **dict.fromkeys(_SCALARS, lambda argument: argument),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_DICT": lambda _: {},
}
_COLLECTED = ("APPENDS", "SETITEMS", "LIST", "TUPLE", "DICT")
_REMEMBERED = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GET", "BINGET", "LONG_BINGET")
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def plain_value(content: bytes) -> Plain:
    """Return the value that a pickle describes (ValueError: it is malformed, too large, or code).

    A tuple becomes a list.
    """
    machine = _Machine()
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "STOP":
            return _bounded(machine.pop(), [0], 0)
        machine.run(opcode.name, argument)
    raise ValueError("The pickle has no end.")


class _Machine:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Plain] = []
        self.marks: list[int] = []
        self.memo: dict[int, Plain] = {}

    def run(self, name: str, argument: Plain) -> None:
        """Run one operation (ValueError: it is not one of plain values)."""
        if name in _PUSHED:
            self.stack.append(_PUSHED[name](argument))
        elif name in _TUPLES:
            self.stack.append([self.pop() for _ in range(_TUPLES[name])][::-1])
        elif name in _REMEMBERED:
            self._remember(name, argument)
        elif name in ("APPEND", "SETITEM"):
            items = [self.pop() for _ in range(1 if name == "APPEND" else 2)][::-1]
            _extend(self._top(), items)
        elif name in _COLLECTED:
            self._collect(name)
        elif name == "MARK":
            self.marks.append(len(self.stack))
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(f"The pickle would run code ({name}); it is not read.")

    def _remember(self, name: str, argument: Plain) -> None:
        key = argument if isinstance(argument, int) else len(self.memo)
        if "GET" in name:
            self.stack.append(self.memo[key])
        else:
            self.memo[key] = self._top()

    def _collect(self, name: str) -> None:
        """Put all that follows the last mark into a container."""
        start = self.marks.pop() if self.marks else len(self.stack) + 1
        if start > len(self.stack):
            raise ValueError(MALFORMED)
        items, self.stack[start:] = self.stack[start:], []
        if name in ("LIST", "TUPLE", "DICT"):
            self.stack.append({} if name == "DICT" else [])
        _extend(self._top(), items)

    def pop(self) -> Plain:
        self._top()
        return self.stack.pop()

    def _top(self) -> Plain:
        if not self.stack:
            raise ValueError(MALFORMED)
        return self.stack[-1]


def _extend(target: Plain, items: list[Plain]) -> None:
    if isinstance(target, list):
        target.extend(items)
    elif isinstance(target, dict) and len(items) % 2 == 0:
        target.update(zip(items[::2], items[1::2], strict=True))
    else:
        raise ValueError(MALFORMED)


def _bounded(value: Plain, count: list[int], depth: int) -> Plain:
    """Return a value if it is small: one that refers to itself, or much to the same, is not."""
    count[0] += 1
    if count[0] > MOST_VALUES or depth > MOST_DEPTH:
        raise ValueError("The pickle describes a value that is too large.")
    children = (
        [*value.keys(), *value.values()]
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else ()
    )
    for child in children:
        _bounded(child, count, depth + 1)
    return value
