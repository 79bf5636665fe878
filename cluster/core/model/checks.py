"""What `cluster doctor` looks for."""

from cluster.core.model.value import Value


class DoctorCheck(Value, frozen=True, kw_only=True):
    """One thing that was looked for."""

    what: str  # was looked for
    ok: bool  # it is there, or only some commands need it
    found: str  # a version, a path, or that it is missing
    remedy: str = ""  # the command that installs it, if it is missing
    needed_for: str = ""  # the commands that need it; empty if all do
    missing: bool = False  # it is not there
