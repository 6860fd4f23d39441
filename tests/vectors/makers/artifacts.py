"""One sealed memory in three encodings, and files that must get another verdict."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from nacl.bindings import crypto_scalarmult_ed25519_base_noclamp

from makers import samples
from makers.common import (
    TIME,
    cbor,
    did_key,
    hash_text,
    jcs,
    make_record,
    sign,
    signing_key,
    write_json,
)
from makers.logged import logged_files
from makers.samples import Record
from makers.variants import variants

COMPONENTS = ["episodic", "identity", "procedural", "semantic", "working"]
PREAMBLE = b'{"format":"satchel/1"}\n'
MAGIC = b"PAM\x01"
Sections = dict[str, list[Record]]
# Where the format leaves open which of the two a fault is.
EITHER = ["malformed", "tampered"]


def body(sections: Sections) -> bytes:
    """Return the lines that are hashed; ``sections`` is in body order already."""
    lines = []
    for name, records in sections.items():
        lines += [jcs({"section": name}), *(jcs(record) for record in records)]
    return b"".join(line + b"\n" for line in lines)


def components(sections: Sections) -> Sections:
    """Return the five components, the empty ones too."""
    return {name: sections.get(name, []) for name in COMPONENTS}


def statement(sections: Sections, **members: Any) -> Record:
    """Return the statement of the sections; ``members`` add to it or replace what it says."""
    return {
        "format": "satchel/1",
        "created_at": TIME,
        "body_hash": hash_text(body(sections)),
        "root_hash": hash_text(jcs(components(sections))),
        "counts": {name: len(records) for name, records in sections.items()},
        "scope": {"kind": "full"},
        **members,
    }


def seal(said: Record, *signers: str) -> list[dict[str, str]]:
    """Return one signature object for each signer."""
    return [sign(signing_key(label), "artifact", jcs(said)) for label in signers]


def as_lines(sections: Sections, said: Record, signatures: list[dict[str, str]]) -> bytes:
    """Return a ``.pam.jsonl`` file."""
    last = jcs({"signatures": signatures, "statement": said})
    return PREAMBLE + body(sections) + last + b"\n"


def as_value(sections: Sections, said: Record, signatures: list[dict[str, str]]) -> Record:
    """Return the one value that ``.pam`` and ``.pam.cbor`` hold."""
    rest = {name: records for name, records in sections.items() if name not in COMPONENTS}
    return {
        "statement": said,
        "signatures": signatures,
        "components": components(sections),
        **rest,
    }


def as_json(value: Record) -> bytes:
    """Return a ``.pam`` file with one record a line; readers take any layout."""
    parts = []
    for name, member in value.items():
        if name == "components":
            inner = [jcs(key) + b":" + _list_lines(records) for key, records in member.items()]
            text = b"{\n" + b",\n".join(inner) + b"\n}"
        elif isinstance(member, list):
            text = _list_lines(member)
        else:
            text = jcs(member)
        parts.append(jcs(name) + b":" + text)
    return b"{\n" + b",\n".join(parts) + b"\n}\n"


def _list_lines(records: list[Record]) -> bytes:
    if not records:
        return b"[]"
    return b"[\n" + b",\n".join(jcs(record) for record in records) + b"\n]"


def whole_files() -> list[dict[str, Any]]:
    """Return small complete files, as text, with the outcomes that are right for them."""
    plain = samples.tiny()
    said = statement(plain)
    signed = seal(said, "first")
    crowd = seal(said, *(f"signer {number}" for number in range(15)))
    nothing = "A" * 86 + "=="
    broken = [{"key": did_key(bytes(signing_key("second").verify_key)), "sig": nothing}]
    again = [{**signed[0], "sig": nothing}]
    cases = [
        ("signed by a trusted key", as_lines(plain, said, signed), "good"),
        ("without a signature", as_lines(plain, said, []), "unsigned"),
        ("signed by an unknown key", as_lines(plain, said, seal(said, "second")), "untrusted"),
        ("signed by both", as_lines(plain, said, seal(said, "second", "first")), "good"),
        ("a broken signature beside a good one", as_lines(plain, said, broken + signed), "good"),
        ("a key that signs twice", as_lines(plain, said, signed + signed), "malformed"),
        ("a key that signs once well", as_lines(plain, said, again + signed), "malformed"),
        ("a broken signature alone", as_lines(plain, said, broken), "tampered"),
        ("signed as a head", as_lines(plain, said, _as_head(said)), "tampered"),
        ("as many signatures as allowed", as_lines(plain, said, crowd + signed), "good"),
        ("one signature too many", as_lines(plain, said, crowd + signed + broken), "malformed"),
        ("a signature with a note", as_lines(plain, said, _noted(signed)), "malformed"),
        ("a key that fits every message", as_lines(plain, said, _from_nobody()), EITHER),
        ("unsigned and its body changed", _changed(as_lines(plain, said, [])), "tampered"),
        *_odd_statements(plain),
        *_odd_sections(),
        *_odd_bodies(plain),
        *_odd_documents(),
        *logged_files(lambda held, **said: _sealed(held, statement(held, **said))),
    ]
    # A place that the format leaves open lists every outcome it allows.
    return [
        {
            "name": name,
            "text": data.decode(),
            "expect": [expect] if isinstance(expect, str) else expect,
        }
        for name, data, expect in cases
    ]


def _noted(signatures: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{**signature, "note": "x"} for signature in signatures]


def _from_nobody() -> list[dict[str, str]]:
    """Return a signature under the identity: R = S * B holds and no secret was needed."""
    scalar = (7).to_bytes(32, "little")
    raw = crypto_scalarmult_ed25519_base_noclamp(scalar) + scalar
    return [{"key": did_key(b"\x01" + bytes(31)), "sig": b64encode(raw).decode()}]


def _as_head(said: Record) -> list[dict[str, str]]:
    return [sign(signing_key("first"), "head", jcs(said))]


def _changed(data: bytes) -> bytes:
    return data.replace(b"coffee", b"cocoa!")


def _sealed(sections: Sections, said: Record) -> bytes:
    return as_lines(sections, said, seal(said, "first"))


def _sealed_json(sections: Sections) -> bytes:
    said = statement(sections)
    return as_json(as_value(sections, said, seal(said, "first")))


Case = tuple[str, bytes, str | list[str]]


def _odd_statements(plain: Sections) -> list[Case]:
    """Return files whose trusted signer said something unusual or untrue."""

    def said(**members: Any) -> bytes:
        return _sealed(plain, statement(plain, **members))

    without_time = statement(plain)
    del without_time["created_at"]
    agent = {"name": "guide", "runtime": "test", "version": "1"}
    return [
        ("every optional member", said(source_agent=agent, metadata={"t": "\u65e5"}), "good"),
        ("an unknown member", said(mood={"calm": True}), "good"),
        ("a critical member that every reader knows", said(critical=["scope"]), "good"),
        ("a critical member nobody knows", said(mood=1, critical=["mood"]), "malformed"),
        ("another format version", said(format="satchel/2"), "malformed"),
        ("a null member", said(metadata=None), "malformed"),
        ("a time without a fraction", said(created_at="2025-03-04T05:06:07Z"), "malformed"),
        ("a day that does not exist", said(created_at="2025-02-29T00:00:00.000000Z"), "malformed"),
        ("no time", _sealed(plain, without_time), "malformed"),
        ("a scope nobody knows", said(scope={"kind": "other"}), "malformed"),
        ("a statement as deep as allowed", said(metadata=samples.nested(63)), "good"),
        ("a statement one too deep", said(metadata=samples.nested(64)), "malformed"),
        ("a count of zero", said(counts={"semantic": 1, "status": 0}), "malformed"),
        ("a count that is untrue", said(counts={"semantic": 2}), "tampered"),
        ("a root that is untrue", said(root_hash=hash_text(b"")), "tampered"),
        ("a body hash that is untrue", said(body_hash=hash_text(b"")), "tampered"),
    ]


def _odd_sections() -> list[Case]:
    """Return files whose body is what was signed, but not what a body may be."""
    entry = samples.tiny()["semantic"][0]
    orphan = make_record("semantic", "orphan", text="x", parent_ids=["blake3:" + "33" * 32])
    child = make_record("semantic", "child", text="x", parent_ids=[entry["id"]])
    lied = {**entry, "text": "coffee, not tea"}
    no_object: Any = [1]
    status = make_record("status", "stray", target=entry["id"], state="deleted", at=TIME)

    def file(sections: Sections) -> bytes:
        return _sealed(sections, statement(sections))

    return [
        ("nothing at all", file({}), "good"),
        ("a parent in the file", file(samples.tiny(child)), "good"),
        ("a child before its parent", file({"semantic": [child, entry]}), "good"),
        ("a parent that is missing", file(samples.tiny(orphan)), "incomplete"),
        ("an id that does not recompute", file({"semantic": [lied]}), "tampered"),
        ("an entry as deep as allowed", file(samples.deep(64)), "good"),
        ("an entry one too deep", file(samples.deep(65)), "malformed"),
        ("the same record twice", file(samples.tiny(entry)), EITHER),
        ("a record in another's section", file(samples.tiny(status)), EITHER),
        ("sections out of order", file({"status": [status], "semantic": [entry]}), "malformed"),
        ("a section name in upper case", file({"Notes": [{"a": 1}]}), "malformed"),
        ("a section named like a part of the file", file({"components": [{"a": 1}]}), "malformed"),
        ("unknown sections by name", file({"acme": [{"a": 1}], "bolt": [{"a": 1}]}), "good"),
        (
            "unknown sections out of order",
            file({"bolt": [{"a": 1}], "acme": [{"a": 1}]}),
            "malformed",
        ),
        ("a record of an unknown section with a wrong id", file({"acme": [lied]}), "tampered"),
        ("a record that is not an object", file({"acme": [no_object]}), "malformed"),
    ]


def _odd_bodies(plain: Sections) -> list[Case]:
    """Return files whose body is signed as it is, not canonical: only a deep check sees it."""
    true = body(plain)
    record = true.split(b"\n")[1] + b"\n"

    def file(lines: bytes) -> bytes:
        said = statement(plain, body_hash=hash_text(lines))
        last = jcs({"signatures": seal(said, "first"), "statement": said})
        return PREAMBLE + lines + last + b"\n"

    return [
        ("a signed body with a space", file(true.replace(b":", b": ", 1)), "malformed"),
        (
            "a signed body with a letter escaped",
            file(true.replace(b"t", b"\\u0074", 1)),
            "malformed",
        ),
        ("a signed body with carriage returns", file(true.replace(b"\n", b"\r\n")), "malformed"),
        ("a signed body with an empty line", file(true + b"\n"), "malformed"),
        ("a signed body with its keys unsorted", file(_unsorted(true)), "malformed"),
        ("a signed body without a section line", file(record), "malformed"),
        ("a section without records", file(true + b'{"section":"status"}\n'), "malformed"),
        ("a section opened twice", file(true + true), "malformed"),
    ]


def _unsorted(lines: bytes) -> bytes:
    """Return the body with `type` moved before `text`: the last two members swapped."""
    text, kind = lines.split(b'"text":')[1].rstrip(b"}\n").rsplit(b',"type":', 1)
    return lines.split(b'"text":')[0] + b'"type":' + kind + b',"text":' + text + b"}\n"


def _odd_documents() -> list[Case]:
    """Return the same value as a JSON document, in other layouts and with other members."""
    sections = samples.tiny()
    said = statement(sections)
    value = as_value(sections, said, seal(said, "first"))
    text = as_json(value)
    # In lines this record would open a section, so two values would share one body.
    marker: Sections = {"acme": [{"a": 1}, {"section": "bolt"}, {"b": 2}]}
    marked = statement(marker)
    beside = {**as_value({}, said, value["signatures"]), **sections}
    no_component = {**value, "components": {"semantic": sections["semantic"]}}
    return [
        ("a document", text, "good"),
        ("a document on one line", jcs(value), "good"),
        (
            "a document with its members in another order",
            jcs(dict(reversed(value.items()))),
            "good",
        ),
        ("a document with spaces", text.replace(b'":', b'" : '), "good"),
        ("a document with a letter escaped", text.replace(b"coffee", b"c\\u006fffee"), "good"),
        ("a document whose text was changed", _changed(text), "tampered"),
        ("a document with an entry as deep as allowed", _sealed_json(samples.deep(64)), "good"),
        ("a document with an entry one too deep", _sealed_json(samples.deep(65)), "malformed"),
        ("a document with a component beside the others", jcs(beside), "malformed"),
        ("a document with one component", jcs(no_component), "malformed"),
        ("a document with an empty section", jcs({**value, "status": []}), "malformed"),
        ("a document with a member beside its parts", jcs({**value, "note": "x"}), "malformed"),
        ("a document with a section more", jcs({**value, "acme": [{"a": 1}]}), "tampered"),
        ("a document with a member twice", b'{"signatures":[],' + text[1:], "malformed"),
        ("a document without a statement", jcs({"components": value["components"]}), "malformed"),
        (
            "a document with a record that looks like a section line",
            jcs(as_value(marker, marked, seal(marked, "first"))),
            "malformed",
        ),
    ]


def write(folder: Path) -> list[Path]:
    """Write the artifacts and ``artifacts.json``."""
    sections = samples.sections()
    agent = {"name": "guide", "model_family": "none", "runtime": "vectors", "version": "1"}
    said = statement(sections, source_agent=agent, metadata={"title": "small \U0001f9f3"})
    signatures = seal(said, "first")
    value = as_value(sections, said, signatures)
    files = {
        "small.pam.jsonl": as_lines(sections, said, signatures),
        "small.pam": as_json(value),
        "small.pam.cbor": MAGIC + cbor(value),
    }
    expected = {
        "trusted": [did_key(bytes(signing_key("first").verify_key))],
        "files": list(files),
        "body_hash": said["body_hash"],
        "root_hash": said["root_hash"],
        "counts": said["counts"],
        "signer": signatures[0]["key"],
        "ids": [record["id"] for part in sections.values() for record in part if "id" in record],
        "variants": variants(files),
        "whole": whole_files(),
    }
    target = folder / "artifacts"
    target.mkdir(exist_ok=True)
    for name, data in files.items():
        (target / name).write_bytes(data)
    return [*(target / name for name in files), write_json(target / "artifacts.json", expected)]
