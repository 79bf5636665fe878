"""Checks of a fleet and of the devices within its hosts."""
