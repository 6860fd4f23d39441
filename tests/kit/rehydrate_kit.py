"""A bank for tests of rehydration, and a shorthand for it."""

from typing import Any

from recall_kit import NOW, Remembering

from satchel.model.values import Origin, TrustClass
from satchel.rehydrate.pipeline import rehydrate
from satchel.rehydrate.request import RehydrateContext, RehydrateRequest, RehydrateResult

NONCE = "123456789"
OUTSIDE = Origin(trust=TrustClass.EXTERNAL)


def wake(bank: Remembering, around: dict[str, Any] | None = None, **asked: Any) -> RehydrateResult:
    """Rehydrate at a fixed moment, with a known nonce."""
    with bank.ledger.reading() as view:
        usual: dict[str, Any] = {"now": lambda: NOW, "nonce": lambda: NONCE}
        return rehydrate(
            view, RehydrateRequest(**asked), RehydrateContext(**usual | (around or {}))
        )


def lines(found: RehydrateResult) -> list[str]:
    """Return the records of a text, without their marks."""
    return [row[4:] for row in found.text.split("\n") if row[:4] in ("123|", "123~")]
