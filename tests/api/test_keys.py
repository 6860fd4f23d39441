"""Signing keys from Python."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from satchel import Keys, aio
from satchel.errors import SigningKeyError, TargetExistsError, UnreadableError


def test_a_key_that_is_created_is_listed_and_its_public_part_exported(tmp_path: Path) -> None:
    """In the home that is named; the file has what others need to trust the key, and no secret."""
    keys = Keys(home=tmp_path / "home")
    made = keys.create("agent", role="writer")
    assert [(line.name, line.key) for line in keys.list()] == [("agent", made.key)]
    exported = keys.export("agent", output=tmp_path / "agent.json")
    assert (exported.key, exported.role) == (made.key, "writer")
    assert made.key in (tmp_path / "agent.json").read_text()
    assert "secret" not in (tmp_path / "agent.json").read_text()
    with pytest.raises(TargetExistsError):
        keys.create("agent")


def test_a_passphrase_protects_a_key_and_none_is_left_unprotected_in_silence(
    tmp_path: Path,
) -> None:
    """``protect`` is for the command line, which asks; here the passphrase is given."""
    keys = Keys(home=tmp_path / "home")
    given: Any = {"protect": True}
    with pytest.raises(TypeError, match=r"create\(\) .*'protect'\. A program gives the passphrase"):
        keys.create("agent", **given)
    assert keys.list() == []
    keys.create("agent", passphrase="correct horse")  # noqa: S106 - of this test
    assert [line.protected for line in keys.list()] == [True]


def test_keys_are_awaited_too(tmp_path: Path) -> None:
    """The same calls."""

    async def run() -> None:
        keys = aio.Keys(home=tmp_path / "home")
        made = await keys.create("agent")
        assert [line.key for line in await keys.list()] == [made.key]

    asyncio.run(run())


def test_an_exported_secret_key_is_imported_in_another_home(tmp_path: Path) -> None:
    """The same key again changes nothing; another one of that name is refused."""
    made = Keys(home=tmp_path / "home").create("agent", passphrase="correct horse")  # noqa: S106
    file = tmp_path / "home" / "keys" / "agent.key"  # as `key export --secret` writes it
    keys = Keys(home=tmp_path / "second")
    with pytest.raises(SigningKeyError, match="passphrase"):
        keys.import_(file)
    imported = keys.import_(file, passphrase="correct horse")  # noqa: S106
    assert (imported.key, imported.imported, imported.protected) == (made.key, True, True)
    assert not keys.import_(file, passphrase="correct horse").imported  # noqa: S106
    assert [(line.name, line.key, line.own) for line in keys.list()] == [("agent", made.key, True)]
    other = Keys(home=tmp_path / "third")
    other.create("agent")
    with pytest.raises(TargetExistsError):
        other.import_(file, passphrase="correct horse")  # noqa: S106
    with pytest.raises(UnreadableError):
        keys.import_("-")
