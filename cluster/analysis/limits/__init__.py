"""The best value that hardware allows, and the share of it that is usual."""
