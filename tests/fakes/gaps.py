"""What a test cloud does not know is never passed over."""


class GapError(Exception):
    """A test cloud does not know what was asked."""
