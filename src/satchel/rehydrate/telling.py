"""What is said of a text: to the model, how much is left out; to the user, what was rendered."""

from collections import Counter
from collections.abc import Sequence

from satchel.rehydrate.rehydrated import LeftOut, Shown

_SHOWN_DIGITS = 8
_KEY = 20


def left_out_words(left_out: LeftOut) -> str:
    """Return a few words for the model about what it is not shown; empty for nothing."""
    told = [
        f"{count} {why}"
        for count, why in (
            (left_out.irrelevant, "less relevant"),
            (left_out.over_budget, "for want of room"),
        )
        if count
    ]
    return f"Left out: {', '.join(told)}." if told else ""


def notice(shown: Sequence[Shown], left_out: LeftOut, origin: str) -> str:
    """Return what the user is told: how many memories, from where, signed by whom, what to do."""
    if not shown:
        where = f" of {origin}" if origin else ""
        return f"No memory{where} was put in front of the model.{_held(left_out)}"
    whence = Counter((one.source, one.signer, one.trust) for one in shown)
    listed = "; ".join(
        f"{count:,} {_whence(*key, origin)}" for key, count in sorted(whence.items())
    )
    first = shown[0].id.removeprefix("blake3:")[:_SHOWN_DIGITS]
    many = "memory was" if len(shown) == 1 else "memories were"
    if origin:
        what = " To look at one, correct or reject it, import the file: satchel import FILE."
    else:
        what = (
            f" Look at one: satchel show {first}. Correct it: satchel correct ID. Reject it:"
            " satchel quarantine reject ID."
        )
    put = f"{len(shown):,} {many} put in front of the model: {listed}."
    return f"{put}{what}{_held(left_out)}"


def _whence(source: str, signer: str, trust: str, origin: str) -> str:
    if not source and not signer:
        return f"from {origin}" if origin else "written here"
    signed = f"signed by {signer[:_KEY]}…" if signer else "signed by nobody"
    return f"from {source or origin or 'an import'}, {signed}, trusted as {trust}"


def _held(left_out: LeftOut) -> str:
    told = ""
    if left_out.quarantined:
        told += (
            f" {left_out.quarantined:,} withheld, as reading like a prompt; after a look at it"
            " (satchel show ID), one can be provided: satchel quarantine release ID."
        )
    if left_out.unpromoted:
        told += (
            f" {left_out.unpromoted:,} from outside would say who the agent is or what to do:"
            " satchel promote ID lets them."
        )
    return told
