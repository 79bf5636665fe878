"""Pure functions that turn measurements into statistics, bounds, verdicts and findings."""
