"""Owners of a bank from Python, awaited and not."""

import asyncio
from pathlib import Path

import pytest

from satchel import Satchel
from satchel.aio import Satchel as Awaited
from satchel.bank.machine_keys import create_key
from satchel.config.settings import load_settings
from satchel.errors import ThresholdError, UsageError


def test_two_owners_decide_together_and_by_a_file(tmp_path: Path) -> None:
    """As the commands do, on the store that is open."""
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


def test_what_is_proposed_of_another_bank_is_refused(tmp_path: Path) -> None:
    """A handle is for its bank."""
    with Satchel.open() as home:
        one, other = home.create_bank("one"), home.create_bank("other")
        file = tmp_path / "p.json"
        with pytest.raises(ThresholdError) as refused:
            one.owners.add("did:key:z6MkehRgf7yJbgaGfYsdoAsKdBPE3dj2CYhowQdcjqSJgvVd")
        one.owners.propose(refused.value, file)
        with pytest.raises(UsageError, match="another bank"):
            other.owners.enact(file)


def test_owners_are_listed_by_async_calls() -> None:
    """The same calls in `satchel.aio`."""

    async def work() -> int:
        async with Awaited.open() as home:
            bank = await home.bank()
            await bank.remember("x")
            return (await bank.owners.list()).threshold

    assert asyncio.run(work()) == 1
