"""Findings about hosts, pairs of hosts, groups of hosts, and the fabric between them."""
