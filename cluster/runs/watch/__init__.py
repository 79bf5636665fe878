"""Benchmarks that a timer repeats."""
