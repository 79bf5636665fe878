"""Known problems, as rules: each is a function of the evidence, and silent without evidence."""
