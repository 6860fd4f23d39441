"""Keys that change, stores that went back, on every store: the same refusals and ways on."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from vanished_kit import delete_store

from satchel.config.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Run


@pytest.fixture
def other(any_store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of another store of the same kind, where nothing is."""
    if any_store.startswith("ladybug"):
        yield f"ladybug:///{tmp_path}/other-graph"
    elif any_store.startswith("postgres"):
        from postgres_kit import in_schema, run_sql

        server, schema = request.getfixturevalue("postgres"), f"s_{uuid.uuid4().hex}"
        yield in_schema(server, schema)
        run_sql(server, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    else:
        yield f"{tmp_path}/other.db"


def _texts(satchel: Run, *options: str) -> list[str]:
    found = satchel(*options, "list", "--json")
    assert found.status == 0, found.err
    return sorted(memory["text"] for memory in found.json["memories"])


@pytest.mark.usefixtures("any_store")
def test_keys_are_replaced_retired_and_revoked_on_any_store(satchel: Run, tmp_path: Path) -> None:
    """Tokens of a replaced key stay good, those of a revoked one end; writers follow each other."""
    token = tmp_path / "t.token"
    assert satchel("remember", "likes tea").status == 0
    assert satchel("key", "create", "holder").status == 0
    issue = ("token", "issue", "--audience", "holder", "--everything", "--output", token)
    assert satchel(*issue).status == 0
    old = satchel("key", "export", "default").json["key"]
    assert "recorded in its log" in satchel("key", "rotate").err
    assert _texts(satchel, "--token", str(token)) == ["likes tea"]
    assert satchel("key", "rotate", "writer").status == 0  # which retires the old one
    assert satchel("remember", "likes milk").status == 0
    assert satchel("key", "revoke", old, "--reason", "stolen").status == 0
    assert satchel("--token", token, "list").status == 3
    assert _texts(satchel) == ["likes milk", "likes tea"]
    assert satchel("doctor", "--deep").status == 0


def test_another_store_learns_of_a_new_key_on_any_store(satchel: Run, other: str) -> None:
    """By a hand-over, once; until then the new key decides nothing there."""
    assert satchel("--store", other, "bank", "create", "away").status == 0
    assert satchel("key", "rotate").status == 0
    assert satchel("--store", other, "bank", "rename", "away", "x").status == 3
    assert satchel("--store", other, "key", "hand-over").status == 0
    assert satchel("--store", other, "bank", "rename", "away", "x").status == 0


def test_a_rolled_back_store_is_refused_on_any_store(
    satchel: Run, any_store: str, other: str, tmp_path: Path
) -> None:
    """A rollback, and then a fork: each refused with what accepts it, and accepted by that."""
    assert satchel("remember", "likes tea").status == 0
    assert satchel("store", "copy", any_store, other).status == 0
    assert satchel("remember", "likes milk").status == 0
    elsewhere = ("--store", other)
    for words in (("list",), ("remember", "x")):
        ran = satchel(*elsewhere, *words, "--json")
        assert (ran.status, ran.error["code"]) == (3, "verify.rolled_back")
        assert "satchel bank accept-loss" in ran.error["hint"]
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        for text in ("likes rum", "likes gin"):
            assert satchel(*elsewhere, "remember", text).status == 0
    ran = satchel(*elsewhere, "list", "--json")
    assert (ran.status, ran.error["code"]) == (3, "verify.forked")
    assert "satchel bank accept-loss" in ran.error["hint"]
    assert satchel(*elsewhere, "bank", "accept-loss", "default", "--reason", "disk").status == 0
    assert _texts(satchel, *elsewhere) == ["likes gin", "likes rum", "likes tea"]


def test_a_missing_bank_is_reported_on_any_store(
    satchel: Run, any_store: str, other: str, tmp_path: Path
) -> None:
    """Another store in the place of the one that had it; until that is accepted."""
    assert satchel("remember", "likes tea").status == 0
    bank = satchel("bank", "list", "--json").json["banks"][0]["id"]
    delete_store(any_store)
    with pytest.MonkeyPatch.context() as machine:
        machine.setenv("SATCHEL_WITNESS", str(tmp_path / "other-witness"))
        assert satchel("bank", "create", "another").status == 0
    ran = satchel("list", "--bank", bank, "--json")
    assert (ran.status, ran.error["code"]) == (3, "verify.rolled_back")
    assert "satchel bank accept-gone" in ran.error["hint"]
    assert satchel("bank", "accept-gone", bank).status == 0
    ran = satchel("list", "--bank", bank, "--json")
    assert (ran.status, ran.error["code"]) == (2, "bank.unknown")
    assert satchel("list").status == 0
    ran = satchel("--store", other, "list", "--bank", bank, "--json")
    assert ran.status == 2, "a store that never had it misses nothing"


@pytest.mark.usefixtures("any_store")
def test_a_bank_with_lost_keys_is_adopted_on_any_store(satchel: Run) -> None:
    """It is read as ever; adding is refused with what goes on, which then goes on."""
    assert satchel("remember", "likes tea").status == 0
    home = load_settings().home
    shutil.rmtree(home / "keys")
    (home / "trust.json").unlink()
    assert _texts(satchel) == ["likes tea"]
    ran = satchel("remember", "likes milk")
    assert ran.status != 0
    assert "bank admit" in ran.err or "bank adopt" in ran.err
    assert satchel("bank", "adopt", "default", "--reason", "the laptop is gone").status == 0
    assert satchel("remember", "likes milk").status == 0
