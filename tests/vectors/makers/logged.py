"""Small complete files with the head of a log: redactions, disclosures, tombstones."""

from collections.abc import Callable
from typing import Any

from makers.common import (
    TIME,
    did_key,
    hash_text,
    jcs,
    make_record,
    record_id,
    sign,
    signing_key,
)
from makers.samples import Record
from makers.tree import audit_path, hexes, leaf_hash, root

Sections = dict[str, list[Record]]
# A section by section order of the body, as far as these files have it.
ORDER = ["keys", "redactions", "erasures", "identity", "semantic", "config", "withheld", "proofs"]
Writing = Callable[..., bytes]
Case = tuple[str, bytes, str | list[str]]
TOKEN = "[REDACTED:text:1]"  # noqa: S105 - a typed token in the place of a text


class Log:
    """The log of a bank that an owner founded."""

    def __init__(self, *records: Record) -> None:
        owner = did_key(bytes(signing_key("first").verify_key))
        self.bank = make_record("bank", "logged bank", created_at=TIME, owner_keys=[owner])
        self.rows = [self.bank, *records]

    def _leaves(self) -> list[bytes]:
        return [
            leaf_hash([self.bank["id"], seq, row["type"], row["id"], TIME])
            for seq, row in enumerate(self.rows)
        ]

    def proof(self, record: Record, **members: Any) -> Record:
        """Return the audit path of a logged record; ``members`` replace what it says."""
        seq = next(n for n, row in enumerate(self.rows) if row["id"] == record["id"])
        path = hexes(audit_path(seq, self._leaves()))
        said = {"id": record["id"], "seq": seq, "type": self.rows[seq]["type"], "at": TIME}
        return {**said, "path": path, **members}

    def logged(self, by: str = "first") -> Record:
        """Return the members of a statement: the bank, and its head signed by a key."""
        key = signing_key(by)
        counts: dict[str, int] = {}
        for row in self.rows:
            counts[row["type"]] = counts.get(row["type"], 0) + 1
        head = {
            "v": 1,
            "bank": self.bank["id"],
            "epoch": 0,
            "size": len(self.rows),
            "root": "blake3:" + root(self._leaves()).hex(),
            "counts": counts,
            "at": TIME,
            "key": did_key(bytes(key.verify_key)),
        }
        envelope = {"signed": head, "signatures": [sign(key, "head", jcs(head))]}
        return {"bank": self.bank["id"], "head": envelope}


def signed_record(record: Record, kind: str, by: str) -> Record:
    """Return a record with a signature in it, and the id that covers it."""
    bare = {name: value for name, value in record.items() if name != "id"}
    signed = {**bare, "signatures": [sign(signing_key(by), kind, jcs(bare))]}
    return {**signed, "id": record_id(signed)}


def form_of(entry: Record, **members: Any) -> Record:
    """Return the redacted form of an entry: no nonce, the id kept."""
    kept = {name: value for name, value in entry.items() if name != "nonce"}
    return {**kept, "text": TOKEN, **members}


def redaction_of(entry: Record, form: Record, by: str | None = "first") -> Record:
    """Return the record that allows a form, signed by a key unless that is None."""
    record = make_record(
        "redaction",
        f"redaction by {by}",
        entry=entry["id"],
        result=hash_text(jcs(form)),
        fields=["/text"],
        at=TIME,
    )
    return record if by is None else signed_record(record, "redaction", by)


def logged_files(file: Writing) -> list[Case]:
    """Return files with heads; ``file`` seals sections and the members of a statement."""

    def written(sections: Sections, here: Record, kind: str = "full") -> bytes:
        body = {name: sections[name] for name in ORDER if sections.get(name)}
        return file(body, scope={"kind": kind}, **here)

    entry = make_record("semantic", "logged entry", text="Ada likes tea")
    child = make_record("semantic", "logged child", text="buy tea", parent_ids=[entry["id"]])
    return [*_redactions(written, entry), *_disclosures(written, entry, child)]


def _redactions(written: Writing, entry: Record) -> list[Case]:
    form = form_of(entry)
    cases = list[Case]()

    def case(
        name: str, expect: str, allowed: Record, *, logged: bool = True, **sections: Any
    ) -> None:
        log = Log(entry, allowed) if logged else Log(entry)
        proofs = [log.proof(entry), *([log.proof(allowed)] if logged else [])]
        held = {"keys": [log.bank], "redactions": [allowed], "semantic": [form], "proofs": proofs}
        cases.append((name, written({**held, **sections}, log.logged()), expect))

    good = redaction_of(entry, form)
    case("a redaction that is logged and signed", "good", good)
    case("a redaction without a signature, under the head", "good", redaction_of(entry, form, None))
    case("a redaction that is not logged", "incomplete", good, logged=False)
    stolen = {**good, "signatures": redaction_of(entry, form, "second")["signatures"]}
    lying = {**stolen, "signatures": [{**stolen["signatures"][0], "sig": "A" * 86 + "=="}]}
    lying["id"] = record_id(lying)
    case("a redaction whose signature does not match", "tampered", lying)
    case(
        "a form that its redaction does not allow",
        "tampered",
        good,
        semantic=[{**form, "text": "x"}],
    )
    case("a whole entry beside its redaction", "tampered", good, semantic=[entry])

    other = form_of(entry, type="identity")
    allowed = redaction_of(entry, other)
    case("a form of another type than its leaf", "tampered", allowed, semantic=[], identity=[other])
    log = Log(entry, good)
    held: Sections = {"keys": [log.bank], "redactions": [good], "semantic": [form]}
    mistyped = [log.proof(entry), log.proof(good, type="semantic")]
    cases.append(
        ("a proof of another type", written({**held, "proofs": mistyped}, log.logged()), "tampered")
    )
    held["proofs"] = [log.proof(entry), log.proof(good)]
    cases += [
        (
            "a head by a key that the bank did not admit",
            written(held, log.logged("second")),
            "tampered",
        ),
        (
            "a head without the record of its bank",
            written({**held, "keys": []}, log.logged()),
            "incomplete",
        ),
    ]
    return [*cases, *_admitted(written, entry)]


def _admitted(written: Writing, entry: Record) -> list[Case]:
    """Return files whose head is by a writer that somebody admitted."""
    cases = list[Case]()
    for by, expect in (("first", "good"), ("second", "tampered")):
        log = Log(entry)
        writer = did_key(bytes(signing_key("second").verify_key))
        admission = make_record(
            "config",
            f"admission by {by}",
            action="writer_added",
            payload={"bank": log.bank["id"], "key": writer},
            at=TIME,
        )
        signed = signed_record(admission, "config", by)
        log.rows.append(signed)
        held = {"keys": [log.bank], "semantic": [entry], "config": [signed]}
        who = "an owner" if by == "first" else "itself"
        name = f"a head by a writer that {who} admitted"
        cases.append((name, written(held, log.logged("second")), expect))
    return cases


def _disclosures(written: Writing, entry: Record, child: Record) -> list[Case]:
    log = Log(entry, child)
    keys, proofs = [log.bank], [log.proof(entry), log.proof(child)]
    both: Sections = {"keys": keys, "semantic": [entry, child]}
    one: Sections = {"keys": keys, "semantic": [child], "proofs": [log.proof(child)]}
    withheld: Sections = {**one, "withheld": [log.proof(entry)]}
    here = log.logged()
    grave = make_record("erasure", "grave", entry=entry["id"], reason="asked")
    buried = Log(entry, child, grave)
    erased: Sections = {"keys": [buried.bank], "erasures": [grave], "semantic": [child]}
    proved = {**erased, "proofs": [buried.proof(child), buried.proof(grave)]}
    origin = make_record("source", "logged source", provider="mem0", format="get_all")
    orphan = make_record("semantic", "orphan of a source", text="x", parent_ids=[origin["id"]])
    source = Log(origin, orphan)
    no_entry: Sections = {"keys": [source.bank], "semantic": [orphan]}
    no_entry |= {"proofs": [source.proof(orphan)], "withheld": [source.proof(origin)]}
    return [
        ("a disclosure", written({**both, "proofs": proofs}, here, "disclosure"), "good"),
        (
            "a disclosure without a path for each entry",
            written({**both, "proofs": proofs[:1]}, here, "disclosure"),
            "tampered",
        ),
        (
            "a filter without a path for each entry",
            written({**both, "proofs": proofs[:1]}, here, "filter"),
            "good",
        ),
        ("a parent that is withheld", written(withheld, here, "disclosure"), "good"),
        (
            "a parent that is withheld and no entry",
            written(no_entry, source.logged()),
            "incomplete",
        ),
        ("proofs without a head", written({**both, "proofs": proofs}, {}), "tampered"),
        ("a withheld item without a head", written({**withheld, "proofs": []}, {}), "tampered"),
        ("a parent that was erased, proved", written(proved, buried.logged()), "good"),
        (
            "a parent that was erased, not proved",
            written({**erased, "proofs": [buried.proof(child)]}, buried.logged()),
            "incomplete",
        ),
    ]
