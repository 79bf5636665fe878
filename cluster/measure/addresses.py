"""The variable that tells every rank the addresses of all ranks, in their order."""

from __future__ import annotations

ADDRESSES = "CLUSTER_ADDRESSES"
