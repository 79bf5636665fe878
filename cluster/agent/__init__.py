"""The program of cluster on a host: `python3 -m cluster.agent VERB`."""
