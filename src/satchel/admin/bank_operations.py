"""Operations on whole banks: created, listed, copied, deleted, and decided about by owners."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Literal

import msgspec
from msgspec.structs import replace

from satchel.admin import bank_copy
from satchel.admin.bank_copy import BankConflictPolicy, BankCopyResult, BankDeleteResult
from satchel.bank import banks
from satchel.bank.banks import BankLine
from satchel.bank.keys import Owners
from satchel.bank.machine_keys import signer_of, signers_of, signing_key
from satchel.config.options import (
    NOT_FOR_MODELS,
    SECRETS,
    SERVER_KEYS,
    BankName,
    DryRun,
    OnProgress,
    OwnerOptions,
    Reason,
    SigningKey,
    SigningOptions,
)
from satchel.config.settings import Settings
from satchel.crypto.keys import SigningKey as Key
from satchel.errors import UsageError
from satchel.ledger.authority import EpochDecision
from satchel.ports import absent_options
from satchel.ports.operations import Absent, Option, Options, operation
from satchel.setup.init import InitResult, initialize

_ON_THIS_MACHINE = {**NOT_FOR_MODELS, "python": SECRETS, "http": SECRETS}
_MOST_NAME = 500

NewName = Annotated[
    str,
    Option(
        "New name of the bank: any text.",
        argument=True,
        metavar="NEW",
        max_length=_MOST_NAME,
        examples=["archive"],
    ),
]
_OPENED = Absent(why="The store is opened with the passphrase of the owner's key.")


@dataclass(frozen=True, slots=True)
class InitOptions(Options):
    """What to create."""

    name: Annotated[
        str | None,
        Option(
            "Name of the bank. Default: `default`, if there is no bank yet.",
            argument=True,
            max_length=_MOST_NAME,
        ),
    ] = None
    _: KW_ONLY
    signing_key: SigningKey = None


@operation(
    InitOptions,
    name="init",
    example="satchel init assistant",
    absent={
        **NOT_FOR_MODELS,
        "python": "`Satchel.open().bank()` creates what is missing.",
        "http": "The server's operator creates the store.",
    },
)
def init(
    settings: Settings, options: InitOptions, *, owner: Callable[[], Key] | None = None
) -> InitResult:
    """Create Satchel's home, a signing key, a store and a bank. Safe to run again.

    Args:
        settings: The surroundings.
        options: The name of the bank.
        owner: Returns the key of its owner, if one is created.

    Raises:
        UsageError: If the name is empty, or an ID.
        LockedError: If another process does the same and does not end.
        StoreError: If the store cannot be opened.
    """
    named = options.signing_key
    key = owner or (lambda: signing_key(settings, named)[0])
    started = initialize(settings, options.name, key)
    return replace(started, key=named or settings.options.keys.name)


@dataclass(frozen=True, slots=True)
class BankCreateOptions(Options):
    """What bank to create."""

    name: Annotated[
        str,
        Option(
            "Name of the bank: any text.",
            argument=True,
            max_length=_MOST_NAME,
            examples=["assistant"],
        ),
    ]
    _: KW_ONLY
    signing_key: Annotated[
        str | None,
        Option(
            "Name of the owner's signing key. Default: the configured one.",
            values="key",
            python=_OPENED,
            http=SERVER_KEYS,
        ),
    ] = absent_options.field(default=None, init=False)


@operation(
    BankCreateOptions,
    name="bank create",
    example="satchel bank create assistant",
    absent=NOT_FOR_MODELS,
)
def create_bank(
    settings: Settings,
    options: BankCreateOptions,
    *,
    owner: Callable[[], Key] | None = None,
) -> BankLine:
    """Create a bank.

    Args:
        settings: The surroundings.
        options: Its name.
        owner: Returns the key of its owner.

    Raises:
        BankExistsError: If a bank has this name.
        UsageError: If the name is empty.
    """
    key = owner() if owner is not None else signing_key(settings, options.signing_key)[0]
    return banks.create_bank(settings, options.name, key)


@dataclass(frozen=True, slots=True, kw_only=True)
class BankListOptions(Options):
    """No options."""


@operation(BankListOptions, name="bank list", example="satchel bank list", items="banks")
def list_banks(settings: Settings, _: BankListOptions) -> list[BankLine]:
    """List the banks of the store. Each is opened and verified."""
    return banks.list_banks(settings)


@dataclass(frozen=True, slots=True)
class BankRenameOptions(OwnerOptions):
    """Which bank to rename."""

    bank: BankName
    name: NewName
    _: KW_ONLY


@operation(
    BankRenameOptions,
    name="bank rename",
    example='satchel bank rename assistant "work assistant"',
    absent=NOT_FOR_MODELS,
)
def rename_bank(
    settings: Settings, options: BankRenameOptions, *, owners: Callable[[], Owners] | None = None
) -> BankLine:
    """Rename a bank, as its owner. Its ID and its contents stay.

    Args:
        settings: The surroundings.
        options: Which, and the new name.
        owners: Returns the keys of the owners who sign it.

    Raises:
        UsageError: If the name is empty, or another bank has it.
        SigningKeyError: If a key is not that of an owner.
        ThresholdError: If more owners must sign.
    """
    signers = signers_of(settings, options, owners)
    return banks.rename_bank(settings, options.bank, options.name, *signers)


@dataclass(frozen=True, slots=True)
class BankCopyOptions(SigningOptions):
    """Which bank to copy, and the name of the copy."""

    bank: BankName
    name: NewName
    _: KW_ONLY
    include_deleted: Annotated[
        bool, Option("Include memories that were superseded or deleted.")
    ] = False
    progress: OnProgress = None


@operation(
    BankCopyOptions,
    name="bank copy",
    example="satchel bank copy assistant experiment",
    absent=NOT_FOR_MODELS,
)
def copy_bank(
    settings: Settings, options: BankCopyOptions, *, owner: Callable[[], Key] | None = None
) -> BankCopyResult:
    """Copy the current memories of a bank to a new bank, which has its own ID and log.

    Memories keep their IDs. If it is interrupted, the same command resumes.

    Args:
        settings: The surroundings.
        options: Which bank, and the name of the copy.
        owner: Returns the key of the owner of the copy.

    Raises:
        UsageError: If the name is empty, or another bank has it.
    """
    key = signer_of(settings, options, owner)
    return bank_copy.copy_bank(
        settings,
        options.bank,
        options.name,
        key,
        retired=options.include_deleted,
        progress=options.progress,
    )


@dataclass(frozen=True, slots=True)
class BankMergeOptions(Options):
    """Which bank to merge into which."""

    bank: Annotated[
        str,
        Option(
            "Bank to read: its name, ID or unique ID prefix.",
            argument=True,
            metavar="FROM",
            values="bank",
        ),
    ]
    into: Annotated[
        str,
        Option(
            "Bank to add to: its name, ID or unique ID prefix.",
            argument=True,
            metavar="INTO",
            values="bank",
            max_length=_MOST_NAME,
            examples=["assistant"],
        ),
    ]
    _: KW_ONLY
    on_conflict: Annotated[
        Literal["skip", "overwrite", "error"],
        Option("What to do if both have a current memory for the same key or origin."),
    ] = "skip"
    dry_run: DryRun = False
    progress: OnProgress = None


@operation(
    BankMergeOptions,
    name="bank merge",
    example="satchel bank merge experiment assistant --on-conflict overwrite",
    absent=NOT_FOR_MODELS,
)
def merge_banks(settings: Settings, options: BankMergeOptions) -> BankCopyResult:
    """Add the current memories of a bank to another bank; the first stays as it is.

    They become visible in one step. What the other bank has, or had, is skipped. If it is
    interrupted, the same command resumes.

    Args:
        settings: The surroundings.
        options: Which banks, and how.

    Raises:
        UsageError: If the two are the same.
        SlotTakenError: If there is a conflict and that is an error.
    """
    return bank_copy.merge_banks(
        settings,
        options.bank,
        options.into,
        on_conflict=BankConflictPolicy(options.on_conflict),
        dry_run=options.dry_run,
        progress=options.progress,
    )


@dataclass(frozen=True, slots=True)
class BankDeleteOptions(Options):
    """Which bank to delete."""

    bank: BankName
    _: KW_ONLY
    dry_run: DryRun = False


@operation(
    BankDeleteOptions,
    name="bank delete",
    example="satchel bank delete experiment --yes",
    absent=NOT_FOR_MODELS,
)
def delete_bank(settings: Settings, options: BankDeleteOptions) -> BankDeleteResult:
    """Delete a bank from the store: its log, its files, its vectors. This cannot be undone.

    It is not reported as missing afterwards. Backups, and copies that a newer version made when it
    upgraded the store (.bak), still have it.

    Args:
        settings: The surroundings.
        options: Which bank. One that is only missing is named by its full ID.

    Raises:
        UnknownBankError: If there is no such bank, and none is missing.
        StoreError: If it cannot be written.
    """
    return bank_copy.delete_bank(settings, options.bank, dry_run=options.dry_run)


class AdmittedWriter(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that may add to a bank now."""

    admitted: str
    """Its writer key."""


@dataclass(frozen=True, slots=True)
class BankAdmitOptions(OwnerOptions):
    """Which machine may add to which bank."""

    bank: BankName
    _: KW_ONLY
    writer: Annotated[
        str | None,
        Option("Writer key of the machine, as did:key. Default: that of this machine."),
    ] = None


@operation(
    BankAdmitOptions,
    name="bank admit",
    example="satchel bank admit assistant --writer did:key:z6Mk...",
    absent=_ON_THIS_MACHINE,
)
def admit_writer(
    settings: Settings, options: BankAdmitOptions, *, owners: Callable[[], Owners] | None = None
) -> AdmittedWriter:
    """Allow a machine to add to a bank, as its owner."""
    signers = signers_of(settings, options, owners)
    return AdmittedWriter(
        admitted=banks.admit_writer(settings, options.bank, signers, options.writer)
    )


class ResumedBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bank that continues after a decision of its owner; without one nothing was lost."""

    decision: EpochDecision | None = None


@dataclass(frozen=True, slots=True)
class BankAdoptOptions(Options):
    """Which bank to adopt."""

    bank: BankName
    _: KW_ONLY
    reason: Reason = None
    with_loss: Annotated[
        bool, Option("Adopt the bank even though it lacks records this machine has seen.")
    ] = False
    signing_key: SigningKey = None


@operation(
    BankAdoptOptions,
    name="bank adopt",
    example='satchel bank adopt assistant --reason "the laptop is gone"',
    absent=_ON_THIS_MACHINE,
)
def adopt_bank(
    settings: Settings, options: BankAdoptOptions, *, owner: Callable[[], Key] | None = None
) -> ResumedBank:
    """Become the owner of a bank whose owners' keys are lost. All of it is verified first.

    From then on you own it on this machine. Machines that know its previous owner refuse it until
    they trust your key for it.

    Args:
        settings: The surroundings.
        options: Which bank.
        owner: Returns the key of the new owner.

    Raises:
        VerificationError: If something in it is not what was signed.
        RolledBackError: If it lacks what this machine has seen.
    """
    key = owner() if owner is not None else signing_key(settings, options.signing_key)[0]
    return ResumedBank(
        decision=banks.adopt_bank(
            settings, options.bank, key, options.reason, with_loss=options.with_loss
        )
    )


@dataclass(frozen=True, slots=True)
class BankAcceptLossOptions(OwnerOptions):
    """Of which bank a loss is accepted."""

    bank: BankName
    _: KW_ONLY
    reason: Reason = None


@operation(
    BankAcceptLossOptions,
    name="bank accept-loss",
    example="""satchel bank accept-loss assistant --reason "restored from Monday's backup\"""",
    absent=_ON_THIS_MACHINE,
)
def accept_loss(
    settings: Settings,
    options: BankAcceptLossOptions,
    *,
    owners: Callable[[], Owners] | None = None,
) -> ResumedBank:
    """Accept that a bank lacks records that this machine has seen, as its owner.

    Look for the newer store first: the missing records are given up.

    Args:
        settings: The surroundings.
        options: Which bank.
        owners: Returns the keys of the owners who sign it.

    Raises:
        SigningKeyError: If a key is not that of an owner.
        ThresholdError: If more owners must sign.
    """
    signers = signers_of(settings, options, owners)
    decision = banks.accept_loss(settings, options.bank, signers, options.reason)
    return ResumedBank(decision=decision)


class AcceptedBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A bank that is no longer reported as missing."""

    id: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class BankAcceptGoneOptions(Options):
    """Which missing banks to accept."""

    bank: Annotated[str | None, Option("Full ID of the bank.", argument=True, metavar="ID")] = None
    _: KW_ONLY
    all: Annotated[bool, Option("All banks that are missing from the store.")] = False


@operation(
    BankAcceptGoneOptions,
    name="bank accept-gone",
    example="satchel bank accept-gone blake3:0f3c...",
    items="banks",
    absent=_ON_THIS_MACHINE,
)
def accept_gone(settings: Settings, options: BankAcceptGoneOptions) -> list[AcceptedBank]:
    """Stop reporting a bank as missing from the store.

    A copy of it in another store stays protected against rollback.

    Args:
        settings: The surroundings.
        options: Which banks.

    Raises:
        UsageError: If neither one bank nor all are named.
    """
    if (options.bank is None) is not options.all:
        raise UsageError("give the full ID of a bank, or add --all", field="bank")
    if options.bank is None:
        missing = banks.accept_all_gone(settings)
        return [AcceptedBank(id=each.id, name=each.name) for each in missing]
    known = banks.accept_gone(settings, options.bank)
    return [AcceptedBank(id=options.bank)] if known else []
