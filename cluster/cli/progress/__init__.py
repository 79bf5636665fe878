"""What is shown while something runs: hosts, jobs, and the pairs of a fleet."""
