"""What a cluster is made of: its state, the set-up and the teardown of its hosts."""
