"""The bounds on what is read and written (docs/spec/8-limits.md); all can be configured."""

import msgspec

from satchel.errors import LimitError
from satchel.model.records import Entry, Model

MIB = 2**20
GIB = 2**30


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes, counts in items."""

    entry_bytes: int = 1 * MIB
    """Canonical bytes of one record."""

    line_bytes: int = 16 * MIB
    """One line, or one value inside a document."""

    document_bytes: int = 1 * GIB
    """A whole ``.pam`` or ``.pam.cbor`` file."""

    statement_bytes: int = 1 * MIB
    signatures: int = 16
    tokens: int = 64
    parents: int = 1024
    tags: int = 256
    metadata_keys: int = 1024
    expansion: int = 200
    """Decompressed bytes to compressed bytes, once beyond ``expansion_free_bytes``."""

    expansion_free_bytes: int = 64 * MIB
    records: int = 100_000_000
    """Records in one file."""


DEFAULT_LIMITS = Limits()
"""What holds when nothing is configured."""


def over_bounds(record: Model, size: int, limits: Limits) -> bool:
    """Tell whether ``check_record`` refuses a record.

    Args:
        record: The record.
        size: Length of its canonical bytes.
        limits: The bounds.
    """
    return (
        size > limits.entry_bytes
        or len(record.metadata) > limits.metadata_keys
        or (
            isinstance(record, Entry)
            and (len(record.tags) > limits.tags or len(record.parent_ids) > limits.parents)
        )
    )


def check_record(record: Model, size: int, limits: Limits) -> None:
    """Refuse a record that is over a bound.

    Args:
        record: The record.
        size: Length of its canonical bytes.
        limits: The bounds.

    Raises:
        LimitError: Naming the bound and the member.
    """
    if not over_bounds(record, size, limits):
        return
    if size > limits.entry_bytes:
        raise LimitError(
            f"a record of {size} bytes is over the limit of {limits.entry_bytes}",
            hint=f"Raise it: set limits.entry_bytes to {size} or more in the configuration, or"
            " SATCHEL_LIMITS_ENTRY_BYTES. Or skip such records: --skip-bad.",
        )
    _bound("metadata", len(record.metadata), limits.metadata_keys)
    if isinstance(record, Entry):
        _bound("parent_ids", len(record.parent_ids), limits.parents)
        _bound("tags", len(record.tags), limits.tags)


def _bound(member: str, held: int, bound: int) -> None:
    if held > bound:
        raise LimitError(f"{held} values are over the limit of {bound}", field=member)
