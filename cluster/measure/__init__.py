"""What a benchmark's ranks use: the interface, timing, buffers, kernels and starters."""
