"""Keys, owners and capability tokens from Python."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import satchel as package
from satchel import Keys, Satchel, aio
from satchel.aio import Satchel as Awaited
from satchel.bank.machine_keys import create_key
from satchel.config.settings import load_settings
from satchel.errors import (
    PermissionRefusedError,
    SigningKeyError,
    TargetExistsError,
    ThresholdError,
    TokenRevokedError,
    UnreadableError,
    UsageError,
)

# -- keys --------------------------------------------------------------------------------


def test_a_created_key_is_listed_and_its_public_part_is_exported(tmp_path: Path) -> None:
    """The exported file has what others need to trust the key, and no secret."""
    keys = Keys(home=tmp_path / "home")
    made = keys.create("agent", role="writer")
    assert [(line.name, line.key) for line in keys.list()] == [("agent", made.key)]
    exported = keys.export("agent", output=tmp_path / "agent.json")
    assert (exported.key, exported.role) == (made.key, "writer")
    assert made.key in (tmp_path / "agent.json").read_text()
    assert "secret" not in (tmp_path / "agent.json").read_text()
    with pytest.raises(TargetExistsError):
        keys.create("agent")


def test_a_passphrase_protects_a_key(
    tmp_path: Path,
) -> None:
    """``protect`` is refused: only the command line can ask for a passphrase."""
    keys = Keys(home=tmp_path / "home")
    given: Any = {"protect": True}
    with pytest.raises(TypeError, match=r"create\(\) .*'protect'\. A program gives the passphrase"):
        keys.create("agent", **given)
    assert keys.list() == []
    keys.create("agent", passphrase="correct horse")  # noqa: S106 - of this test
    assert [line.protected for line in keys.list()] == [True]


def test_keys_have_async_methods(tmp_path: Path) -> None:
    """In ``satchel.aio``."""

    async def run() -> None:
        keys = aio.Keys(home=tmp_path / "home")
        made = await keys.create("agent")
        assert [line.key for line in await keys.list()] == [made.key]

    asyncio.run(run())


def test_an_exported_secret_key_is_imported_in_another_home(tmp_path: Path) -> None:
    """The same key again changes nothing; another key with that name is refused."""
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


# -- owners ------------------------------------------------------------------------------


def test_two_owners_approve_a_change_with_a_proposal_file(tmp_path: Path) -> None:
    """As by the commands."""
    file = tmp_path / "proposal.json"
    with Satchel.open() as home:
        bank = home.bank()
        bank.remember("likes tea")
        ben = create_key(load_settings(), "ben")
        found = bank.owners.add("ben")
        assert (found.threshold, len(found.owners)) == (1, 2)
        assert bank.owners.set_threshold(2).threshold == 2
        with pytest.raises(ThresholdError) as refused:
            bank.owners.set_threshold(1)
        bank.owners.propose(refused.value, file)
        (matter,) = bank.owners.sign(file, dry_run=True)
        assert (matter.action, len(matter.signed_by)) == ("threshold_set", 1)
        with pytest.raises(ThresholdError):
            bank.owners.enact(file)
        (matter,) = bank.owners.sign(file, signing_key="ben")
        assert ben.did in matter.signed_by
        assert bank.owners.enact(file)[0].enacted
        assert bank.owners.list().threshold == 1
        assert bank.owners.set_threshold(2, signing_key="ben").threshold == 2
        assert bank.owners.set_threshold(1, co_signers=["ben"]).threshold == 1


def test_a_proposal_for_another_bank_is_refused(tmp_path: Path) -> None:
    """A handle belongs to one bank."""
    with Satchel.open() as home:
        one, other = home.create_bank("one"), home.create_bank("other")
        file = tmp_path / "p.json"
        with pytest.raises(ThresholdError) as refused:
            one.owners.add("did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd")
        one.owners.propose(refused.value, file)
        with pytest.raises(UsageError, match="another bank"):
            other.owners.enact(file)


def test_owners_are_listed_by_async_calls() -> None:
    """In ``satchel.aio``."""

    async def work() -> int:
        async with Awaited.open() as home:
            bank = await home.bank()
            await bank.remember("x")
            return (await bank.owners.list()).threshold

    assert asyncio.run(work()) == 1


# -- tokens ------------------------------------------------------------------------------


def test_a_token_holder_has_the_granted_permissions_until_revocation(tmp_path: Path) -> None:
    """The owner and the holder have a handle each."""
    with Satchel.open() as owner:
        bank = owner.bank()
        bank.remember("a skill", type="procedural")
        bank.remember("a customer")
        made = bank.tokens.issue(
            audience="default", types=["procedural"], permissions=["read", "write"]
        )
        with Satchel.open(token=made.text) as holder:
            part = holder.bank()
            assert [memory.text for memory in part.list()] == ["a skill"]
            part.remember("another skill", type="procedural")
            with pytest.raises(PermissionRefusedError):
                part.export(tmp_path / "x.pam")
            with pytest.raises(PermissionRefusedError):
                part.undo()
            with pytest.raises(PermissionRefusedError):
                part.tokens.list()
            for refused in (holder.list_banks, holder.jobs, holder.receipts):
                with pytest.raises(PermissionRefusedError):
                    refused()
            with pytest.raises(PermissionRefusedError):
                holder.create_bank("mine")
            assert bank.tokens.verify(made.text)
            assert bank.tokens.revoke(made.id).is_new
            with pytest.raises(TokenRevokedError):
                part.list()
        assert len(bank.list()) == 3
        assert [one.state for one in bank.tokens.list(all=True).tokens] == ["revoked"]


def test_a_token_can_be_attenuated(tmp_path: Path) -> None:
    """With ``satchel.attenuate``; a single text is one tag."""
    with Satchel.open() as owner:
        bank = owner.bank()
        bank.remember("x", tags=["a"])
        bank.tokens.issue(audience="default", everything=True, output=tmp_path / "a.token")
    token = str(tmp_path / "a.token")
    part = package.attenuate(token, audience="default", any_tags=["b"], output=tmp_path / "b.token")
    assert len(part.tokens) == 2
    with Satchel.open(token=tmp_path / "b.token") as holder:
        assert len(holder.bank().list()) == 0
    one = package.attenuate(token, audience="default", any_tags="bc")
    assert one.tokens[-1].scope == ["tags any of bc"]
    with pytest.raises(UsageError):
        package.attenuate(token, audience="default", permissions=["write"], everything=True)


def test_tokens_have_async_methods(tmp_path: Path) -> None:
    """In ``satchel.aio``."""

    async def story() -> list[str | None]:
        async with Awaited.open() as owner:
            bank = await owner.bank()
            await bank.remember("x", type="working")
            await bank.tokens.issue(
                audience="default", types=["working"], output=tmp_path / "a.token"
            )
        async with Awaited.open(token=tmp_path / "a.token") as holder:
            listing = await (await holder.bank()).list()
            return [memory.text for memory in listing]

    assert asyncio.run(story()) == ["x"]
