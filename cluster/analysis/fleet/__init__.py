"""Fleets of hosts: rounds of pairs, the flows of a fabric, and who is to blame for a slow pair."""
