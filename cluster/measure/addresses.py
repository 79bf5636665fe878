"""The variables that tell every rank about all of them."""

ADDRESSES = "CLUSTER_ADDRESSES"  # of their hosts, in the order of the ranks
RANKS = "CLUSTER_RANKS"  # how many there are, where the starter chooses their hosts
