"""JSON: decoding that several threads may do at once, one for each host or region, and its form.

msgspec reads the annotations of a type when the first value of it is decoded, and msgspec 0.22.0
ends the process by a segmentation fault if another thread decodes one of the same type meanwhile.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

Content = bytes | str | msgspec.Raw
Hook = Callable[[type, object], object]
T = TypeVar("T")
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # what damaged JSON raises
_reading = threading.Lock()
_types: set[object] = set()


@overload
def decode(content: Content, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def decode(content: Content, kind: UnionType, *, strict: bool = True) -> Any: ...  # noqa: ANN401 - as of msgspec
def decode(content: Content, kind: Any, *, strict: bool = True) -> Any:
    """Decode JSON as a type (msgspec.DecodeError)."""
    _prepare(kind)
    return msgspec.json.decode(content, type=kind, strict=strict)


def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    _prepare(kind)
    return msgspec.json.Decoder(kind)


def decode_file(path: Path, kind: type[T]) -> T | None:
    """Decode a file of JSON; None if it is not there, or damaged."""
    try:
        return decode(path.read_bytes(), kind)
    except (OSError, *UNREADABLE):
        return None


def encode_indented(value: object) -> bytes:
    """Encode a value as JSON that people read, with a newline at its end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def convert(
    value: object, kind: type[T], *, strict: bool = True, dec_hook: Hook | None = None
) -> T:
    """Convert plain values to a type (msgspec.ValidationError)."""
    _prepare(kind)
    return msgspec.convert(value, kind, strict=strict, dec_hook=dec_hook)


def _prepare(kind: object) -> None:
    """Have msgspec read the annotations of a type in one thread at a time."""
    if kind not in _types:
        with _reading:
            msgspec.json.Decoder(kind)
            _types.add(kind)
