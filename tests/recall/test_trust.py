"""Effective trust: the lower of the claim and what the import earned, raised by promotion alone."""

import pytest
from recall_kit import Remembering

from satchel.crypto.sealed_records import Sealed
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Semantic, Source, Status
from satchel.model.values import Origin, TrustClass
from satchel.recall.order import FROM_HIGH_TO_LOW, is_trusted, lower

AT = "2026-05-01T00:00:00.000000Z"
CLASSES = [*FROM_HIGH_TO_LOW, None]


def imported(
    bank: Remembering, claim: TrustClass | None, earned: TrustClass | None, *more: Status
) -> tuple[Sealed, Sealed]:
    """Import one memory, and return its source record and itself."""
    (source,) = bank.add(Source(provider="mem0", format="mem0", trust=earned))
    (memory,) = bank.add(tea(claim), batch=source.id)
    if more:
        bank.add(*more, batch=source.id)
    bank.ledger.append([closing_receipt(source.id, AT)])
    return source, memory


def tea(claim: TrustClass | None) -> Semantic:
    """Return a memory that claims something."""
    return Semantic(text="tea", origin=Origin(trust=claim) if claim else None)


def trusts(bank: Remembering) -> list[str]:
    """Return how far what is found is trusted."""
    return [hit.trust.value for hit in bank.ask("tea").hits]


def promoted(record: Sealed, trust: str | None = None) -> Status:
    """Return what raises the trust in a record."""
    metadata = {"trust": trust} if trust is not None else {}
    return Status(target=record.id, state="promoted", metadata=metadata)


def test_the_order_of_the_classes_is_that_of_the_specification() -> None:
    """All of them, from high to low."""
    assert set(FROM_HIGH_TO_LOW) == set(TrustClass)
    assert [*FROM_HIGH_TO_LOW] == ["user", "agent", "tool", "external", "imported"]
    assert lower(TrustClass.TOOL, TrustClass.AGENT) is TrustClass.TOOL
    assert is_trusted(TrustClass.AGENT, TrustClass.TOOL)
    assert not is_trusted(TrustClass.TOOL, TrustClass.AGENT)


@pytest.mark.parametrize("claim", CLASSES)
def test_what_was_written_here_is_trusted_as_it_claims(
    bank: Remembering, claim: TrustClass | None
) -> None:
    """And without a claim as the user's own."""
    bank.add(tea(claim))
    assert trusts(bank) == [claim or "user"]


@pytest.mark.parametrize("claim", CLASSES)
@pytest.mark.parametrize("earned", CLASSES)
def test_what_was_imported_is_trusted_as_the_lower_of_both(
    bank: Remembering, claim: TrustClass | None, earned: TrustClass | None
) -> None:
    """A file may claim what it likes; an import that says nothing earned least."""
    imported(bank, claim, earned)
    own = earned or TrustClass.IMPORTED
    assert trusts(bank) == [lower(claim or own, own)]


def test_a_filter_by_trust_is_by_the_effective_one(bank: Remembering) -> None:
    """Attack: an imported memory that claims to be the user's."""
    imported(bank, TrustClass.USER, TrustClass.EXTERNAL)
    assert len(bank.ask("tea", trust=TrustClass.EXTERNAL).hits) == 1
    assert bank.ask("tea", trust=TrustClass.TOOL).hits == ()
    assert bank.ask("", trust=TrustClass.TOOL).hits == ()


def test_a_promotion_raises_to_the_class_that_it_names_or_to_user(bank: Remembering) -> None:
    """Never down, and one that names nonsense as one that names nothing."""
    _, memory = imported(bank, None, None)
    bank.add(promoted(memory, "tool"))
    assert trusts(bank) == ["tool"]
    bank.add(promoted(memory, "external"))
    assert trusts(bank) == ["tool"]
    bank.add(promoted(memory, "boss"))
    assert trusts(bank) == ["user"]


def test_promoting_an_import_raises_what_it_earned_not_what_is_claimed(bank: Remembering) -> None:
    """The claim of each memory stays a bound."""
    source, _ = imported(bank, TrustClass.TOOL, None)
    bank.add(promoted(source, "agent"))
    assert trusts(bank) == ["tool"]


def test_a_file_does_not_promote_itself(bank: Remembering) -> None:
    """Attack: a promotion among the imported records, of one of one's own memories too."""
    (own,) = bank.add(tea(TrustClass.EXTERNAL))
    (source,) = bank.add(Source(provider="mem0", format="mem0"))
    (memory,) = bank.add(Semantic(text="tea, imported"), batch=source.id)
    bank.add(promoted(memory), promoted(own), batch=source.id)
    bank.ledger.append([closing_receipt(source.id, AT)])
    assert sorted(trusts(bank)) == ["external", "imported"]


def test_a_promotion_that_is_not_committed_in_the_end_raises_nothing(bank: Remembering) -> None:
    """A promotion counts from its place in the log."""
    _, memory = imported(bank, None, None)
    size = bank.size()
    bank.add(promoted(memory))
    with bank.ledger.reading() as view:
        fold = view._fold
        assert len(fold.promotions(memory.id, bank.size())) == 1
        assert fold.promotions(memory.id, size) == []
