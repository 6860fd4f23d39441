"""Two banks whose words must not be revealed without permission, and narrow tokens for one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel.api.bank import Bank
from satchel.api.machine import Keys
from satchel.api.store import Satchel
from satchel.config.settings import load_settings

CANARY = "canary"
"""It is in every text and name; an answer that contains it reveals something."""

OWN, OTHER = "shared bank", "canary bank of others"


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """IDs of the records, and tokens."""

    memory: str
    """ID of a memory in the bank of the tokens."""

    session: str
    receipt: str
    other: str
    """ID of the bank without a token."""

    tokens: dict[str, Path]
    """Files of tokens: ``redacts`` may only redact, ``elsewhere`` may do all with nothing."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Strings that no answer may contain."""
        ids = (self.memory, self.session, self.receipt, self.other)
        return (CANARY, *(each.removeprefix("blake3:")[:16] for each in ids))


def create_canaries(folder: Path) -> Canaries:
    """Fill two banks, and issue tokens for the holder of the key ``holder``."""
    source = folder / "canary.json"
    source.write_text('[{"id": "1", "memory": "canary of a file"}]')
    with Satchel.open() as satchel:
        _fill(satchel.create_bank(OTHER))
        bank = satchel.create_bank(OWN)
        memory, session = _fill(bank)
        receipt = bank.import_(source).receipts[0]
        Keys().create("holder")
        kinds: dict[str, dict[str, Any]] = {
            "redacts": {"everything": True, "permissions": ["redact"]},
            "elsewhere": {
                "any_tags": ["of nothing"],
                "permissions": ["read", "write", "derive", "rehydrate", "export", "redact"],
            },
        }
        tokens = dict[str, Path]()
        for name, said in kinds.items():
            tokens[name] = folder / f"{name}.token"
            satchel.bank(OWN).tokens.issue(audience="holder", output=tokens[name], **said)
        other = satchel.bank(OTHER).id
    source.unlink()
    return Canaries(memory=memory, session=session, receipt=receipt, other=other, tokens=tokens)


def _fill(bank: Bank) -> tuple[str, str]:
    """Add a memory, a file and a session to a bank; return the IDs of memory and session."""
    memory = bank.remember("a canary sings", tags=["canary"], key="canary", kind="canary")
    bank.files.write_text("canary.md", "a canary in a file", actor="canary")
    turns = [{"role": "user", "content": "canary?"}]
    return memory.id, bank.sessions.record(turns, name="canary talk").session


def store_bytes() -> bytes:
    """Return the bytes of the store with its write-ahead log, while no process has it open."""
    path = Path(load_settings().store)
    log = path.with_name(path.name + "-wal")
    return path.read_bytes() + (log.read_bytes() if log.exists() else b"")
