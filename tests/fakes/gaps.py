"""What a test cloud does not know is never passed over."""

from __future__ import annotations


class GapError(Exception):
    """A test cloud does not know what was asked."""
