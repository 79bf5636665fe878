"""Shells: run commands and transfer files on one host; one file per kind."""

from cluster.remote.shell import Shell

__all__ = ["Shell"]
