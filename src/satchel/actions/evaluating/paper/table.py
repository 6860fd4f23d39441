"""A table of figures."""

import msgspec

Cell = str | int | float | None


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Figures, with where the paper has its own."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[Cell]]
    note: str = ""


def cell_text(cell: Cell) -> str:
    """Return a figure as it is shown."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell
