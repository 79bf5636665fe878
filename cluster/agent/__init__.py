"""What runs on a host itself: `python3 -m cluster.agent VERB`."""
