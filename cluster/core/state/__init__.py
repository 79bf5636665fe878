"""What this machine keeps of clusters: journals, claims, keys, and how files are written."""
