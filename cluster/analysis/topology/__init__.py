"""How GPUs, NICs and hosts are connected, and which path the bytes took."""
