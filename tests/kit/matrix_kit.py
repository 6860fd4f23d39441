"""A bank with every kind of record, transferred through formats, and its differences."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from satchel.artifact.encodings import ArtifactBuilder, Encoding, Header, write_artifact
from satchel.artifact.verification import Outcome
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import Sealed, seal, seeded_nonces
from satchel.model.records import (
    Edge,
    Episodic,
    FileVersion,
    GraphNode,
    Identity,
    Model,
    Procedural,
    Semantic,
    SessionEvent,
    Working,
)
from satchel.model.values import Component, Entity, Evidence, Origin, Scope, TrustClass, is_id
from satchel.ports.format import formats
from satchel.ports.rows import Filter
from satchel.receipts.receipt import CARRIED, FieldLoss, ReceiptBody
from satchel.transfer.export_records import Export, ExportOptions
from satchel.transfer.exports import export
from satchel.transfer.import_results import ImportOptions, ImportSummary
from satchel.transfer.imports import import_file

WRITABLE = tuple(name for name, found in formats.items() if found.info.traits.writes)
"""Every format with a writer, including new ones."""

_MARK = re.compile(r"\bq\d\d\b")
_OWN = frozenset({"id", "nonce"})
_ENTRIES = frozenset(map(str, Component))
_LINKS = frozenset({"parent_ids", "source_event_ids", "source", "target", "session", "parent"})
_UNSIGNED = frozenset(
    {Outcome.UNSIGNED, Outcome.UNTRUSTED, Outcome.INCOMPLETE, Outcome.ENTRIES_ONLY}
)


def _at(number: int) -> str:
    return f"2026-01-02T03:04:05.{number:06}Z"


def rich() -> list[Sealed]:
    """Return records of every kind, with every member; ``q01`` etc. in the text identifies each."""
    nonces, made = seeded_nonces(b"matrix".ljust(32)), list[Sealed]()

    def add(draft: Model) -> str:
        made.append(seal(draft, nonces=nonces))
        return made[-1].id

    whose = Scope(user="ada", agent="helper", run="r1", app="shop", namespace=("a", "b"))
    seen = add(
        Episodic(
            text="q01 Ada asked for tea.\n\nTwice — ☕ \u202eodd",
            observation="she sat",
            actor="user:ada",
            event_type="interaction",
            context={"where": "kitchen"},
            occurred_at=_at(1),
            created_at=_at(2),
            updated_at=_at(3),
            tags=("tea", "été"),
            metadata={"a": 1, "b": [True, None, 1.5]},
            salience=0.7,
            entities=(Entity(name="Ada", entity_type="person", aliases=("A.",)),),
            scope=whose,
            sources=(Evidence(kind="message", id="m1"),),
            kind="visit",
        )
    )
    plain = add(Episodic(text="q02 plain happening"))
    likes = add(
        Semantic(
            text="q03 Ada likes tea",
            subject="Ada",
            predicate="likes",
            object="tea",
            confidence=0.9,
            source_event_ids=(seen,),
            parent_ids=(seen,),
            valid_from=_at(4),
            valid_until="2027-01-01T00:00:00.000000Z",
            expires_at="2030-01-01T00:00:00.000000Z",
            created_at=_at(5),
            scope=Scope(user="ada"),
            origin=Origin(
                provider="elsewhere",
                source="acct",
                id="x-1",
                revision="3",
                as_written={"odd": {"k": [1]}},
                trust=TrustClass.USER,
            ),
        )
    )
    fact = add(Semantic(text="q04 plain fact", parent_ids=(likes, plain)))
    add(Semantic(data={"n": [1, 2, {"x": "q05"}]}, kind="blob"))
    add(
        Semantic(
            text="q06  spaces  kept \n- list\n# head\n<b>&amp; \u0000nul ",
            tags=("with space", "with,comma"),
            scope=Scope(agent="other"),
        )
    )
    add(
        Procedural(
            text="q07 Make tea",
            name="tea",
            description="how",
            parameters=("water", {"name": "sugar"}),
            body="boil()",
            language="python",
            preconditions=("kettle",),
            tags=("t",),
        )
    )
    add(
        Working(
            text="q08 in the middle",
            goals=("g",),
            subgoals=({"s": 1},),
            scratch="notes",
            pending_actions=("do",),
        )
    )
    add(
        Identity(
            text="q09 I am helper",
            persona="kind",
            preferences={"lang": "de"},
            communication_style="short",
            language="de",
            policies=("no",),
            custom_instructions="be nice",
        )
    )
    node = add(
        GraphNode(
            name="q10 Ada",
            labels=("Person",),
            summary="a user",
            properties={"age": 3},
            scope=whose,
            at=_at(6),
            metadata={"z": 1},
        )
    )
    add(
        Edge(
            source=likes,
            target=seen,
            kind="similar_to",
            weight=0.5,
            properties={"p": 1},
            valid_from=_at(7),
            scope=whose,
            metadata={"m": 2},
            at=_at(8),
        )
    )
    add(Edge(source=fact, target=node, kind="mentions"))
    talk = add(SessionEvent(event="session", name="q11 talk", created_at=_at(9), scope=whose))
    first = add(
        SessionEvent(
            event="message",
            session=talk,
            role="user",
            text="q12 hello",
            created_at=_at(10),
            sources=(Evidence(kind="k", id="1"),),
        )
    )
    add(
        SessionEvent(
            event="message",
            session=talk,
            parent=first,
            role="assistant",
            text="q13 hi",
            content=[{"type": "text"}],
            created_at=_at(11),
        )
    )
    add(
        FileVersion(
            path="notes/a.md", text="# q14\n", action="created", actor="ada", created_at=_at(12)
        )
    )
    return made


def put(records: Iterable[Sealed], bank: str, folder: Path) -> None:
    """Append records to a new bank."""
    path = folder / f"{bank}.pam.jsonl"
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record)
        body, totals = builder.finish()
        with path.open("wb") as sink:
            write_artifact(sink, Encoding.JSONL, body, Header().statement(totals), [])
    options = ImportOptions(unsafe_accept=_UNSIGNED, keeps_receipt=False)
    import_file(load_settings(), path, bank, _owner, options)


def _owner() -> Any:
    return signing_key(load_settings())[0]


@contextmanager
def opened(bank: str) -> Iterator[OpenBank]:
    """Open a bank of the test's home."""
    with open_bank(load_settings(), bank) as found:
        yield found


def output_of(name: str, folder: Path, called: str) -> Path:
    """Return a file name that a format recognizes."""
    suffix = (*formats[name].info.suffixes, ".x")[0]
    if suffix.startswith("."):
        return folder / f"{called}{suffix}"
    (folder / called).mkdir(exist_ok=True)
    return folder / called / suffix


def out(bank: str, path: Path, name: str, **options: Any) -> Export:
    """Export a bank."""
    with opened(bank) as found:
        asked = ExportOptions(format=name, keeps_receipt=False, **options)
        return export(found, path, asked)


def back(path: Path, name: str | None, bank: str, **options: Any) -> ImportSummary:
    """Import a file into a bank; without a format it is recognized."""
    asked = ImportOptions(
        source_format=name, unsafe_accept=_UNSIGNED, keeps_receipt=False, **options
    )
    return import_file(load_settings(), path, bank, _owner, asked)


def held(bank: str) -> list[dict[str, Any]]:
    """Return all current memory of a bank."""
    with opened(bank) as found, found.ledger.reading() as view:
        wanted = Filter(types=CARRIED)
        return [logged.record.value for logged in view.scan(wanted)]


def without_beside(values: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return records without members that a format stores apart from the memory."""
    names = formats[name].info.beside
    for value in values:
        kept = value.get("origin", {}).get("as_written", {})
        for one in names & kept.keys():
            del kept[one]
        if names and not kept:
            value.get("origin", {}).pop("as_written", None)
    return values


def ids(bank: str) -> list[str]:
    """Return the IDs of the current records of a bank, sorted."""
    return sorted(value["id"] for value in held(bank))


def lost_by(*accounts: ReceiptBody | None) -> list[FieldLoss]:
    """Return the losses that receipts list."""
    return [one for account in accounts if account is not None for one in account.lost]


def unlisted(
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    accounts: Iterable[ReceiptBody],
) -> list[str]:
    """Return changed members that no receipt lists, by name, with counts.

    A record is known by its mark, an edge by its ends and its kind.
    """
    receipts = list(accounts)
    listed = Counter[str]()
    for one in lost_by(*receipts):
        listed.update(dict.fromkeys({one.field, *one.field.split("/")}, one.count))
    added = {name for account in receipts for name in account.added}
    there, found = _marked(before), _marked(after)
    _pair_by_turn(there, found)
    gone, other, more = Counter[str](), Counter[str](), Counter[str]()
    for mark, value in there.items():
        if mark not in found:
            gone[value["type"]] += 1
            continue
        for name in value.keys() - _OWN:
            now = found[mark].get(name)
            if not (
                _as_many(value[name], now) if name in _LINKS else _same(name, value[name], now)
            ):
                other[value["type"] if name == "type" and not listed["type"] else name] += 1
        more.update(_new_in(found[mark], value) - added)
    # An origin that only had our own id may be exchanged behind it, which is listed as its loss.
    more = +Counter({n: 0 if n == "origin" and c <= listed[n] else c for n, c in more.items()})
    made_up = Counter(found[mark]["type"] for mark in found.keys() - there.keys())
    problems = []
    for word, numbers in (("gone", gone), ("not the same", other), ("made up", made_up)):
        words = 0 if word == "not the same" else listed["text"] + listed["data"]
        for name, number in numbers.items():
            if number > listed[name] + words:  # without its words none is known again
                problems.append(f"{name}: {number} {word}, {listed[name]} listed")
    return problems + [f"{name}: added to {number}" for name, number in more.items()]


def _marked(values: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    marks = {}
    for value in values:
        if value["type"] != "edge":
            mark = _MARK.search(json.dumps(value, ensure_ascii=False))
            triple = " ".join(filter(None, map(value.get, ("subject", "predicate", "object"))))
            said = value.get("text") or value.get("name") or triple or value["id"]
            kind = "entry" if value["type"] in _ENTRIES else value["type"]  # some hold one sort
            marks[value["id"]] = mark.group() if mark else f"{kind} {said}"
    found = {}
    for value in values:
        name = marks.get(value["id"])
        if name is None:
            ends = (marks.get(value[end], value[end]) for end in ("source", "target"))
            name = " ".join([*ends, value["kind"]])
        while name in found:
            name += " again"
        found[name] = value
    return found


def _pair_by_turn(there: dict[str, Any], found: dict[str, Any]) -> None:
    """Pair records without a mark in order, if both sides have the same number of a type."""
    for kind in {value["type"] for value in there.values()} - {"edge"}:
        old = [m for m, value in there.items() if m not in found and value["type"] == kind]
        new = [m for m, value in found.items() if m not in there and value["type"] == kind]
        if len(old) == len(new):
            for mark, other in zip(old, new, strict=True):
                found[mark] = found.pop(other)


def _new_in(found: dict[str, Any], value: dict[str, Any]) -> set[str]:
    """Return the members of a record; an origin with only its own ID does not count."""
    names = found.keys() - value.keys() - _OWN
    origin = found.get("origin", {})
    says_nothing = is_id(origin.get("id", "")) and "as_written" not in origin
    return names - ({"origin"} if says_nothing else set())


def _same(name: str, one: Any, other: Any) -> bool:
    if name == "state":  # it names records, which have other ids now, and the last ones in its log
        one, other = (_unnamed({**said, "latest": None}) for said in (one or {}, other or {}))
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _unnamed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unnamed(part) for name, part in value.items()}
    return isinstance(value, str) if isinstance(value, str) and is_id(value) else value


def _as_many(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other)
    return isinstance(one, str) == isinstance(other, str)
