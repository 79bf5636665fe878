"""What every cloud needs, whichever it is: nothing here knows one by its name."""
