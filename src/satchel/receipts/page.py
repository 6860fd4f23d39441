"""Receipts and plans as one page of plain text."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from satchel.receipts.receipt import (
    Counts,
    FieldLoss,
    ReceiptBody,
    TransferEnd,
    TransferPlan,
    undo_command,
)

_TITLES = {
    "import": "RECEIPT OF AN IMPORT",
    "export": "RECEIPT OF AN EXPORT",
    "convert": "RECEIPT OF A CONVERSION",
    "migrate": "RECEIPT OF A MIGRATION",
    "copy": "RECEIPT OF A COPY OF A STORE",
    "erase": "REPORT OF AN ERASURE",
    "restore": "RECEIPT OF A RESTORE FROM A BACKUP",
    "drill": "REPORT OF A DRILL WITH A BACKUP",
}
_LINES = 12
_WIDE = 14


def page_of(account: ReceiptBody, *, identity: str | None = None, signed: str | None = None) -> str:
    """Return a receipt as a page of text.

    Args:
        account: Body of the receipt.
        identity: ID of the receipt.
        signed: The result of verifying its signature.
    """
    rows = [_TITLES[account.kind], "", *_facts(_ends(account, identity))]
    rows += ["", _verdict(account), ""]
    if account.counts:
        rows += _table(account)
    rows += _facts(_more(account))
    rows += [*_losses("lost", account.lost), *_losses("in the sidecar", account.beside)]
    rows += _refusals(account)
    rows += _scan_lines(account)
    rows += [f"note: {_visible(note)}" for note in account.notes[:_LINES]]
    if signed is not None:
        rows += ["", signed]
    return "\n".join(rows).rstrip() + "\n"


def other_page(record: Mapping[str, Any], *, identity: str, signed: str) -> str:
    """Return a receipt that is not of a transfer, such as of a distillation, as a page of text.

    Args:
        record: Value of the record.
        identity: ID of the receipt.
        signed: The result of verifying its signature.
    """
    rows = [f"RECEIPT OF A {_visible(str(record.get('action', ''))).upper()}", ""]
    result = record.get("result")
    facts = [("receipt", identity), ("at", str(record.get("at", "")))]
    for name, value in result.items() if isinstance(result, dict) else ():
        text = f"{len(value):,}" if isinstance(value, list) else value
        if isinstance(value, dict):
            text = ", ".join(f"{number} {label}" for label, number in value.items())
        facts.append((_visible(name)[:_WIDE], _visible(str(text))))
    rows += [*_facts(facts[: 2 * _LINES]), "", signed]
    return "\n".join(rows).rstrip() + "\n"


def plan_page(plan: TransferPlan) -> str:
    """Return a plan as a page of text."""
    rows = [f"WOULD {plan.kind.upper()}; NOTHING WAS CHANGED", ""]
    facts = [("from", _end(plan.input)), ("to", _end(plan.output)), ("read", _tally(plan.read))]
    for target in plan.targets:
        description = (
            f"{target.created:,} new, {target.changed:,} changed, {target.left_alone:,} unchanged"
        )
        facts.append(
            ("into", f"{_visible(target.name)}{' (new)' if target.makes else ''}: {description}")
        )
        if target.conflicts:
            such = (
                f", such as {', '.join(map(_visible, target.conflict_examples))}"
                if target.conflict_examples
                else ""
            )
            facts.append(("conflicts", f"{target.conflicts:,} other versions{such}"))
    if plan.near_duplicates is not None:
        facts.append(("duplicates", f"{plan.near_duplicates:,} nearly the same as another one"))
    for owner in plan.tenants[:_LINES]:
        where = f" -> {_visible(owner.bank)}" if owner.bank is not None else ""
        description = "none" if owner.sort == "nobody" else f"{owner.sort} {_visible(owner.name)}"
        facts.append(("owner", f"{description}: {owner.records:,}{where}"))
    more = len(plan.tenants[_LINES:]) + plan.tenants_left
    if more:
        facts.append(("", f"and {more:,} more"))
    cost = plan.embedding
    text = f"{cost.records:,} texts, {cost.characters:,} characters, about {cost.tokens:,} tokens"
    facts.append(("embedding", text))
    facts.append(("time", f"about {plan.seconds:.1f} s"))
    if plan.secrets:
        facts.append(("secrets", _tally(plan.secrets)))
    rows += _facts(facts)
    rows += _losses("cannot be held", plan.cannot_hold)
    rows += [f"note: {_visible(note)}" for note in plan.notes[:_LINES]]
    return "\n".join(rows).rstrip() + "\n"


def sentence(account: ReceiptBody) -> str:
    """Return in one sentence whether the transfer is complete."""
    total = account.total
    if account.kind == "erase":
        return _erased(account)
    if account.kind == "drill":
        good = account.read_back != "differs"
        return (
            "The backup is restorable." if good else "THE BACKUP IS NOT RESTORABLE; see the notes."
        )
    if account.unchanged:
        return f"Nothing changed: all {total.read:,} records were present already, or were skipped."
    if account.unaccepted:
        lost = list(dict.fromkeys(one.field for one in account.lost if not one.accepted))
        fields = ", ".join(map(_visible, lost[:_LINES])) + (" and more" if lost[_LINES:] else "")
        return f"INCOMPLETE: {account.unaccepted:,} values were lost, of {fields}."
    if account.losses:
        return f"Complete except for {account.losses:,} values whose loss was accepted."
    return "Complete: nothing was lost."


def _erased(account: ReceiptBody) -> str:
    places = [one for one in account.scanned if one.found]
    if places:
        return f"ERASED, BUT PIECES REMAIN in {len(places):,} places; see below."
    if not account.scanned:
        return "Erased. Nothing was scanned afterwards."
    return "Erased. No piece was found in what was scanned; what could not be is listed below."


def _scan_lines(account: ReceiptBody) -> Iterator[str]:
    for one in account.scanned[: 4 * _LINES]:
        found = f"{one.found:,} REMNANTS FOUND" if one.found else "nothing found"
        yield f"scanned {_visible(one.name)}, {one.bytes:,} bytes: {found}"
    if account.scanned[4 * _LINES :]:
        yield f"and {len(account.scanned) - 4 * _LINES:,} more"
    yield from (f"not scanned: {_visible(name)}" for name in account.unreached[: 4 * _LINES])


def _verdict(account: ReceiptBody) -> str:
    how = {
        "equal": " Each record was read back and matches the plan.",
        "verified": " The seal of the output was verified.",
        "differs": " The output was read back and compared field by field.",
        None: "",
    }[account.read_back]
    return sentence(account) + how


def _ends(account: ReceiptBody, identity: str | None) -> Iterator[tuple[str, str]]:
    if identity is not None:
        yield "receipt", identity
    yield "from", _end(account.input)
    if account.input.digest:
        yield "", account.input.digest
    if account.input.bank:
        yield "", f"{account.input.bank}, {account.input.size or 0:,} records in its log"
    if account.input.store:
        yield "", f"in {_visible(account.input.store)}"
    yield "to", _end(account.output)
    yield "", account.output.digest or account.output.bank or ""
    if account.output.store:
        yield "", f"in {_visible(account.output.store)}"
    if account.output.root:
        yield "", f"root {account.output.root}"
    if account.sidecar is not None:
        yield "sidecar", _end(account.sidecar)
        yield "", account.sidecar.digest or ""
    yield "when", f"{account.began} to {account.ended}"
    yield "by", account.tool


def _end(end: TransferEnd) -> str:
    parts = [_visible(end.name)]
    if end.format:
        parts.append(f"({end.format})")
    if end.records is not None:
        parts.append(f"{end.records:,} records")
    if end.bytes is not None:
        parts.append(f"{end.bytes:,} bytes")
    return "  ".join(parts)


def _table(account: ReceiptBody) -> Iterator[str]:
    yield _row("", ("read", "planned", "written", "read back"))
    for name, counts in account.counts.items():
        yield _row(name, _numbers(counts))
    if len(account.counts) > 1:
        yield _row("total", _numbers(account.total))
    yield ""


def _numbers(counts: Counts) -> tuple[str, ...]:
    found = (counts.read, counts.planned, counts.written, counts.read_back)
    return tuple(f"{number:,}" for number in found)


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:<{_WIDE}}" + "".join(f"{cell:>12}" for cell in cells)


def _more(account: ReceiptBody) -> Iterator[tuple[str, str]]:
    for name, counts in (("done", account.done), ("not included", account.left)):
        if counts:
            yield name, _tally(counts)
    if account.resumed:
        yield "resumed", f"{account.resumed:,} records had been written before"
    if account.verdict:
        yield "input is", account.verdict
    if account.signed_by:
        yield "output by", account.signed_by
    if account.secrets:
        kept = "kept as they are" if account.secrets_kept else "replaced"
        yield "secrets", f"{_tally(account.secrets)}; {kept}"
    if account.kept:
        yield "kept", _tally(dict(list(account.kept.items())[: 2 * _LINES]))
    if account.accepted:
        yield "accepted", ", ".join(map(_visible, account.accepted))
    if account.source:
        yield "undo", undo_command(account.source, account.output.bank, account.output.name)


def _losses(word: str, lost: list[FieldLoss]) -> Iterator[str]:
    if not lost:
        return
    yield ""
    yield f"{word}:"
    for one in lost[:_LINES]:
        such = f" (such as {_visible(one.examples[0])})" if one.examples else ""
        said = " [accepted]" if one.accepted else ""
        yield f"  {one.count:,} x {_visible(one.field)}: {_visible(one.reason)}{such}{said}"
    if len(lost) > _LINES:
        yield f"  and {len(lost) - _LINES} more kinds"


def _refusals(account: ReceiptBody) -> Iterator[str]:
    if not account.refused:
        return
    yield f"refused: {account.refused:,} records"
    for one in account.refusals[:_LINES]:
        yield f"  {_visible(one.place)}: {_visible(one.reason)}"


def _facts(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name:<{_WIDE}}{text}".rstrip() for name, text in rows]


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {_visible(name)}" for name, number in counts.items())


def _visible(text: str) -> str:
    """Return a text with control characters escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
