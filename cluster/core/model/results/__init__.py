"""What was measured: values, limits, fits, notes and records of runs."""
