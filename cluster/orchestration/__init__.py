"""Launch hosts, run jobs on them, and collect their results."""
