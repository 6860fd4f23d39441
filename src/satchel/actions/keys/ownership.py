"""Operations on the owners of a bank: who they are, and how many must sign a decision about it."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from satchel.actions.config import Settings
from satchel.actions.keys import owners as actions
from satchel.actions.keys import proposing
from satchel.actions.keys.owners import BankOwners
from satchel.actions.keys.proposing import Matter
from satchel.actions.keys.told import Owners
from satchel.actions.options import (
    NOT_FOR_MODELS,
    DryRun,
    OwnerOptions,
    SigningOptions,
)
from satchel.actions.permitted.owning import require_owner
from satchel.actions.signing import signer_of, signers_of, signing_key
from satchel.ports.operations import Option, Options, PathText, operation
from satchel.ports.store import Store
from satchel.seal.signing.key import SigningKey as Key

_DECIDED_ELSEWHERE = {**NOT_FOR_MODELS, "http": "Owners decide on the machines that have the keys."}


class OwnedBank(NamedTuple):
    """A bank of an open store, as its owners decide about it."""

    settings: Settings
    store: Store
    bank: str


File = Annotated[
    PathText,
    Option("File that --propose wrote.", argument=True, metavar="FILE", values="file"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerListOptions(Options):
    """No options."""


@operation(
    OwnerListOptions,
    name="bank owner list",
    example="satchel bank owner list assistant",
    absent=NOT_FOR_MODELS,
)
def list_owners(owned: OwnedBank, _: OwnerListOptions) -> BankOwners:
    """List the owners of a bank, and how many of them must sign a decision about it."""
    return actions.owners_in(owned.settings, owned.store, owned.bank)


@dataclass(frozen=True, slots=True)
class OwnerAddOptions(OwnerOptions):
    """Which key becomes an owner, and who signs it."""

    key: Annotated[
        str,
        Option("Key: a did:key, or the name of a key.", argument=True, metavar="KEY", values="key"),
    ]
    _: KW_ONLY


@operation(
    OwnerAddOptions,
    name="bank owner add",
    example="satchel bank owner add assistant did:key:z6Mk... --propose ben.json",
    absent=_DECIDED_ELSEWHERE,
)
def add_owner(
    owned: OwnedBank,
    options: OwnerAddOptions,
    *,
    owners: Callable[[], Owners] | None = None,
    newcomer: Callable[[str], Key] | None = None,
) -> BankOwners:
    """Make a key an owner of a bank. The key has to agree, so it signs too.

    If its secret is on another machine, add `--propose` and sign the file there.

    Args:
        owned: The bank.
        options: Which key.
        owners: Returns the keys of the owners who sign it.
        newcomer: Returns the new owner's key, if its secret is here.

    Raises:
        ThresholdError: If more owners must sign, or the key itself, whose secret is elsewhere.
        UsageError: If the key ended in this bank, or the bank has too many owners.
        SigningKeyError: If the key that signs is not that of an owner.
    """
    settings, key = owned.settings, None
    if options.key in settings.keyring.names():
        load = newcomer or (
            lambda name: signing_key(settings, name, passphrase=options.passphrase)[0]
        )
        key = load(options.key)
    signers, place = signers_of(settings, options, owners), (owned.store, owned.bank)
    return actions.add_owner_in(settings, place, signers, options.key, key)


@dataclass(frozen=True, slots=True)
class OwnerThresholdOptions(OwnerOptions):
    """How many owners must sign, and who signs that."""

    threshold: Annotated[
        int, Option("Number of owners who must sign.", argument=True, metavar="N", minimum=1)
    ]
    _: KW_ONLY


@operation(
    OwnerThresholdOptions,
    name="bank owner threshold",
    example="satchel bank owner threshold assistant 2 --co-signer ben",
    absent=_DECIDED_ELSEWHERE,
)
def set_threshold(
    owned: OwnedBank,
    options: OwnerThresholdOptions,
    *,
    owners: Callable[[], Owners] | None = None,
) -> BankOwners:
    """Set how many owners must sign a decision about a bank.

    Decisions are: who owns it, which machines may add to it, its name, and resuming after a loss.
    As many as before must sign this, also to lower it. Storing memories needs no owner.

    Args:
        owned: The bank.
        options: How many.
        owners: Returns the keys of the owners who sign it.

    Raises:
        ThresholdError: If more owners must sign.
        UsageError: If there are fewer owners.
        SigningKeyError: If the key that signs is not that of an owner.
    """
    signers, place = signers_of(owned.settings, options, owners), (owned.store, owned.bank)
    return actions.set_threshold_in(owned.settings, place, signers, options.threshold)


@dataclass(frozen=True, slots=True)
class OwnerSignOptions(SigningOptions):
    """Which proposal to sign, with which key."""

    file: File
    _: KW_ONLY
    dry_run: DryRun = False


@operation(
    OwnerSignOptions,
    name="bank owner sign",
    example="satchel bank owner sign proposal.json --signing-key ben",
    items="decisions",
    absent=_DECIDED_ELSEWHERE,
)
def sign_proposal(
    context: Settings | OwnedBank,
    options: OwnerSignOptions,
    *,
    owner: Callable[[], Key] | None = None,
) -> list[Matter]:
    """Sign a proposal about a bank. This does not enact it.

    Read it first, and check that it is about the bank you mean: `--dry-run` signs nothing.

    Args:
        context: Where keys are.
        options: Which proposal.
        owner: Returns the key that signs it.

    Raises:
        MalformedError: If it is no proposal.
        SigningKeyError: If the key is not here.
    """
    settings = context if isinstance(context, Settings) else context.settings
    require_owner(settings, "banks")
    path = Path(options.file)
    if options.dry_run:
        return list(proposing.read_proposal(settings, path))
    key = signer_of(settings, options, owner)
    return list(proposing.sign_proposal(settings, path, key))


@dataclass(frozen=True, slots=True)
class OwnerEnactOptions(Options):
    """Which proposal to enact."""

    file: File


@operation(
    OwnerEnactOptions,
    name="bank owner enact",
    example="satchel bank owner enact proposal.json",
    items="decisions",
    absent=_DECIDED_ELSEWHERE,
)
def enact_proposal(context: Settings | OwnedBank, options: OwnerEnactOptions) -> Sequence[Matter]:
    """Record in the log of a bank what enough of its owners have signed.

    Args:
        context: The store, or one bank that it has to be about.
        options: Which proposal.

    Raises:
        ThresholdError: If more owners must sign.
        UsageError: If it is about another bank, or was made for another state of it.
    """
    path = Path(options.file)
    if isinstance(context, Settings):
        require_owner(context, "banks")
        return proposing.enact_proposal(context, path)
    require_owner(context.settings, "banks")
    return proposing.enact_in(context.settings, context.store, context.bank, path)
