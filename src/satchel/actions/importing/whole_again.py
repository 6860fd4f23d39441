"""Whole memories in the place of redacted forms that an import had brought."""

from itertools import islice

from satchel.actions.opened import OpenBank
from satchel.actions.wiring import writer_key
from satchel.disk.databases.keyed import Keyed
from satchel.memory.records import Redaction
from satchel.memory.times import now
from satchel.seal.records import digest
from satchel.seal.redacted_forms import signed_redaction

_TOGETHER = 100


def put_back(bank: OpenBank, returned: Keyed) -> None:
    """Log that memories are whole again, each in the commit that puts its bytes there.

    Args:
        bank: The bank.
        returned: Their canonical bytes, by id; spent afterwards.

    Raises:
        RedactionRefusedError: If one cannot be: it was logged as another type of memory.
    """
    key, ids = writer_key(bank.settings), iter(returned)
    while some := list(islice(ids, _TOGETHER)):
        forms = {name.decode(): returned.get(name) or b"" for name in some}
        records = [
            signed_redaction(Redaction(entry=name, result=digest(body), by=key.did, at=now()), key)
            for name, body in forms.items()
        ]
        bank.ledger.append(records, forms=forms)
    returned.close()
