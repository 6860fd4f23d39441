"""The feature table: the paper's rows as it has them, ours as it was measured just now."""

from satchel.actions.evaluating.paper.table import Cell, Table

YES, NO = "yes", "no"

_THEIRS: tuple[tuple[str, ...], ...] = (
    ("MemGPT/Letta", NO, NO, NO, NO, NO),
    ("Mem0", NO, NO, "partial", NO, NO),
    ("Zep/Graphiti", NO, NO, NO, NO, NO),
    ("AMCP", YES, NO, NO, NO, NO),
    ("Soul Protocol", "partial", YES, NO, NO, NO),
    ("Portable Agent Memory", YES, YES, YES, YES, YES),
)
"""Source: the paper, table 1. What they can do now was not looked at."""


def features_table(tables: dict[str, Table], escapes: int) -> Table:
    """Return the feature table.

    Args:
        tables: What was measured, by name: each claim of ours is one of their figures.
        escapes: How many attacks got out of their records.
    """
    ours: list[Cell] = [
        "Satchel",
        _said(_is_carried(tables["tcs"])),
        _said(_all(tables["tampering"], 2)),
        _said(_all(tables["tokens"], 2)),
        _said(escapes == 0),
        _said(any(row[2] is not None for row in tables["rhf"].rows)),
    ]
    return Table(
        name="features",
        title="Features",
        columns=[
            "system",
            "portable",
            "verified",
            "scoped access",
            "injection defence",
            "metrics",
        ],
        rows=[*(list[Cell](row) for row in _THEIRS), ours],
        note="Satchel's row is from the tables below: memory that was carried elsewhere has at "
        "least the TCS of the paper's lowest pair; every change and every bad token was noticed; "
        "no attack got out of its record; fidelity has a figure. The other rows are the paper's.",
    )


_LEAST = 0.83


def _is_carried(table: Table) -> bool:
    """Tell whether each pair has at least the lowest score of the paper's."""
    scores = [row[-3] for row in table.rows[:-1]]
    return all(isinstance(score, float) and score >= _LEAST for score in scores)


def _all(table: Table, column: int) -> bool:
    return all(row[column - 1] == row[column] for row in table.rows)


def _said(holds: bool) -> str:  # noqa: FBT001 - a claim
    return YES if holds else NO
