"""Uncordon the nodes that a check has cordoned, and no others.

Example: cluster more uncordon latest
"""

from cluster.cli import flags
from cluster.cli.show import print_json, print_lines
from cluster.core import plugins
from cluster.core.errors import SpecError
from cluster.providers import Cordons, Provider
from cluster.runs import store


def command(
    run: flags.Run = flags.LATEST, root: flags.Runs = None, json: flags.Json = False
) -> None:
    check = store.read(store.find(store.root(root), run))
    provider = plugins.load(Provider, check.record.spec.provider)
    if not isinstance(provider, Cordons) or not check.record.machines:
        raise SpecError(
            f"{check.folder.name} is no check of pods, so it has cordoned nothing.",
            remedy="Name the run of the check: cluster runs",
        )
    nodes = provider.uncordon(check.record.machines, check.folder.name)
    if json:
        print_json({"uncordoned": nodes})
    else:
        print_lines(f"Uncordoned: {', '.join(nodes) or 'no node has the mark of this run'}.")
