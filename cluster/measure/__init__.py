"""What the ranks of a benchmark use."""
