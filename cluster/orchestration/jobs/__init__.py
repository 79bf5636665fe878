"""Jobs: commands on some hosts of a cluster, several at once, with names."""
