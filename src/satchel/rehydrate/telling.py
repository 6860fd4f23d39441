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
            (left_out.over_budget, "over the token budget"),
        )
        if count
    ]
    return f"Omitted: {', '.join(told)}." if told else ""


def notice(shown: Sequence[Shown], left_out: LeftOut, origin: str) -> str:
    """Return what the user is told: how many memories, from where, signed by whom, what to do."""
    if not shown:
        where = f" of {origin}" if origin else ""
        return f"No memory{where} was provided to the model.{_held(left_out)}"
    whence = Counter((one.source, one.signer, one.trust) for one in shown)
    listed = "; ".join(
        f"{count:,} {_whence(*key, origin)}" for key, count in sorted(whence.items())
    )
    first = shown[0].id.removeprefix("blake3:")[:_SHOWN_DIGITS]
    many = "memory was" if len(shown) == 1 else "memories were"
    if origin:
        what = " To review, correct or reject one, import the file: satchel import FILE."
    else:
        what = (
            f" Review one: satchel show {first}. Correct it: satchel correct ID. Reject it:"
            " satchel quarantine reject ID."
        )
    put = f"{len(shown):,} {many} provided to the model: {listed}."
    return f"{put}{what}{_held(left_out)}"


def _whence(source: str, signer: str, trust: str, origin: str) -> str:
    if not source and not signer:
        return f"from {origin}" if origin else "written here"
    signed = f"signed by {signer[:_KEY]}…" if signer else "unsigned"
    return f"from {source or origin or 'an import'}, {signed}, trusted as {trust}"


def _held(left_out: LeftOut) -> str:
    told = ""
    if left_out.quarantined:
        told += (
            f" {left_out.quarantined:,} withheld, as possible prompt injections. Review one with "
            "satchel show ID; release it with satchel quarantine release ID."
        )
    if left_out.unpromoted:
        told += (
            f" {left_out.unpromoted:,} imported memories withheld, since they would set the "
            "agent's identity or instructions. Allow one: satchel promote ID."
        )
    return told
