"""Every frozen value that flows between the packages, by subject.

A time is seconds, a size is bytes, a moment is seconds since the epoch (UTC). Values are decoded
strictly: an unknown field is an error.
"""
