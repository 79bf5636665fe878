"""Import of logs, tests of pairs and foreign runs."""
