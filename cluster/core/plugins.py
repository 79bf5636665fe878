"""Plug-ins: each is a file in the folder of its kind.

`names` lists a folder without importing anything, `load` imports one file. There is no table to
edit and nothing to register. `CLUSTER_PLUGINS=DIR` adds your own: `DIR/benchmarks/NAME.py`,
`DIR/providers/NAME.py` and so on.
"""

import importlib.util
import os
import pkgutil
from abc import ABC
from functools import cached_property, lru_cache
from importlib.abc import InspectLoader
from pathlib import Path
from sys import intern
from typing import ClassVar, TypeVar

from cluster.core.errors import SpecError

ALIKE = 0.65  # similarity, from 0 to 1, that a suggested name has at least


class Plugin(ABC):
    """The base of each plug-in interface."""

    folder: ClassVar[str]
    """Import name of the package whose files are the plug-ins, such as `cluster.providers`."""
    user_folder: ClassVar[str] = ""
    """The folder under `CLUSTER_PLUGINS` for more of them; the package's last name, if empty."""

    @cached_property
    def name(self) -> str:
        """The name of the plug-in's file."""
        return intern(type(self).__module__.rpartition(".")[2])


P = TypeVar("P", bound=Plugin)


def names(kind: type[Plugin]) -> tuple[str, ...]:
    """List the plug-ins of a kind, sorted, without importing them; `_name` is shared code."""
    return _list_names(tuple((path, _read_time(path)) for path in _paths(kind)))


@lru_cache(maxsize=64)
def _list_names(folders: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    """List folders again only after a change: each log that is read asks for all parsers."""
    modules = (module.name for module in pkgutil.iter_modules([path for path, _ in folders]))
    return tuple(sorted(name for name in modules if not name.startswith("_")))


def _read_time(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:  # such as a folder in an archive
        return 0


def sources(kind: type[Plugin]) -> dict[str, str]:
    """Return the texts of all plug-ins' files by their names, without importing any."""
    return {name: _source(f"{kind.folder}.{name}") for name in names(kind)}


@lru_cache(maxsize=256)
def _source(module: str) -> str:
    spec = importlib.util.find_spec(module)
    loader = spec.loader if spec else None
    text = loader.get_source(spec.name) if spec and isinstance(loader, InspectLoader) else None
    return text or ""


def load(kind: type[P], name: str) -> P:
    """Import one plug-in, and create an instance of it (SpecError: as `find`)."""
    return find(kind, name)()


def find(kind: type[P], name: str) -> type[P]:
    """Import the class of one plug-in (SpecError: no such file, or not one class in it)."""
    plugins = names(kind)
    if name not in plugins:
        from difflib import get_close_matches  # noqa: PLC0415 - rarely needed

        guesses = get_close_matches(name, plugins, 1, ALIKE)
        suggestion = f"Did you mean {guesses[0]}? " if guesses else ""
        raise SpecError(
            f"There is no {kind.__name__.lower()} {name!r}.",
            remedy=f"{suggestion}There are: {', '.join(plugins)}",
        )
    module = importlib.import_module(f"{kind.folder}.{name}")
    classes = {  # a class may have two names
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, kind)
        and value.__module__ == module.__name__
    }
    if len(classes) != 1:
        raise SpecError(
            f"{module.__file__} holds {len(classes)} classes derived from {kind.__name__}.",
            means="A plug-in file holds exactly one.",
        )
    return classes.pop()


def _paths(kind: type[Plugin]) -> list[str]:
    """Return the folders of a kind; the user's own is added to the package's path once."""
    paths = importlib.import_module(kind.folder).__path__
    parent = os.environ.get("CLUSTER_PLUGINS")
    if parent:
        folder = str(Path(parent).resolve() / (kind.user_folder or kind.folder.rpartition(".")[2]))
        if folder not in paths and Path(folder).is_dir():
            paths.append(folder)
    return list(paths)
