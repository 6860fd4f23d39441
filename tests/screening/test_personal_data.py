"""Personal data: detected kinds, text that is not personal data, and linear time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.errors import UsageError
from satchel.screening.personal import KINDS, personal_data
from satchel.screening.redaction import Redactor
from satchel.screening.secrets import SensitiveSpan

FOUND = {
    "email": ["ada@example.com", "a.l+x@mail.example.co.uk", "ada.ü@exämple.org"],
    "phone": [
        "+44 20 7946 0958",
        "+1 (415) 555-2671",
        "(415) 555-2671",
        "030 1234567",
        "tel. 5551234",
    ],
    "card-number": ["4111 1111 1111 1111", "378282246310005"],
    "iban": ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000"],
    "id-number": ["219-09-9999", "passport no. X1234567", "AB 12 34 56 C"],
    "birth-date": ["born 10 December 1815", "DOB: 12/10/1815", "date of birth 1815-12-10"],
    "address": [
        "12 St James Square, London",
        "Lindenstraße 12a, 10969 Berlin",
        "SW1A 1AA",
        "Mountain View, CA 94043",
    ],
    "ip-address": ["192.168.1.20", "2001:db8::8a2e:370:7334"],
    "name": ["Dr. Ada Lovelace", "my name is Ada", "Frau Müller", "whose name is Ada de Lovelace"],
}
NOT = [
    "the run took 0.123 s for 100,000 records on 2026-11-22T10:00:00",
    "version 1.2.3 of 4.5 needs 16384 bytes and port 5432",
    "sha 4111111111111112 and DE89370400440532013001",
    "Ada wrote the first programme in London",
    "ratio 3:2 at 10:30:59, see ::1 and 127.0.0.1",
    "[REDACTED:email:1] and [REDACTED:phone:2]",
    "order 2026-11-22-0001, items 1-2-3",
    "x" * 3_000,
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in FOUND.items() for text in texts]
)
def test_each_kind_of_personal_data_is_found_in_a_sentence(kind: str, text: str) -> None:
    """By its form, its check digits, or the preceding words; the token replaces all of it."""
    value = {"text": f"Note: {text} - that was it."}
    form, replaced = Redactor([kind]).form(value)
    assert [one.kind for one in replaced] == [kind]
    assert f"[REDACTED:{kind}:1]" in form["text"]
    assert Redactor([kind]).form(form) == (form, [])


def test_every_kind_has_an_example() -> None:
    """A kind without a detected example would be an empty promise."""
    assert FOUND.keys() == KINDS.keys()


@pytest.mark.parametrize("text", NOT, ids=range(len(NOT)))
def test_text_that_looks_like_personal_data_is_unchanged(text: str) -> None:
    """Version numbers, times, digests, and existing tokens."""
    assert list(personal_data(text)) == []


def test_the_same_value_has_the_same_number_in_all_members() -> None:
    """Keys, numbers, lists and ``as_written``; identifying members are reported and stay."""
    value = {
        "id": "blake3:" + "0" * 64,
        "nonce": "0" * 32,
        "type": "semantic",
        "text": "ada@example.com or eve@example.com",
        "metadata": {"ada@example.com": ["eve@example.com", {"card": 4111111111111111}]},
        "origin": {"id": "ada@example.com", "as_written": {"to": "ada@example.com"}},
        "scope": {"user": "ada@example.com"},
        "entities": [{"name": "Countess", "entity_type": "person"}],
        "tags": ["Countess"],
    }
    form, replaced = Redactor().form(value)
    assert form == {
        "id": value["id"],
        "type": "semantic",
        "text": "[REDACTED:email:1] or [REDACTED:email:2]",
        "metadata": {
            "[REDACTED:email:1]": ["[REDACTED:email:2]", {"card": "[REDACTED:card-number:1]"}]
        },
        "origin": {"id": "ada@example.com", "as_written": {"to": "[REDACTED:email:1]"}},
        "scope": {"user": "ada@example.com"},
        "entities": [{"name": "[REDACTED:name:1]", "entity_type": "person"}],
        "tags": ["[REDACTED:name:1]"],
    }
    kept = {one.field for one in replaced if one.kept}
    assert kept == {"/origin/id", "/scope/user"}
    assert not any("ada@" in one.field for one in replaced)


def test_a_value_without_personal_data_is_returned_unchanged() -> None:
    """With its nonce."""
    value = {"text": "nothing at all", "nonce": "0" * 32}
    assert Redactor().form(value) == (value, [])
    assert Redactor().form(value)[0] is value


@given(st.text(max_size=300))
def test_redacting_twice_equals_redacting_once(text: str) -> None:
    """For all texts."""
    form, _ = Redactor().form({"text": text})
    again, replaced = Redactor().form(form)
    assert (again, replaced) == (form, [])


@pytest.mark.parametrize(
    "text",
    [
        "a" * 60_000 + "@",
        "a@" + "b." * 30_000,
        "+1" + " 1" * 30_000,
        "1-" * 30_000,
        "Mr " + "Aa " * 20_000,
        "1 " + "Aa " * 20_000,
        "my name is " * 6_000,
        "passport no " * 5_000,
        "AB12 " * 12_000,
        ":" * 60_000,
        "born " * 12_000,
        "[REDACTED:" * 6_000,
    ],
    ids=range(12),
)
def test_attack_a_repeated_pattern_is_scanned_in_linear_time(text: str) -> None:
    """A text that makes a pattern backtrack; a quadratic rule would time out."""
    list(personal_data(text))


def test_an_invalid_kind_text_or_field_is_refused() -> None:
    """Before any text is read."""
    for wrong in ({"kinds": ["face"]}, {"texts": [""]}, {"fields": ["x"]}, {"fields": ["/nonce"]}):
        with pytest.raises(UsageError):
            Redactor(**wrong)  # type: ignore[arg-type]


def test_a_custom_detector_is_used_with_the_built_in_ones() -> None:
    """Its findings are replaced, unless their kind is not selected."""

    def wallets(text: str) -> list[SensitiveSpan]:
        at = text.find("wallet-7")
        return [SensitiveSpan(at, at + 8, "id-number")] if at >= 0 else []

    value = {"type": "semantic", "text": "ada@example.com pays from wallet-7"}
    form, _ = Redactor(detectors=[wallets]).form(value)
    assert form["text"] == "[REDACTED:email:1] pays from [REDACTED:id-number:1]"
    form, _ = Redactor(["email"], detectors=[wallets]).form(value)
    assert form["text"] == "[REDACTED:email:1] pays from wallet-7"
