"""A small sealed file with many sections, in every encoding, and methods to forge one."""

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest

from satchel.artifact.body import COMPONENTS, RECORD_SECTIONS, rank
from satchel.artifact.encodings import (
    MAGIC,
    PREAMBLE,
    ArtifactBuilder,
    Encoding,
    gzip_sink,
    sign_statement,
    write_artifact,
)
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import Signature, SigningKey
from satchel.crypto.sealed_records import Sealed, digest, seal, seeded_nonces
from satchel.model.records import Episodic, Identity, Model, Semantic, Source, Status

TIME = "2026-01-02T03:04:05.000006Z"


@dataclass(slots=True)
class Value:
    """The content of an artifact, independent of its encoding."""

    statement: dict[str, Any]
    signatures: list[Any]
    sections: dict[str, list[Any]]

    def encoded(self, encoding: Encoding) -> bytes:
        """Return the canonical bytes of the value, valid or not."""
        if encoding is Encoding.JSONL:
            outside = {"signatures": self.signatures, "statement": self.statement}
            return PREAMBLE + self.body() + canonical(outside) + b"\n"
        whole = {
            "statement": self.statement,
            "signatures": self.signatures,
            "components": {name: self.sections.get(name, []) for name in COMPONENTS},
            **{name: part for name, part in self.sections.items() if name not in COMPONENTS},
        }
        if encoding is Encoding.JSON:
            return canonical(whole)
        return MAGIC + cbor2.dumps(whole, canonical=True)

    def body(self) -> bytes:
        """Return the body as lines."""
        lines = []
        for name in sorted(self.sections, key=rank):
            if self.sections[name]:
                lines.append(canonical({"section": name}))
                lines.extend(map(canonical, self.sections[name]))
        return b"".join(line + b"\n" for line in lines)

    def signed_body(self, body: bytes, key: SigningKey) -> bytes:
        """Return lines with this body, and a statement for it that ``key`` signed."""
        statement = {**self.statement, "body_hash": digest(body)}
        signatures = msgspec.to_builtins(sign_statement(statement, [key]))
        outside = {"signatures": signatures, "statement": statement}
        return PREAMBLE + body + canonical(outside) + b"\n"

    @staticmethod
    def resealed(record: dict[str, Any]) -> dict[str, Any]:
        """Return a changed record with a matching ID."""
        bare = {name: part for name, part in record.items() if name != "id"}
        return {**bare, "id": digest(canonical(bare))}

    def update_statement(self) -> None:
        """Update hashes and counts to the sections, as a forger would."""
        components = {name: self.sections.get(name, []) for name in COMPONENTS}
        self.statement["body_hash"] = digest(self.body())
        self.statement["root_hash"] = digest(canonical(components))
        self.statement["counts"] = {name: len(part) for name, part in self.sections.items() if part}


def _drafts(first: Sealed) -> list[Model]:
    return [
        Semantic(
            text="Ada trinkt Tee 東京 🍵",
            parent_ids=(first.id,),
            salience=0.25,
            metadata={"n": 1e-7, "deep": [None, True, {"": ""}]},
        ),
        Identity(preferences={"drink": "tea"}),
        Status(target=first.id, state="restored"),
        Source(at=TIME, provider="mem0", format="mem0"),
    ]


def value_of(key: SigningKey) -> Value:
    """Return the sample, signed by ``key``."""
    nonces = seeded_nonces(b"the same in every run")
    first = seal(Episodic(text="Tea?", created_at=TIME), nonces=nonces)
    sections: dict[str, list[Any]] = {}
    for record in (first, *(seal(draft, nonces=nonces) for draft in _drafts(first))):
        sections.setdefault(RECORD_SECTIONS[record.type], []).append(record.value)
    sections["notes"] = [{"free": [1, 0.5]}]
    value = Value({}, [], sections)
    value.statement = {
        "format": "satchel/1",
        "created_at": TIME,
        "scope": {"kind": "full"},
        "source_agent": {"name": "ada's agent", "runtime": "r"},
        "metadata": {"why": "test"},
        "later": [1],
    }
    value.update_statement()
    value.signatures = msgspec.to_builtins(sign_statement(value.statement, [key]))
    return value


@pytest.fixture(scope="session")
def value(key: SigningKey) -> Value:
    """The sample; copy it before changing it."""
    return value_of(key)


@pytest.fixture(scope="session")
def samples(value: Value) -> dict[str, bytes]:
    """The sample's files by suffix, as the writer encodes them."""
    signatures = [msgspec.convert(found, Signature) for found in value.signatures]
    files = {}
    with ArtifactBuilder() as builder:
        for section, records in value.sections.items():
            for record in records:
                builder.add_item(section, record)
        body, totals = builder.finish()
        assert totals.body_hash == value.statement["body_hash"]
        for encoding in Encoding:
            sink = BytesIO()
            write_artifact(sink, encoding, body, value.statement, signatures)
            files[encoding.value] = sink.getvalue()
    packed = BytesIO()
    with gzip_sink(packed) as stream:
        stream.write(files["pam.jsonl"])
    return {**files, "pam.jsonl.gz": packed.getvalue()}


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a file that tests overwrite."""
    return tmp_path_factory.mktemp("hostile") / "sample"
