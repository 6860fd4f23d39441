"""Taking chosen entries out of a bank, with all that they were drawn from, and proofs for each.

A recipient can check without the bank that each was logged under the signed head. What an entry was
drawn from goes along, so that its chain can be followed to the roots; an ancestor that is withheld
is named by its id and place, with its proof, and nothing of what it says. Never what was drawn from
an entry. Source: docs/spec/7-disclosure-redaction-erasure.md, 7.1.
"""

from collections.abc import Iterable, Iterator

import msgspec

from satchel.errors import LimitError
from satchel.ledger.authority import ADMISSION, DECISIONS
from satchel.ledger.logged import Logged
from satchel.ledger.view import View
from satchel.memory.entries import Entry
from satchel.memory.records import Config
from satchel.memory.times import now
from satchel.ports.rows import Filter
from satchel.seal.keys.ended import ENDING
from satchel.seal.keys.owners import OWNING
from satchel.transfer.exporting import Outgoing, Taken

MOST = 100_000
"""Entries and ancestors of one disclosure."""

_TOGETHER, _EXAMPLES = 256, 3
_ABOUT_KEYS = DECISIONS | ENDING | OWNING | {ADMISSION}
_ABOUT_THE_LOG = Filter(types=frozenset({"bank", "config"}))


def disclose(
    view: View, chosen: Iterable[Logged], outgoing: Outgoing, withhold: frozenset[str] = frozenset()
) -> Taken:
    """Add entries, their ancestors, and the proofs that all were logged, to a builder.

    Args:
        view: Of the bank.
        chosen: The entries, which may be of the past.
        outgoing: Where they go.
        withhold: Ids of ancestors that are not to be shown.

    Raises:
        LimitError: If there are too many ancestors.
        VerificationError: If a record is not what was logged.
    """
    disclosing = _Disclosing(view, outgoing, withhold)
    for logged in view.scan(_ABOUT_THE_LOG):
        model = logged.model
        if not isinstance(model, Config) or model.action in _ABOUT_KEYS:
            outgoing.builder.add(logged.record)
            if isinstance(model, Config) and model.action in ENDING:
                disclosing.endings.append(logged.record.id)
    disclosing.take(chosen)
    disclosing.finish()
    return disclosing.found


class _Disclosing:
    """One way through the ancestors, each looked at once."""

    def __init__(self, view: View, outgoing: Outgoing, withhold: frozenset[str]) -> None:
        self.found = Taken()
        self.endings = list[str]()
        """Ids of the records by which keys ended."""

        self._redacts = False
        self._view = view
        self._builder = outgoing.builder
        self._withhold = withhold
        self._seen = set[str]()
        self._now = now()

    def take(self, chosen: Iterable[Logged]) -> None:
        """Add entries, and what they were drawn from, generation by generation."""
        some = {logged.record.id: logged for logged in chosen}
        self._note(some)
        while some:
            parents = dict.fromkeys(
                parent
                for logged in some.values()
                if isinstance(logged.model, Entry)
                for parent in logged.model.parent_ids
                if parent not in self._seen
            )
            self._add(some)
            self._note(parents)
            shown, hidden = dict[str, Logged](), list[str]()
            for ids in _groups(list(parents)):
                there = self._view.get([one for one in ids if one not in self._withhold])
                shown |= {name: one for name, one in there.items() if not one.row.hold}
                hidden += [one for one in ids if one not in shown]
            self._hold_back(hidden)
            some = shown

    def _note(self, ids: Iterable[str]) -> None:
        self._seen.update(ids)
        if len(self._seen) > MOST:
            raise LimitError(
                f"more than {MOST:,} entries and ancestors",
                hint="Withhold some, which ends their chains, or export the bank.",
            )

    def _add(self, some: dict[str, Logged]) -> None:
        for ids in _groups(list(some)):
            proofs = self._view.proofs(ids)
            for identity in ids:
                logged = some[identity]
                expires = logged.row.expires_at
                self._builder.add(logged.record)
                if isinstance(logged.model, Entry) and logged.model.nonce is None:
                    redaction = self._view.redaction(identity)
                    assert redaction is not None  # noqa: S101 - a form is believed by it alone
                    self._builder.add(redaction.record)
                    self._prove([redaction.record.id])
                    self._redacts = True
                self._builder.add_item("proofs", msgspec.to_builtins(proofs[identity]))
                self.found.entries += 1
                self.found.expired += expires is not None and expires <= self._now

    def finish(self) -> None:
        """Prove where keys ended, by which a redaction that was signed before is told."""
        if self._redacts:
            self._prove(self.endings)

    def _prove(self, ids: list[str]) -> None:
        for some in _groups(ids):
            for proof in self._view.proofs(some).values():
                self._builder.add_item("proofs", msgspec.to_builtins(proof))

    def _hold_back(self, hidden: list[str]) -> None:
        for ids in _groups(hidden):
            proofs = self._view.proofs(ids)
            for identity in ids:
                if identity in proofs:
                    self._builder.add_item("withheld", msgspec.to_builtins(proofs[identity]))
                    self.found.withheld += 1
                    continue
                self.found.absent += 1
                if len(self.found.absent_examples) < _EXAMPLES:
                    self.found.absent_examples.append(identity)


def _groups(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _TOGETHER):
        yield ids[start : start + _TOGETHER]
