"""Benchmarks as batch jobs."""
