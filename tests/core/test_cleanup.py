"""What a failed step leaves."""

import pytest

from cluster.core.errors import on_failure


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt, SystemExit])
def test_a_step_that_fails_is_cleaned_up_and_its_exception_goes_on(
    failure: type[BaseException],
) -> None:
    cleaned: list[str] = []

    with pytest.raises(failure), on_failure(lambda: cleaned.append("up")):
        raise failure

    assert cleaned == ["up"]


def test_a_step_that_succeeds_is_left_as_it_is() -> None:
    cleaned: list[str] = []

    with on_failure(lambda: cleaned.append("up")):
        pass

    assert cleaned == []
