"""Capability tokens on every store: the same part of the same bank, and no column can widen it."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Run


@pytest.fixture(params=["sqlite", "ladybug", "postgresql"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The configured store."""
    place = {"sqlite": f"{tmp_path}/s.db", "ladybug": f"ladybug:///{tmp_path}/graph"}.get(
        request.param
    )
    if place is not None:
        monkeypatch.setenv("SATCHEL_STORE", place)
        yield place
        return
    from postgres_kit import in_schema, run_sql

    server, schema = request.getfixturevalue("postgres"), f"s_{uuid.uuid4().hex}"
    monkeypatch.setenv("SATCHEL_STORE", in_schema(server, schema))
    yield in_schema(server, schema)
    run_sql(server, f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.mark.usefixtures("store")
def test_a_part_of_a_bank_is_the_same_on_every_store(satchel: Run, tmp_path: Path) -> None:
    """Seen, counted, recalled, added to, exported and revoked."""
    for text, type_, tag in (
        ("run make check", "procedural", "build"),
        ("the secret recipe", "procedural", "secret"),
        ("ship on Friday", "working", "build"),
    ):
        assert satchel("remember", text, "--type", type_, "--tag", tag).status == 0
    token, out = tmp_path / "x.token", tmp_path / "out.pam.jsonl"
    scope = ["--type", "procedural", "--no-tag", "secret", "--allow", "read,write,export"]
    words = ["token", "issue", "--audience", "default", *scope, "--output", token]
    assert satchel(*words).status == 0
    held = ["--token", token]
    found = satchel(*held, "list", "--json").json["memories"]
    assert [memory["text"] for memory in found] == ["run make check"]
    assert satchel(*held, "recall", "recipe", "--json").json["memories"] == []
    assert satchel(*held, "remember", "run it twice", "--type", "procedural").status == 0
    assert satchel(*held, "remember", "x", "--type", "working").status == 3
    assert satchel(*held, "stats", "--json").json["records"] == 2
    assert satchel(*held, "export", "--output", out).status == 0
    assert b"run it twice" in out.read_bytes()
    assert b"recipe" not in out.read_bytes()
    assert satchel("token", "revoke", token).status == 0
    assert satchel(*held, "list").status == 3
    assert len(satchel("list", "--json").json["memories"]) == 4


def test_a_column_that_was_edited_shows_nothing_more(satchel: Run, tmp_path: Path) -> None:
    """Attack: the type beside a withheld memory is changed to one that the token covers."""
    assert satchel("remember", "run make check", "--type", "procedural").status == 0
    assert satchel("remember", "ship on Friday", "--type", "working").status == 0
    token = tmp_path / "x.token"
    words = ["token", "issue", "--audience", "default", "--type", "procedural", "-o", token]
    assert satchel(*words).status == 0
    database = tmp_path / "satchel-home" / "satchel.db"
    with closing(sqlite3.connect(database)) as found, found:
        assert found.execute(
            "UPDATE record SET type = 'procedural' WHERE type = 'working'"
        ).rowcount
    for verb in (["list"], ["recall", "Friday"], ["stats"]):
        ran = satchel("--token", token, *verb, "--json")
        assert "Friday" not in ran.out + ran.err
        assert ran.status == 3
