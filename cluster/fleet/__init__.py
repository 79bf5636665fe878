"""Fleets of hosts: rounds of pairs, flows through a fabric, and the parts that make a pair slow."""
