"""The classes of hangs: a file each.

Each has a `PRECEDENCE` (the lowest explains the others) and `find_cause`, which returns None
without its evidence. One that is added has its words in its `Cause`.
"""
