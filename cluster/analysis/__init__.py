"""Pure functions from measurements to what they say."""
