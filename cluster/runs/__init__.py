"""Runs on disk and in object stores."""


def __getattr__(name: str) -> None:
    from cluster.core.moved import look_up  # noqa: PLC0415 - only for paths of the revision before

    look_up(__name__, name)
