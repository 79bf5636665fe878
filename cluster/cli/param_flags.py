"""Flags of a benchmark, derived from its parameters: one per field."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import msgspec
import typer

from cluster.core.options import help_of
from cluster.core.units import Sizes, format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.core.model.value import Value


def param_flags(params: type[Value]) -> Iterator[inspect.Parameter]:
    """Return a flag for each field: its type, default and help come from the class.

    Args:
        params: of a benchmark; its docstring describes each field under `Args:`.

    """
    help_ = help_of(params)
    fields = msgspec.structs.fields(params)
    for field in sorted(fields, key=lambda field: field.name not in params.__annotations__):
        kind, default, shown = _flag_type(field.type, field.default)
        option = typer.Option(
            f"--{field.name.replace('_', '-')}",
            help=help_.get(field.name, ""),
            metavar=_metavar(field.type),
            show_default=shown,
            autocompletion=_choices(field.type),
        )
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[kind, option],
        )


def _choices(kind: Any) -> Callable[[], list[str]]:  # noqa: ANN401 - an annotation
    """Return the completion of a flag: its values, if the type lists them."""
    return lambda: list(get_args(kind)) if get_origin(kind) is Literal else []


def _metavar(kind: Any) -> str | None:  # noqa: ANN401 - an annotation
    """Return the placeholder of a flag's value in the help."""
    if kind is bool:
        return None
    if get_origin(kind) is Literal:
        return "WORD"
    return {int: "N", int | None: "N", float: "X", str: "TEXT"}.get(kind, "LIST")


def _flag_type(kind: Any, default: Any) -> tuple[Any, object, str | bool]:  # noqa: ANN401
    """Choose a type that typer can check; other values are text, which the benchmark checks."""
    if kind in (bool, int, float):
        return kind, default, kind is not float or bool(default)
    if kind == (int | None):
        return kind, None, False
    if kind is str:
        return str | None, None, default or False
    if get_origin(kind) is Literal:
        return str, default, True
    if default is None:
        return str | None, None, False
    shown = f"{_typed(default[0])}:{_typed(default[-1])}" if kind is Sizes else _joined(default)
    return str | None, None, shown


def _typed(size: int) -> str:
    return format_size(size).removesuffix(" B").replace(" ", "")


def _joined(default: object) -> str:
    if isinstance(default, tuple):
        return ",".join(str(part) for part in default)
    return str(default)
