"""A store on a server, from the command line."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from postgres_kit import as_role, in_schema, run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Run

_SECRET = "hunter2-hunter2"  # noqa: S105 - of nobody


@pytest.fixture(autouse=True)
def address(postgres: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The configured store: a schema of its own, a password that the server does not ask for."""
    schema = f"s_{uuid.uuid4().hex}"
    place = in_schema(as_role(postgres, "postgres", _SECRET), schema)
    monkeypatch.setenv("SATCHEL_STORE", place)
    yield place
    run_sql(postgres, f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def test_what_is_remembered_on_a_server_is_recalled_from_it(satchel: Run) -> None:
    """Init, remember, recall, list, forget, and the health of it."""
    assert satchel("bank", "list").status == 0
    assert satchel("init").status == 0
    first = satchel("remember", "the harbour opens at nine", "--user", "ada").out.strip()
    satchel("remember", "likes tea")
    assert "harbour" in satchel("recall", "when does the harbour open").out
    assert satchel("forget", first, "--reason", "over").status == 0
    assert [each["text"] for each in satchel("list", "--json").json["memories"]] == ["likes tea"]
    assert satchel("doctor", "--deep").status == 0


def test_a_password_is_not_shown_by_any_command(
    satchel: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor where the store is not there, or the address is none."""
    ran = [
        satchel("init", "--json"),
        satchel("doctor"),
        satchel("doctor", "--json"),
        satchel("config", "show"),
        satchel("stats"),
        satchel("pull", address),
    ]
    for wrong, status in (
        (f"postgresql://ada:{_SECRET}@127.0.0.1:1/x", 5),
        (f"postgres://ada:{_SECRET}@h/x", 2),
        (f"postgresql://ada:{_SECRET}@[::1/x", 2),
        (f"postgresql://ada:{_SECRET}@h/x?schema=A", 2),
    ):
        monkeypatch.setenv("SATCHEL_STORE", wrong)
        ran.append(satchel("list"))
        assert ran[-1].status == status
        ran.append(satchel("doctor"))
    for one in ran:
        assert one.out + one.err
        assert _SECRET not in one.out + one.err


def test_a_bank_goes_to_a_server_and_back(
    satchel: Run, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file, with the same records in the same order."""
    monkeypatch.setenv("SATCHEL_STORE", str(tmp_path / "here.db"))
    satchel("init")
    for number in range(5):
        satchel("remember", f"memory {number}")
    before = satchel("list", "--json").json["memories"]
    assert len(before) == 5
    assert satchel("push", address).status == 0
    monkeypatch.setenv("SATCHEL_STORE", address)
    assert satchel("push", str(tmp_path / "back.db")).status == 0
    assert satchel("list", "--json").json["memories"] == before
    assert satchel("push", address).status == 2
    monkeypatch.setenv("SATCHEL_STORE", str(tmp_path / "back.db"))
    assert satchel("list", "--json").json["memories"] == before
