"""What to type next."""

import shlex

from cluster.core.model.value import Value


class NextStep(Value, frozen=True, kw_only=True):
    """A command of `cluster` to type next."""

    command: str  # such as `check`
    arguments: tuple[str, ...] = ()  # the words after it

    @property
    def line(self) -> str:
        """The line to type, such as `cluster check big --pairs 7-1,7-2`."""
        return shlex.join(("cluster", self.command, *self.arguments))
