"""The classes of hangs, as rules: each is a function of the situation, None without its evidence.

A file is found by being there; its `RULES` have a number each: the lowest explains the others. A
rule that is added has its words in its `Cause`.
"""
