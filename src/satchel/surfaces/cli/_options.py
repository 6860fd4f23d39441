"""Options that several commands share, and the owner's key that some of them need."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

import typer

from satchel.actions.signing import signing_key
from satchel.seal.signing.key import SigningKey
from satchel.surfaces.cli import _passphrase
from satchel.surfaces.cli._console import message, state


class Acceptable(StrEnum):
    """Verdicts that ``--unsafe-accept`` takes."""

    UNSIGNED = "unsigned"
    STRANGER = "stranger"
    ENTRIES_ONLY = "entries-only"
    INCOMPLETE = "incomplete"


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
InBank = Annotated[
    str | None,
    typer.Option(
        "--bank", help="Name of the bank, its id, or the start of that; else the only one."
    ),
]
Owner = Annotated[
    str | None, typer.Option("--key", help="Name of the owner's key; the default one otherwise.")
]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Scrub = Annotated[
    bool, typer.Option("--scrub-secrets", help="Replace keys, tokens, passwords and cards.")
]
Accept = Annotated[
    list[Acceptable] | None,
    typer.Option("--unsafe-accept", help="Put up with this verdict on a sealed file. Repeatable."),
]
IncludeEmbeddings = Annotated[
    bool,
    typer.Option("--include-embeddings", help="Vectors go along, where both sides have them."),
]
SignWith = Annotated[str | None, typer.Option("--sign-with", help="Name of the signing key.")]
Unsigned = Annotated[bool, typer.Option("--unsafe-unsigned", help="Do not sign a new artifact.")]
AgentName = Annotated[
    str | None, typer.Option("--agent", help="Name of the agent whose memory it is.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
FailOnLoss = Annotated[
    bool, typer.Option("--fail-on-loss", help="Write nothing if something would be lost.")
]


def owner_key(name: str | None) -> SigningKey:
    """Return an owner's key, which is asked for its passphrase, or made on first use."""
    settings = state.settings
    wanted = name or settings.options.keys.name
    there = wanted in settings.keyring.names()
    needed = there and settings.keyring.read(wanted).protected
    passphrase = _passphrase.existing(needed=needed) if needed else None
    key, made = signing_key(settings, name, passphrase=passphrase)
    if made:
        message(f"made a signing key, {wanted!r}; keep a copy: satchel keys export --secret")
    return key


def tell_secrets(found: Mapping[str, int], kept: int) -> None:
    """Say which secrets were met, never what they are."""
    if not found:
        return
    what = ", ".join(f"{number:,} {kind}" for kind, number in found.items())
    done = "kept as they are; --scrub-secrets replaces them" if kept else "replaced"
    message(f"secrets: {what}; {done}")
