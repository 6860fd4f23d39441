"""A table in an SQL database: what SQLite and PostgreSQL say the same."""

from satchel.ports.outward.sink import COLUMNS, WORDS

TABLE, POSITIONS = "satchel_log", "satchel_sink"

_POSITION = "bank TEXT PRIMARY KEY, seq BIGINT, id TEXT, version BIGINT"
_INTEGERS = frozenset({"seq", "batch"})
_QUOTED = {name: f'"{name}"' for name in COLUMNS}  # `user` and others are words of SQL


def tables() -> list[str]:
    """Return the statements that make the tables where they are not there."""
    kinds = {name: "BIGINT" if name in _INTEGERS else "TEXT" for name in COLUMNS}
    columns = ", ".join(f"{_QUOTED[name]} {kind}" for name, kind in kinds.items())
    return [
        f"CREATE TABLE IF NOT EXISTS {TABLE} ({columns}, PRIMARY KEY (bank, seq))",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_id ON {TABLE} (id)",
        f"CREATE INDEX IF NOT EXISTS {TABLE}_target ON {TABLE} (target)",
        f"CREATE TABLE IF NOT EXISTS {POSITIONS} ({_POSITION})",
    ]


def adding(mark: str) -> str:
    """Return the statement that adds a row, or leaves the same one that is there."""
    names, marks = ", ".join(_QUOTED.values()), ", ".join(mark for _ in COLUMNS)
    what = f"INSERT INTO {TABLE} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours only
    return f"{what} ON CONFLICT (bank, seq) DO NOTHING"


def emptying(mark: str) -> str:
    """Return the statement that takes the words of an erased record away: of bank and id."""
    words = ", ".join(f"{_QUOTED[name]} = NULL" for name in WORDS)
    where = f"bank = {mark} AND id = {mark}"
    return f"UPDATE {TABLE} SET {words} WHERE {where}"  # noqa: S608 - names of ours only


def moving(mark: str) -> str:
    """Return the statement that sets the last row: bank, place, id, version."""
    marks = ", ".join([mark] * 4)
    what = f"INSERT INTO {POSITIONS} (bank, seq, id, version) VALUES ({marks})"  # noqa: S608 - idem
    new = "seq = excluded.seq, id = excluded.id, version = excluded.version"
    return f"{what} ON CONFLICT (bank) DO UPDATE SET {new}"


def asking(mark: str) -> str:
    """Return the query for the last row of a bank: place, id, version."""
    return f"SELECT seq, id, version FROM {POSITIONS} WHERE bank = {mark}"  # noqa: S608 - idem
