"""Launch hosts, run a job on them, collect its results: where the packages meet."""
