"""The published JSON Schemas agree with the writers."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from token_kit import BANK, NOW, OWNER, SEMANTIC, chain_of, child_of, later

from satchel.artifact.encodings import MAGIC
from satchel.conformance.strategies import records, simplest
from satchel.conformance.subject import KEY, sealed
from satchel.crypto.sealed_records import seal
from satchel.crypto.token_chain import signed_list
from satchel.crypto.tokens import Tags, entries_clause
from satchel.model.records import RECORD_CLASSES, Model
from satchel.ports.format import Target, WriteContext, formats
from satchel.screening.redaction import Redactor

_SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
_NAMES = [path.stem for path in sorted(_SCHEMAS.glob("*.json"))]


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((_SCHEMAS / f"{name}.json").read_bytes()))


def _problems(name: str, value: object) -> list[str]:
    return [error.message for error in _validator(name).iter_errors(value)]


def _document(name: str, target: Path) -> dict[str, Any]:
    """Return a PAM file as the value of ``.pam``."""
    data = target.read_bytes()
    if name == "pam_cbor":
        return cbor2.loads(data.removeprefix(MAGIC))  # type: ignore[no-any-return]
    if name == "pam":
        return json.loads(data)  # type: ignore[no-any-return]
    _, *body, trailer = [json.loads(line) for line in data.splitlines()]
    document: dict[str, Any] = {**trailer, "components": {}}
    found: list[Any] = []
    for line in body:
        if line.keys() == {"section"}:
            found = []
            inside = (
                line["section"] in _validator("pam").schema["properties"]["components"]["required"]
            )
            (document["components"] if inside else document)[line["section"]] = found
        else:
            found.append(line)
    for component in ("episodic", "identity", "procedural", "semantic", "working"):
        document["components"].setdefault(component, [])
    return document


def test_the_published_schemas_match_the_model() -> None:
    """After a change of the model run ``python schemas/make.py``."""
    made = subprocess.run(
        [sys.executable, _SCHEMAS / "make.py", "--check"], capture_output=True, check=False
    )

    assert (made.returncode, made.stdout.decode(), made.stderr.decode()) == (0, "", "")
    ours = {"statement", "pam", "account", "plan", "bank_config", "configuration"}
    ours |= {"agent_file", "capability_token", "proof_of_possession", "revocations"}
    assert set(_NAMES) == {*RECORD_CLASSES, *ours}


@pytest.mark.parametrize("name", _NAMES)
def test_each_schema_is_itself_valid(name: str) -> None:
    """Every file is a JSON Schema of the 2020-12 dialect."""
    schema = _validator(name).schema

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


@given(record=records())
def test_every_record_that_can_be_sealed_validates(record: Model) -> None:
    """Against the schema of its type, unknown members included."""
    made = seal(record, unknown={"future_member": {"kept": None}})

    assert _problems(made.type, made.value) == []


@pytest.mark.parametrize("name", ["pam", "pam_jsonl", "pam_cbor"])
@given(memory=st.lists(records(), max_size=5))
def test_written_files_validate(name: str, memory: list[Model]) -> None:
    """The file against ``pam.json``, and its statement against ``statement.json``."""
    with sealed(memory) as found, TemporaryDirectory() as folder:
        target = Path(folder) / "out"
        formats[name].write(found, Target(target), WriteContext(keys=(KEY,)))
        document = _document(name, target)

    assert _problems("pam", document) == []
    assert _problems("statement", document["statement"]) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda value: value.pop("id"), "id"),
        (lambda value: value.update(id="blake3:00"), "blake3:00"),
        (lambda value: value.update(text=5), "5"),
        (lambda value: value.update(salience=1.5), "1.5"),
        (lambda value: value.update(type="episodic"), "episodic"),
        (lambda value: value.update(created_at="2026-01-01"), "2026-01-01"),
    ],
)
def test_an_invalid_record_does_not_validate(change: Any, word: str) -> None:
    """A schema that accepts everything would be useless."""
    value = seal(simplest("semantic")).value
    change(value)

    assert any(word in problem for problem in _problems("semantic", value))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("signatures"),
        lambda document: document["components"].pop("working"),
        lambda document: document["components"].update(memories=[]),
        lambda document: document.update(edges=[]),
        lambda document: document.update({"Not a section": [{}]}),
        lambda document: document["statement"].pop("body_hash"),
        lambda document: document["components"]["semantic"].append({"type": "semantic"}),
        lambda document: document["signatures"].append({"key": "k"}),
    ],
    ids=[
        "no signatures",
        "a component missing",
        "a sixth component",
        "an empty section",
        "an unnamed section",
        "no body hash",
        "no id",
        "half a signature",
    ],
)
def test_an_invalid_document_does_not_validate(change: Any, tmp_path: Path) -> None:
    """A shape that verification refuses is refused by the schema, too."""
    target = tmp_path / "out"
    with sealed([simplest("semantic")]) as found:
        formats["pam"].write(found, Target(target), WriteContext())
    document = _document("pam", target)
    assert _problems("pam", document) == []
    change(document)

    assert _problems("pam", document)


def test_tokens_and_revocation_lists_validate() -> None:
    """Those of an owner and of a holder; unknown members are refused."""
    listed, _ = entries_clause([f"blake3:{number:064x}" for number in range(70)])
    chain = child_of(chain_of(SEMANTIC, listed), Tags(any_of=("a",), none_of=("b",)))
    tokens = [token["payload"] for token in chain.value()["tokens"]]
    assert [_problems("capability_token", each) for each in tokens] == [[], []]
    assert _problems("capability_token", {**tokens[0], "caveat": 1})
    revoked = json.loads(signed_list(BANK, OWNER, 7, [BANK], (NOW, later(24))))
    assert _problems("revocations", revoked["payload"]) == []


@pytest.mark.parametrize(
    "change",
    [
        {"text": "Call [REDACTED:phone:1]"},
        {"tags": ["a", "[REDACTED:text:1]"]},
        {"metadata": {"a": [{"b": "[REDACTED:email:12]"}]}},
        {"metadata": {"[REDACTED:name:1]": 1}},
    ],
    ids=["text", "list", "deep", "key"],
)
def test_a_redacted_form_validates(change: dict[str, Any]) -> None:
    """The product's own files have entries without a nonce, with tokens in any text."""
    value = {**seal(simplest("semantic")).value, **change}
    del value["nonce"]
    assert _problems("semantic", value) == []


@pytest.mark.parametrize("kind", ["semantic", "status"])
@pytest.mark.parametrize("metadata", [{}, {"a": ["[REDACTED]"]}, {"[REDACTED:x]": {}}])
def test_only_redacted_forms_validate_without_a_nonce(kind: str, metadata: Any) -> None:
    """An entry without a nonce cannot be verified, and other records are not redacted."""
    value = seal(simplest(kind)).value | {"metadata": metadata}
    assert _problems(kind, value) == []
    del value["nonce"]
    assert any("nonce" in problem or "any of" in problem for problem in _problems(kind, value))


def test_redacted_records_validate() -> None:
    """Every member that redaction replaces has a token that the schema accepts."""
    metadata = {"phone": 491701234567, "deep": {"list": ["x", 5]}}
    value = seal(simplest("semantic")).value | {"text": "t", "metadata": metadata}
    for field in ("/text", "/metadata", "/metadata/phone", "/metadata/deep/list"):
        form, found = Redactor(fields=[field]).form(value)
        assert found
        assert "nonce" not in form
        assert _problems("semantic", form) == []
