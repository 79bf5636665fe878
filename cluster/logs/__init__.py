"""Reads what other tools printed: from text to values."""
