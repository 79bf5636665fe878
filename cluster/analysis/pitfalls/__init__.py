"""Known troubles, as rules: each a function of the evidence, silent if it has none."""
