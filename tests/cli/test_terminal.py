"""What is made to be looked at: 80 columns, no colour without a terminal, JSON when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

if TYPE_CHECKING:
    from tests.cli.conftest import Run

LONG = (
    "Ada's ferry 咖啡 leaves the third pier, which is further from here than any line is wide. " * 3
)


@pytest.mark.parametrize("colour", ["NO_COLOR", "TERM", ""], ids=["off", "dumb", "usual"])
def test_the_tree_of_memory_fits_into_80_columns(
    satchel: Run, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """Without a terminal there is no colour either; what is recalled is given whole."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if colour:
        monkeypatch.setenv(colour, "1" if colour == "NO_COLOR" else "dumb")
    for number in range(3):
        text = f"{number} {LONG} \x1b[31mred"
        assert satchel("remember", text, "--tag", "a" * 60, "--agent", "b" * 60).status == 0
    recalled, tree = satchel("recall", "ferry").out, satchel("memory", "tree").out
    assert "Ada" in recalled
    assert "\x1b" not in recalled + tree
    assert [line for line in tree.splitlines() if cell_len(line) > 80] == []
    assert satchel("recall", "ferry", "--json").json["memories"]
    assert satchel("memory", "tree", "--json").json
