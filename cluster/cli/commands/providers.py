"""List the providers of hosts, or the options of one.

Example: cluster providers lab
"""

import inspect
from operator import itemgetter
from typing import Annotated

import msgspec

from cluster.cli import flags
from cluster.cli.flags import argument
from cluster.cli.show import print_json, show_rows
from cluster.core import plugins
from cluster.core.model.value import Value
from cluster.core.text.options import help_of
from cluster.providers import Provider
from cluster.reports.table import Column, Columns


class ProviderOption(Value, frozen=True, kw_only=True):
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
        if json:
            print_json(dict(rows))
        else:
            show_rows(
                rows, (Column("provider", itemgetter(0)), Column("what", itemgetter(1))), empty=""
            )
        return
    kind = plugins.find(Provider, name).Options
    texts = help_of(kind)
    options = [
        ProviderOption(name=f.name, default=str(f.default), what=texts.get(f.name, ""))
        for f in msgspec.structs.fields(kind)
    ]
    columns: Columns[ProviderOption] = (
        Column("--option", lambda option: option.name),
        Column("default", lambda option: option.default or "-"),
        Column("what", lambda option: option.what),
    )
    show_rows(options, columns, empty=f"{name} has no options of its own.", as_json=json)
