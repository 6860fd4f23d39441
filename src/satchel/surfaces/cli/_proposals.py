"""What more owners have to sign: refused as it is, or written to a file for them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from satchel.actions.keys.proposing import Matter, write_proposal
from satchel.errors import ThresholdError
from satchel.surfaces.cli._console import count, line, message, print_json, state

_NEXT = "Each owner signs it: satchel bank owner sign FILE. Then: satchel bank owner enact FILE"


@contextmanager
def proposed(path: Path | None, *, as_json: bool) -> Iterator[None]:
    """Write what more owners have to sign, where that was asked for; nothing is decided then."""
    try:
        yield
    except ThresholdError as error:
        if path is None:
            raise
        write_proposal(state.settings, path, error.drawn)
        message(error.message)
        if as_json:
            print_json({"proposed": str(path)})
        else:
            tell_proposal(str(path))
        raise click.exceptions.Exit(0) from None


def tell_proposal(path: str) -> None:
    """Print where a proposal is, and what comes next."""
    line(path)
    message(_NEXT)


def show_matters(matters: Sequence[Matter]) -> None:
    """Say in words what is proposed, and who signed it."""
    for one in matters:
        line(_WORDS.get(one.action, one.action))
        for name, value in one.about.items():
            line(f"  {name}: {value}")
        line(f"  bank: {one.bank}")
        line(f"  {count(len(one.signed_by), 'signature')}")
        for key in one.signed_by:
            line(f"    {key}")


_WORDS = {
    "writer_added": "Allow a machine to add to the bank",
    "renamed": "Rename the bank",
    "key_succession": "Replace the key of an owner",
    "key_retired": "Retire a key",
    "key_revoked": "Revoke a key",
    "owner_added": "Add an owner",
    "threshold_set": "Set how many owners must sign",
    "rollback_accepted": "Accept that records seen earlier are lost",
    "restored": "Resume from a backup",
}
