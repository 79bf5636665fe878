"""Summaries as text, plots and pages."""


def __getattr__(name: str) -> None:
    from cluster.core.moved import look_up  # noqa: PLC0415 - only for paths of the previous revision

    look_up(__name__, name)
