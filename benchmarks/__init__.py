"""One file or folder per benchmark: the program that its ranks run, and its definitions.

In the package this folder is `cluster.benchmarks` (docs/explanation/architecture.md).
"""
