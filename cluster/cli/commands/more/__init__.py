"""List more commands: shared runs, topologies, batch scripts."""

from cluster.cli.command_line import Commands

command = Commands("more", "more", help=__doc__)
