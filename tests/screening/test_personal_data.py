"""Personal data: what is found, what is not, and that no text makes it slow."""

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
def test_identifying_details_are_found_within_a_sentence(kind: str, text: str) -> None:
    """By its form, its check digits, or the words before it; and nothing of it is left."""
    value = {"text": f"Note: {text} - that was it."}
    form, replaced = Redactor([kind]).form(value)
    assert [one.kind for one in replaced] == [kind]
    assert f"[REDACTED:{kind}:1]" in form["text"]
    assert Redactor([kind]).form(form) == (form, [])


def test_every_kind_has_an_example() -> None:
    """A kind that nothing is found by would be a promise."""
    assert FOUND.keys() == KINDS.keys()


@pytest.mark.parametrize("text", NOT, ids=range(len(NOT)))
def test_what_only_looks_like_it_is_left(text: str) -> None:
    """Numbers of versions, times, digests, and tokens that stand there already."""
    assert list(personal_data(text)) == []


def test_the_same_value_has_the_same_number_in_all_members() -> None:
    """Keys, numbers, lists and what the source had written; what identifies is told and kept."""
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


def test_a_record_without_findings_is_returned_itself() -> None:
    """Its nonce included: it stays whole."""
    value = {"text": "nothing at all", "nonce": "0" * 32}
    assert Redactor().form(value) == (value, [])
    assert Redactor().form(value)[0] is value


@given(st.text(max_size=300))
def test_any_text_is_scrubbed_and_a_second_pass_finds_nothing(text: str) -> None:
    """For all texts: what is left holds nothing more of what was looked for."""
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
def test_no_text_takes_more_than_its_length(text: str) -> None:
    """Attack: a text made to have a pattern try every way through it.

    A quadratic rule would not end in time.
    """
    list(personal_data(text))


def test_a_name_or_place_that_cannot_be_is_refused() -> None:
    """Before anything is looked at."""
    for wrong in ({"kinds": ["face"]}, {"texts": [""]}, {"fields": ["x"]}, {"fields": ["/nonce"]}):
        with pytest.raises(UsageError):
            Redactor(**wrong)  # type: ignore[arg-type]


def test_another_detector_stands_beside_our_own() -> None:
    """What it finds is replaced like the rest; kinds that are not asked for stay."""

    def wallets(text: str) -> list[SensitiveSpan]:
        at = text.find("wallet-7")
        return [SensitiveSpan(at, at + 8, "id-number")] if at >= 0 else []

    value = {"type": "semantic", "text": "ada@example.com pays from wallet-7"}
    form, _ = Redactor(detectors=[wallets]).form(value)
    assert form["text"] == "[REDACTED:email:1] pays from [REDACTED:id-number:1]"
    form, _ = Redactor(["email"], detectors=[wallets]).form(value)
    assert form["text"] == "[REDACTED:email:1] pays from wallet-7"
