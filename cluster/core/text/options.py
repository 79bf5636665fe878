"""Options as people write them, converted to the fields of a value."""

import inspect
import re
import shlex
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal, TypeVar, get_args, get_origin

import msgspec

from cluster.core import decoders
from cluster.core.errors import SpecError
from cluster.core.model.value import Value
from cluster.core.text.units import Sizes

ParamsT = TypeVar("ParamsT", bound=Value)
EXPECTED = re.compile(r"Expected `([^`]+)`( >=? \S+| <=? \S+|)(?:, got `.*`)?")
TYPES = {
    "bool": "True or False",
    "float": "a number",
    "int": "a whole number",
    "null": "None",
    "object": "a dictionary",
    "str": "text",
}
ARGUMENT = re.compile(r"^    (\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


def help_of(struct: type[Value]) -> dict[str, str]:
    """Read the descriptions of fields under `Args:` of a struct and its parents."""
    parents = reversed(struct.__mro__)
    docs = (inspect.cleandoc(parent.__doc__ or "") for parent in parents if parent is not object)
    return {name: " ".join(text.split()) for doc in docs for name, text in ARGUMENT.findall(doc)}


def convert(
    options: Mapping[str, object], kind: type[ParamsT], noun: str, owner: str = ""
) -> ParamsT:
    """Check options, as text or values, against a typed struct.

    A list may be a text with commas, a command a list of words; messages call an option a `noun`,
    such as `parameter`, of its owner, such as `the group "ps"`. SpecError: an option is unknown,
    and the valid ones are listed, or its value is wrong.
    """
    valid, of_owner = kind.__struct_fields__, owner and f" of {owner}"
    unknown = sorted(set(options) - set(valid))
    if unknown:
        guesses = get_close_matches(unknown[0], valid, 1)
        raise SpecError(
            f"There is no {noun} {unknown[0]!r}{of_owner}.",
            means=f"Did you mean {guesses[0]!r}?" if guesses else "",
            remedy=f"There are: {', '.join(valid) or 'none'}",
        )
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values = {key: _as_field_value(value, types[key]) for key, value in options.items()}
    try:
        return decoders.convert(values, kind, strict=False, dec_hook=decode)
    except msgspec.ValidationError as error:
        raise _wrong(values, kind, noun, of_owner) or SpecError(
            f"One {noun}{of_owner} is missing or wrong: {error}"
        ) from error


def _wrong(
    values: Mapping[str, object], kind: type[Value], noun: str, of_owner: str
) -> SpecError | None:
    """Name the first value that its field does not accept, and what it accepts."""
    for field in msgspec.structs.fields(kind):
        try:
            if field.name in values:
                decoders.convert(values[field.name], field.type, strict=False, dec_hook=decode)
        except msgspec.ValidationError as error:
            choices = get_args(field.type) if get_origin(field.type) is Literal else ()
            value = values[field.name]
            name, message = field.name, f"{field.name}={value!r} is not a valid {noun}{of_owner}."
            if not of_owner:  # a benchmark's parameter, which is typed as a flag
                name = f"--{name.replace('_', '-')}"
                message = f"{name}={value} is not valid."
            if several := _count(field.type, value):
                return SpecError(f"{name}: {several}")
            return SpecError(
                message,
                means="" if choices else _expected(str(error)),
                remedy=f"There are: {', '.join(filter(None, choices))}" if choices else "",
            )
    return None


def _expected(error: str) -> str:
    """Say in words what msgspec says in types: "Expected `int | null`, got `str`"."""
    match = EXPECTED.fullmatch(error)
    if match is None or not set(match[1].split(" | ")) <= set(TYPES):
        return f"{error}."
    return f"It must be {' or '.join(TYPES[name] for name in match[1].split(' | '))}{match[2]}."


def _count(kind: object, value: object) -> str:
    """Say that a list has too few or too many values; empty if that is not the problem."""
    parts = get_args(kind)
    if get_origin(kind) is not tuple or Ellipsis in parts or not isinstance(value, list | tuple):
        return ""
    if len(value) == len(parts):
        return ""
    text = ",".join(map(str, value))
    example = ",".join(str(number) for number in range(len(parts)))
    return f"{len(parts)} values are needed, such as {example}; {text!r} has {len(value)}."


def _as_field_value(value: object, kind: object) -> object:
    """Split a text at its commas, or join the words of a command, as the type of the field asks."""
    if kind is str and isinstance(value, list | tuple):
        return shlex.join(map(str, value))
    if get_origin(kind) is not tuple:
        return value
    if isinstance(value, str):
        return value.split(",")
    return [value] if isinstance(value, int) else value


def decode(kind: type, value: object) -> object:
    if kind is Sizes and isinstance(value, str | int | list | tuple):
        return Sizes.parse(value)
    if kind is Sizes:
        raise TypeError('It must be sizes in bytes, such as 8, "8:4MiB" or [8, "64KiB"]')
    raise NotImplementedError(kind)


def encode(value: object) -> object:
    if isinstance(value, Sizes):
        return list(value)
    raise NotImplementedError(type(value))
