"""Other tools' text to values."""
