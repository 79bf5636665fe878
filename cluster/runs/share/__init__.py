"""A run that others may see."""
