"""Finding entities in what arrives."""

from collections.abc import Mapping

import msgspec

from satchel.actions.inferring.text_models import extractor
from satchel.memory.entries import Entry
from satchel.memory.parts import Entity
from satchel.memory.records import Model
from satchel.ports.rows import texts_of

OF_AMA = {
    "person": "PERSON",
    "organisation": "ORG",
    "place": "LOCATION",
    "product": "PRODUCT",
    "date": "DATE",
}
"""What types of entities are called in an archive of Astrocyte."""


class Extraction:
    """Gives memories the entities that are found in their words, in the place of those they had.

    Args:
        types: What types are called, where not as the extractor does.
    """

    def __init__(self, types: Mapping[str, str] | None = None) -> None:
        self._types = types or {}
        self._extractor = extractor()
        self.model = self._extractor.model
        """What finds them."""

        self.memories = 0
        """How many memories have some."""

        self.entities = 0

    def __call__(self, draft: Model) -> Model:
        """Return a memory with its entities; what is no memory as it is."""
        if not isinstance(draft, Entry):
            return draft
        [mentions] = self._extractor.extract([texts_of(draft)])
        found = dict[str, Entity]()
        for one in mentions:
            found.setdefault(
                one.name.casefold(),
                Entity(name=one.name, entity_type=self._types.get(one.type, one.type)),
            )
        entities = tuple(found.values())
        self.memories += bool(entities)
        self.entities += len(entities)
        return msgspec.structs.replace(draft, entities=entities)
