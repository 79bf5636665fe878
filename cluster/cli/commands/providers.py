"""List the providers of hosts, or the options of one.

Example: cluster providers lab
"""

from __future__ import annotations

import inspect
from typing import Annotated

import msgspec

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.cli.show import print_json, table
from cluster.core import plugins
from cluster.core.model.value import Value
from cluster.core.options import help_of
from cluster.providers import Provider


class ProviderOption(Value, frozen=True, kw_only=True):
    """An option of a provider."""

    name: str
    default: str
    what: str


def command(
    name: Annotated[str, argument("NAME", "A provider.", autocompletion=flags.providers)] = "",
    json: flags.Json = False,
) -> None:
    if not name:
        modules = {k: inspect.getmodule(plugins.find(Provider, k)) for k in plugins.names(Provider)}
        rows = [(k, (inspect.getdoc(m) or "").partition("\n")[0]) for k, m in modules.items()]
        print_json(dict(rows)) if json else table(("provider", "what"), rows, empty="")
        return
    kind = plugins.find(Provider, name).Options
    about = help_of(kind)
    options = [
        ProviderOption(name=f.name, default=str(f.default), what=about.get(f.name, ""))
        for f in msgspec.structs.fields(kind)
    ]
    if json:
        print_json(options)
        return
    table(
        ("--option", "default", "what"),
        [(o.name, o.default or "-", o.what) for o in options],
        empty=f"{name} has no options of its own.",
    )
