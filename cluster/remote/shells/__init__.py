"""Shells: run commands and transfer files on one host; one file per kind."""

from __future__ import annotations

from cluster.remote.shell import Shell

__all__ = ["Shell"]
