"""The same answers, sooner: moto finds out for each value anew under which name to look for it."""

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from moto.core import serialize
from moto.core.utils import get_value

MISSING = object()
_names: dict[tuple[Any, ...], tuple[str, ...]] = {}
_transforms: dict[tuple[int, str], Any] = {}


def use() -> None:
    """Let moto write faster from now on."""
    serialize.AttributePicker.__call__ = _pick
    serialize.EC2Serializer._serialize_body = lambda _self, body: _document(body)


def _pick(self: Any, context: Any) -> Any:
    """Find the value of a member; under which names to look is found out once."""
    obj, key, shape = context.obj, context.key, context.shape
    parent = getattr(shape, "parent", None)
    cache_key = (type(obj), key, shape.name, parent and parent.name)
    if cache_key not in _names:
        _names[cache_key] = tuple(dict.fromkeys(self.get_possible_keys(context)))
    value = _value(obj, _names[cache_key])
    if not self.response_transformers:
        return value
    path = f"{context.key_path}.{key}"
    place = (id(self.response_transformers), path)
    if place not in _transforms:
        fitting = [t for p, t in self.response_transformers.items() if path.endswith(p)]
        _transforms[place] = fitting[0] if fitting else None
    transform = _transforms[place]
    return transform(value) if transform else value


def _value(obj: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        value = get_value(obj, name, MISSING)
        if value is not MISSING:
            return value
    return None


def _document(body: dict[str, Any]) -> str:
    return '<?xml version="1.0" encoding="utf-8"?>\n' + "".join(
        _element(name, value) for name, value in body.items()
    )


def _element(name: str, value: Any) -> str:
    if isinstance(value, list):
        return "".join(_element(name, item) for item in value)
    if isinstance(value, dict):
        marks = "".join(f" {k[1:]}={quoteattr(v)}" for k, v in value.items() if k[0] == "@")
        inner = "".join(_element(k, v) for k, v in value.items() if k[0] != "@")
        return f"<{name}{marks}>{inner}</{name}>"
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return f"<{name}>{escape(text)}</{name}>"
