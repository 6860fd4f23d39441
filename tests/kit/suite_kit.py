"""Run the tests of a conformance suite on broken subjects, which have to fail them."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings

_SHORT = settings(
    phases=[Phase.explicit, Phase.generate],
    max_examples=200,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def shorten(check: Callable[..., None], patch: pytest.MonkeyPatch) -> None:
    """Run fewer examples of a property, and do not minimize them.

    A decorator would change the test for other modules as well.
    """
    patch.setattr(check, "_hypothesis_internal_use_settings", _SHORT, raising=False)


def fails(
    check: Callable[[], object], errors: type[Exception] | tuple[type[Exception], ...] = Exception
) -> bool:
    """Return whether a test of a suite fails; a skip does not count.

    Args:
        check: Runs the test.
        errors: The errors that count as a failure.
    """
    try:
        check()
    except errors:
        return True
    except (pytest.fail.Exception, pytest.skip.Exception) as outcome:
        return isinstance(outcome, pytest.fail.Exception)
    return False
