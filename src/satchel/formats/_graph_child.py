"""The program that opens a graph, run by its path in a separate process.

It imports nothing of Satchel. Its arguments are the engine's module, the file (a copy), the key
column of all tables of nodes, and the names of tables. Each line of its output is a JSON list:
``["table", NAME]`` is a table that was not requested, ``["row", TABLE, {COLUMN: VALUE}]`` a node,
or a link with the keys of its ends as ``source_id`` and ``target_id``; the last line is ``["error",
TEXT]`` or ``["end"]``.
"""

import json
import resource
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

_BATCH = 1000
_POOL_BYTES = 1 << 29
_LEAST_BYTES = 1 << 30
_BESIDES_BYTES = 3 << 30
_SECONDS, _BYTES_A_SECOND = 120, 1 << 18


class GraphFile:
    """An open graph.

    Args:
        engine: The engine's module.
        path: The file.
        key: The key column of nodes.
    """

    def __init__(self, engine: Any, path: Path, key: str) -> None:
        self._key = key
        largest = _largest(path)
        # Recovery after a crash needs writing, which is done in the copy.
        unsettled = path.with_name(path.name + ".shadow").exists()
        self._database = engine.Database(
            str(path),
            buffer_pool_size=_POOL_BYTES,
            max_num_threads=1,
            read_only=not unsettled,
            max_db_size=largest,
        )
        self._connection = engine.Connection(self._database, num_threads=1)
        self._tables = dict(self._all("CALL show_tables() RETURN name, type"))

    def others(self, tables: list[str]) -> list[str]:
        """Return the names of other tables."""
        return sorted(set(self._tables) - set(tables))

    def rows(self, tables: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rows of tables, nodes before links."""
        nodes = [name for name in tables if self._tables.get(name) == "NODE"]
        if not nodes:
            return
        for table in nodes:
            for row in self._nodes(table):
                yield table, row
        for table in tables:
            if self._tables.get(table) == "REL":
                for row in self._links(table, nodes):
                    yield table, row

    def _nodes(self, table: str) -> Iterator[dict[str, Any]]:
        columns = self._columns(table)
        key = self._key
        if key not in columns:
            raise ValueError(f"{table} has no {key}")
        properties = ", ".join(f"n.{_quoted(name)}" for name in columns)
        cypher = f"MATCH (n:{_quoted(table)}) WHERE n.{_quoted(key)} = x RETURN {properties}"
        for part in self._keys(table):
            rows = (dict(zip(columns, row, strict=True)) for row in self._rows_at(cypher, part))
            by_key = {row[key]: row for row in rows}
            yield from (by_key[one] for one in part if one in by_key)

    def _links(self, table: str, nodes: list[str]) -> Iterator[dict[str, Any]]:
        columns, key = self._columns(table), _quoted(self._key)
        names = ["source_id", "target_id", *columns]
        properties = "".join(f", l.{_quoted(name)}" for name in columns)
        joined = {tuple(row[:2]) for row in self._all(f"CALL show_connection('{table}') RETURN *")}
        for source, target in sorted(joined):
            if not (source in nodes and target in nodes):
                raise ValueError(f"{table} joins {source} and {target}")
            pattern = f"(a:{_quoted(source)})-[l:{_quoted(table)}]->(b:{_quoted(target)})"
            cypher = f"MATCH {pattern} WHERE a.{key} = x RETURN a.{key}, b.{key}{properties}"
            for part in self._keys(source):
                for row in self._rows_at(cypher, part):
                    yield dict(zip(names, row, strict=True))

    def _columns(self, table: str) -> list[str]:
        return [name for (name,) in self._all(f"CALL table_info('{table}') RETURN name")]

    def _keys(self, table: str) -> Iterator[list[str]]:
        rows = self._all(f"MATCH (n:{_quoted(table)}) RETURN n.{_quoted(self._key)}")
        keys = [key for (key,) in rows]
        for start in range(0, len(keys), _BATCH):
            yield keys[start : start + _BATCH]

    def _rows_at(self, cypher: str, part: list[str]) -> Iterator[list[Any]]:
        return self._each(f"UNWIND $part AS x {cypher}", {"part": part})

    def _all(self, cypher: str) -> list[list[Any]]:
        return list(self._each(cypher, {}))

    def _each(self, cypher: str, values: dict[str, Any]) -> Iterator[list[Any]]:
        result = self._connection.execute(cypher, values)
        while result.has_next():
            yield result.get_next()
        result.close()


def _quoted(name: str) -> str:
    if "`" in name:
        raise ValueError("a name that cannot be queried")
    return f"`{name}`"


def _largest(path: Path) -> int:
    """Return the address space for the file in bytes: a power of two, with a reserve."""
    return max(_LEAST_BYTES, 1 << (4 * path.stat().st_size).bit_length())


def _bound(path: Path) -> None:
    """Limit the resources of this process, since the file is untrusted."""
    seconds = _SECONDS + path.stat().st_size // _BYTES_A_SECOND
    for limit, most in (
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_AS, 2 * _largest(path) + _BESIDES_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(limit)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (soft, hard))


def _engine(module: str) -> Any:
    engine = import_module(module)
    if not hasattr(engine, "Database"):
        raise ValueError(f"the installed package {module} is a different one")
    return engine


def _say(*line: Any) -> None:
    sys.stdout.write(json.dumps(line, default=_text) + "\n")


def _text(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def main() -> int:
    """Print the requested rows."""
    module, file, key, *tables = sys.argv[1:]
    path = Path(file)
    try:
        _bound(path)
        graph = GraphFile(_engine(module), path, key)
        for name in graph.others(tables):
            _say("table", name)
        for table, row in graph.rows(tables):
            _say("row", table, row)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other side tells it
        _say("error", str(error) or type(error).__name__)
        return 1
    _say("end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
