"""Receipts of what was put back from backups, and of what was tried: one for each bank, signed."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from satchel.actions.config import Settings
from satchel.actions.receipts.keeping import keep, signer, tool
from satchel.backup.catalogue import Found
from satchel.backup.manifests import BankPart
from satchel.memory.times import now
from satchel.transfer.receipts.account import VERSION, Account, End, counted, told
from satchel.transfer.receipts.signed import receipt_of

FORMAT = "satchel-backup"
_PREFIX = "blake3:"


def account_of(
    kind: Literal["restore", "drill"],
    began: str,
    ends: tuple[End, End],
    counts: dict[str, int],
    *,
    differs: bool = False,
) -> Account:
    """Return what became of one bank; members that are not known here are to be replaced.

    Args:
        kind: Whether it was put back, or only tried.
        began: When.
        ends: The backup, and where it went or what it was compared with.
        counts: Records that were brought, by type; all of them were read again there.
        differs: Whether what was read again is not what was expected.
    """
    return Account(
        version=VERSION,
        kind=kind,
        tool=tool(),
        began=began,
        ended=now(),
        input=ends[0],
        output=ends[1],
        counts=counted(counts, counts, counts, counts),
        read_back="differs" if differs else "verified",
    )


def end_of(found: Found, part: BankPart) -> End:
    """Return a bank in a backup, as one end of what was done."""
    return End(
        name=told(found.id),
        format=FORMAT,
        digest=_PREFIX + found.digest,
        bank=part.bank,
        size=part.size,
        root=part.root,
        records=part.size,
    )


def kept_receipts(settings: Settings, accounts: Iterable[Account]) -> tuple[list[str], list[str]]:
    """Sign and keep receipts; return their ids, and notes on what went wrong."""
    key = signer(settings, None)
    return keep(settings, [receipt_of(one, key) for one in accounts])


def numbers(**said: int) -> dict[str, int]:
    """Return the numbers that are not 0, by name."""
    return dict(+Counter(said))
