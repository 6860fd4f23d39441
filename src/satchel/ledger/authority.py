"""Who may sign the heads of a bank: its owners, and the writers that owners admitted.

Read from the log itself, from records that are proved to be in it; nothing beside the log is
asked. Source: docs/spec/5-log.md, docs/spec/6-keys-and-tokens.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from satchel.errors import VerificationError
from satchel.memory.records import Bank, Config
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal
from satchel.seal.signing.envelope import PayloadType, check, parse_signatures, sign, signed_part
from satchel.seal.signing.key import SigningKey

ADMISSION = "writer_added"
"""The action of the config record that admits a writer key."""

_MOST_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class Authority:
    """The keys of a bank."""

    owners: frozenset[str]
    writers: frozenset[str]

    def admits(self, key: str) -> bool:
        """Tell whether heads signed by a key count."""
        return key in self.owners or key in self.writers


def founding(bank: Sealed) -> Authority:
    """Return who may sign when only the first record is there.

    Raises:
        VerificationError: If it is not a bank record.
    """
    if not isinstance(bank.model, Bank):
        raise VerificationError("the first record of the log is not that of a bank")
    return Authority(frozenset(bank.model.owner_keys), frozenset())


def with_configs(authority: Authority, bank: str, configs: Iterable[Sealed]) -> Authority:
    """Return who may sign once a log's config records are taken into account, in its order."""
    writers = set(authority.writers)
    for record in configs:
        model = record.model
        if not isinstance(model, Config) or model.action != ADMISSION:
            continue
        # Without the bank in what is signed, one bank's admission could be carried to another.
        if model.payload.get("bank") != bank or not _by_owner(record, authority.owners):
            continue
        key = model.payload.get("key")
        if isinstance(key, str):
            writers.add(key)
    return Authority(authority.owners, frozenset(writers))


def _by_owner(record: Sealed, owners: frozenset[str]) -> bool:
    signatures = parse_signatures(record.value.get("signatures", []), _MOST_SIGNATURES)
    checks = check(PayloadType.CONFIG, signed_part(record.value), signatures)
    return any(found.valid and found.key in owners for found in checks)


def admission(bank: str, writer: str, owner: SigningKey, at: str) -> Sealed:
    """Return the record by which an owner admits a writer key."""
    draft = Config(action=ADMISSION, payload={"bank": bank, "key": writer}, at=at)
    return signed_config(draft, owner)


def signed_config(draft: Config, owner: SigningKey) -> Sealed:
    """Return a config record signed by an owner."""
    unsigned = seal(draft)
    signatures = sign(PayloadType.CONFIG, signed_part(unsigned.value), [owner])
    whole = msgspec.structs.replace(
        draft,
        nonce=unsigned.value["nonce"],
        signatures=tuple(msgspec.to_builtins(signature) for signature in signatures),
    )
    return seal(whole)
