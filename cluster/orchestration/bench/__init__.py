"""A benchmark on the hosts of a cluster, from its parameters to its results."""
