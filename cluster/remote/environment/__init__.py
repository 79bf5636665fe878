"""The Python environment on each host."""
