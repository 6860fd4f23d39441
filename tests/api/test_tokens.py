"""Capability tokens from Python, awaited and not."""

import asyncio
from pathlib import Path

import pytest

import satchel as package
from satchel import Satchel
from satchel.aio import Satchel as Awaited
from satchel.errors import PermissionRefusedError, TokenRevokedError, UsageError


def test_an_owner_shares_and_a_holder_works(tmp_path: Path) -> None:
    """One handle of the owner's, one of the holder's; what one revokes, the other cannot use."""
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


def test_a_part_is_handed_on(tmp_path: Path) -> None:
    """With `satchel.attenuate`; one text is one tag, not its letters."""
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


def test_it_can_be_awaited(tmp_path: Path) -> None:
    """The same calls, for programs that await."""

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
