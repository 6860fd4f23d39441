"""What the four ways to settle a conflict promise, over banks and files of any content."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from import_kit import bring, rows, texts, write

from satchel.errors import ConflictError
from satchel.transfer.import_results import ConflictPolicy

_WORDS = st.sampled_from(["tea", "coffee", "water", "milk"])
_FILE = st.lists(
    st.tuples(st.sampled_from("12345"), _WORDS),
    min_size=1,
    max_size=5,
    unique_by=lambda one: one[0],
)


def _import(path: Path, memories: list[tuple[str, str]], mode: ConflictPolicy) -> Any:
    return bring(write(path, rows(*memories)), on_conflict=mode)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_FILE, _FILE, st.sampled_from(ConflictPolicy))
def test_each_conflict_policy_is_applied_and_a_second_import_changes_nothing(
    first: list[tuple[str, str]], second: list[tuple[str, str]], mode: ConflictPolicy
) -> None:
    """``skip`` keeps the bank's, ``overwrite`` the file's, ``rename`` both, ``error`` nothing."""
    old, new = dict(first), dict(second)
    changed = {name for name in old.keys() & new.keys() if old[name] != new[name]}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("SATCHEL_HOME", f"{folder}/home")
        patched.setenv("SATCHEL_WITNESS", f"{folder}/witness")
        path = Path(folder) / "a.json"
        _import(path, first, ConflictPolicy.SKIP)
        if mode is ConflictPolicy.ERROR and changed:
            with pytest.raises(ConflictError):
                _import(path, second, mode)
            expected = list(old.values())
        else:
            done = _import(path, second, mode)
            assert done.accounts[0].unchanged is (done.banks[0].source is None)
            expected = {
                ConflictPolicy.SKIP: list({**new, **old}.values()),
                ConflictPolicy.ERROR: list({**new, **old}.values()),
                ConflictPolicy.OVERWRITE: list({**old, **new}.values()),
                ConflictPolicy.RENAME: [*{**new, **old}.values(), *(new[name] for name in changed)],
            }[mode]
            again = _import(path, second, mode)
            assert not again.changed
            assert again.accounts[0].unchanged
        assert sorted(map(str, texts())) == sorted(expected)
