"""Taking a backup: one view of the store, each bank as it is in that moment.

Writers go on meanwhile; what they commit is in the next one. Packs are written first, whoever names
them after that, so a backup that was cut short is not there at all.
"""

from collections.abc import Iterator

import msgspec

from satchel.backup.logs import Before, put_log
from satchel.backup.manifests import BankPart, Blob, Index, put_index
from satchel.backup.pieces.packs import PIECE_BYTES, Packs, Ref
from satchel.errors import UnknownBankError
from satchel.ledger.heads import name_in
from satchel.ports.blobs import verified
from satchel.ports.store import Reader
from satchel.transfer.copies import Copy, copy_in
from satchel.transfer.whole_logs.beside import blobs_of, side_of

_SIDE_TOGETHER = 1 << 20


def take_bank(reader: Reader, bank: str, before: Before | None, packs: Packs) -> BankPart:
    """Keep a bank, and return what names it.

    Args:
        reader: A view of the store.
        bank: Its id.
        before: What the last backup has of it; packs of that are there for sure.
        packs: Where to.

    Raises:
        UnknownBankError: If there is no such bank.
        VerificationError: If it is not what was signed.
        TargetError: If it cannot be written.
    """
    source = copy_in(reader, bank)
    if source is None:
        raise UnknownBankError(f"there is no bank {bank}")
    index = Index(
        segments=put_log(source, before, packs),
        blobs=list(_blobs(source, before, packs)),
        side=list(_side(source, packs)),
    )
    stored = source.found.stored
    return BankPart(
        bank=bank,
        name=name_in(reader, bank),
        size=source.size,
        root=source.found.head.root,
        head=stored.signed.decode(),
        peaks=stored.peaks.hex(),
        index=put_index(packs, index),
    )


def _blobs(source: Copy, before: Before | None, packs: Packs) -> Iterator[Blob]:
    known = {one.digest: one for one in before.index.blobs} if before is not None else {}
    reader, bank = source.reader, source.bank
    for digest, size in blobs_of(reader, bank):
        if digest in known:
            yield known[digest]
            continue
        pieces = verified(reader.blobs.get(bank, digest), digest)
        yield Blob(digest=digest, size=size, packs=put_stream(pieces, packs))


def put_stream(pieces: Iterator[bytes], packs: Packs) -> list[Ref]:
    """Keep bytes of any size, some at a time."""
    found, held = list[Ref](), bytearray()
    for piece in pieces:
        held += piece
        while len(held) >= PIECE_BYTES:
            found.append(packs.put(bytes(held[:PIECE_BYTES])))
            del held[:PIECE_BYTES]
    if held:
        found.append(packs.put(bytes(held)))
    return found


def _side(source: Copy, packs: Packs) -> Iterator[Ref]:
    """Keep the unlogged values, some of them in each pack; a large one is alone."""
    held, size = dict[str, bytes](), 0
    for name, value in sorted(side_of(source.reader, source.bank).items()):
        if held and size + len(value) > _SIDE_TOGETHER:
            yield packs.put(msgspec.msgpack.encode(held))
            held, size = {}, 0
        held[name] = value
        size += len(value) + len(name)
    if held:
        yield packs.put(msgspec.msgpack.encode(held))
