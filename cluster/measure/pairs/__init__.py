"""Tests of pairs of hosts without MPI: an agent on each host, a process for each side of a test."""
