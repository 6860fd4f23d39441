"""Effective trust: the lower of the claim and the trust of the import, raised only by promotion."""

import pytest
from recall_kit import Remembering

from satchel.crypto.sealed_records import Sealed
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Semantic, Source, Status
from satchel.model.values import Origin, TrustClass
from satchel.recall.order import FROM_HIGH_TO_LOW, is_trusted, lower

AT = "2026-05-01T00:00:00.000000Z"
CLASSES = [*FROM_HIGH_TO_LOW, None]


def import_memory(
    bank: Remembering, claim: TrustClass | None, earned: TrustClass | None, *more: Status
) -> tuple[Sealed, Sealed]:
    """Import one memory; return its source record and the memory."""
    (source,) = bank.add(Source(provider="mem0", format="mem0", trust=earned))
    (memory,) = bank.add(claiming(claim), batch=source.id)
    if more:
        bank.add(*more, batch=source.id)
    bank.ledger.append([closing_receipt(source.id, AT)])
    return source, memory


def claiming(claim: TrustClass | None) -> Semantic:
    """Return a memory that claims a trust class."""
    return Semantic(text="tea", origin=Origin(trust=claim) if claim else None)


def trusts(bank: Remembering) -> list[str]:
    """Return the effective trust of each result."""
    return [hit.trust.value for hit in bank.ask("tea").hits]


def promotion(record: Sealed, trust: str | None = None) -> Status:
    """Return a record that raises the trust in a record."""
    metadata = {"trust": trust} if trust is not None else {}
    return Status(target=record.id, state="promoted", metadata=metadata)


def test_the_order_of_the_trust_classes_follows_the_specification() -> None:
    """All of them, from high to low."""
    assert set(FROM_HIGH_TO_LOW) == set(TrustClass)
    assert [*FROM_HIGH_TO_LOW] == ["user", "agent", "tool", "external", "imported"]
    assert lower(TrustClass.TOOL, TrustClass.AGENT) is TrustClass.TOOL
    assert is_trusted(TrustClass.AGENT, TrustClass.TOOL)
    assert not is_trusted(TrustClass.TOOL, TrustClass.AGENT)


@pytest.mark.parametrize("claim", CLASSES)
def test_local_memories_are_trusted_as_they_claim(
    bank: Remembering, claim: TrustClass | None
) -> None:
    """And without a claim as the user's own."""
    bank.add(claiming(claim))
    assert trusts(bank) == [claim or "user"]


@pytest.mark.parametrize("claim", CLASSES)
@pytest.mark.parametrize("earned", CLASSES)
def test_imported_memories_are_trusted_as_the_lower_of_claim_and_import(
    bank: Remembering, claim: TrustClass | None, earned: TrustClass | None
) -> None:
    """A file may claim anything; an import without a trust class counts as imported."""
    import_memory(bank, claim, earned)
    own = earned or TrustClass.IMPORTED
    assert trusts(bank) == [lower(claim or own, own)]


def test_attack_a_filter_by_trust_uses_the_effective_trust(bank: Remembering) -> None:
    """Attack: an imported memory that claims to be the user's."""
    import_memory(bank, TrustClass.USER, TrustClass.EXTERNAL)
    assert len(bank.ask("tea", trust=TrustClass.EXTERNAL).hits) == 1
    assert bank.ask("tea", trust=TrustClass.TOOL).hits == ()
    assert bank.ask("", trust=TrustClass.TOOL).hits == ()


def test_a_promotion_raises_trust_to_the_named_class_or_to_user(bank: Remembering) -> None:
    """Never down; an invalid class counts as none."""
    _, memory = import_memory(bank, None, None)
    bank.add(promotion(memory, "tool"))
    assert trusts(bank) == ["tool"]
    bank.add(promotion(memory, "external"))
    assert trusts(bank) == ["tool"]
    bank.add(promotion(memory, "boss"))
    assert trusts(bank) == ["user"]


def test_promoting_an_import_raises_its_trust_but_not_the_claims(bank: Remembering) -> None:
    """The claim of each memory stays a bound."""
    source, _ = import_memory(bank, TrustClass.TOOL, None)
    bank.add(promotion(source, "agent"))
    assert trusts(bank) == ["tool"]


def test_attack_a_file_cannot_promote_itself(bank: Remembering) -> None:
    """Attack: a promotion among the imported records, also of a local memory."""
    (own,) = bank.add(claiming(TrustClass.EXTERNAL))
    (source,) = bank.add(Source(provider="mem0", format="mem0"))
    (memory,) = bank.add(Semantic(text="tea, imported"), batch=source.id)
    bank.add(promotion(memory), promotion(own), batch=source.id)
    bank.ledger.append([closing_receipt(source.id, AT)])
    assert sorted(trusts(bank)) == ["external", "imported"]


def test_a_promotion_that_is_not_committed_has_no_effect(bank: Remembering) -> None:
    """A promotion counts from its position in the log."""
    _, memory = import_memory(bank, None, None)
    size = bank.size()
    bank.add(promotion(memory))
    with bank.ledger.reading() as view:
        fold = view._fold
        assert len(fold.promotions(memory.id, bank.size())) == 1
        assert fold.promotions(memory.id, size) == []
