"""Redaction of a record: values are replaced by tokens with their kind.

Members that identify a record and its owner (ID, type, parents, times, scope, origin) stay, unless
one is named by its pointer; findings in them are reported. Source: docs/spec/7, 7.2.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from satchel.errors import UsageError
from satchel.model.records import TIMES
from satchel.screening.personal import KINDS as PERSONAL
from satchel.screening.personal import personal_data
from satchel.screening.secrets import KINDS as SECRETS
from satchel.screening.secrets import (
    RedactionTokens,
    Secret,
    SensitiveSpan,
    find_secrets,
    hide_tokens,
    merge_spans,
)

KINDS: dict[str, str] = {**PERSONAL, **{name: SECRETS[name] for name in SECRETS}}
"""Kinds that can be redacted, with their titles."""

TEXT = "text"
"""Kind of values that are given by their text or their pointer."""

MOST_FIELDS = 1_024
"""Maximum values of a memory that are replaced."""

People = Callable[[Sequence[str]], list[str]]

Detector = Callable[[str], Iterable[SensitiveSpan]]
"""Finds personal data of ``KINDS`` in a text, in any order; spans may overlap."""

_STAYS = frozenset({"id", "nonce", "type", "parent_ids", "source_event_ids", *TIMES})
_IDENTIFIES = frozenset({"scope", "sources", "origin", "kind", "actor", "event_type"})
_AS_WRITTEN = "as_written"
_MOST_TEXTS, _LEAST_NUMBER, _DEEPEST = 256, 10**6, 64
_PERSON = frozenset({"person", "per", "people", "human", "user"})
_RANK = {kind: rank for rank, kind in enumerate([TEXT, *KINDS])}


class Replacement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value that was replaced, or found and not replaced; without the value itself."""

    kind: str
    field: str
    """JSON pointer of the value, or of the member whose key contains it."""

    number: int
    kept: bool = False
    """Whether it stays, because it identifies the record or its owner."""


class Redactor:
    """Redacts values of records.

    Args:
        kinds: Kinds of ``KINDS``; all if empty and nothing else is given.
        texts: Texts that are replaced wherever they occur as whole words, in any case.
        fields: JSON pointers of members that are replaced as a whole.
        people: Finds names of people in texts, beyond the rules.
        detectors: Further detectors.

    Raises:
        UsageError: If a kind is unknown, or a pointer is not valid or names a member that stays.
    """

    def __init__(
        self,
        kinds: Sequence[str] = (),
        texts: Sequence[str] = (),
        fields: Sequence[str] = (),
        people: People | None = None,
        detectors: Sequence[Detector] = (),
    ) -> None:
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            raise UsageError(
                f"not a kind of personal data or secret: {unknown[0][:40]!r}",
                field="kind",
                hint=f"Choose from: {', '.join(KINDS)}.",
            )
        if len(texts) > _MOST_TEXTS or any(not text.strip() for text in texts):
            raise UsageError(f"1 to {_MOST_TEXTS} non-empty texts are allowed", field="text")
        for field in fields:
            first = field.split("/")[1] if field.startswith("/") else ""
            if not first or first in _STAYS:
                raise UsageError(
                    f"this member cannot be redacted: {field[:80]!r}",
                    field="field",
                    hint="Write a JSON pointer such as /text or /metadata/phone.",
                )
        named = bool(texts or fields)
        self.kinds = frozenset(kinds) if kinds or named else frozenset(KINDS)
        self.texts = tuple(texts)
        self.fields = frozenset(fields)
        self.people = people
        self.detectors = (personal_data, *detectors)

    def form(self, value: dict[str, Any]) -> tuple[dict[str, Any], list[Replacement]]:
        """Return the redacted form of a record, without a nonce, and the replacements.

        If nothing is replaced, the record itself is returned. A second redaction of the form finds
        nothing but what stays.

        Raises:
            UsageError: If it is nested too deep.
        """
        walk = _RedactionPass(self, value)
        form = {name: walk.member(name, part) for name, part in value.items() if name != "nonce"}
        if not any(not replacement.kept for replacement in walk.found):
            return value, walk.found
        return form, walk.found


class _RedactionPass:
    """A pass over a record."""

    def __init__(self, redactor: Redactor, value: dict[str, Any]) -> None:
        self.found: list[Replacement] = []
        self._redactor = redactor
        self._tokens = RedactionTokens(_texts_in(value))
        texts = list(redactor.texts)
        if "name" in redactor.kinds:
            texts += _people(value)
            if redactor.people is not None:
                texts += redactor.people([text for text in _texts_in(value) if " " in text])
        self._words = _pattern(texts)
        self._own = frozenset(text.casefold() for text in redactor.texts)

    def member(self, name: str, part: Any) -> Any:
        """Return a member of the redacted form."""
        if name in _STAYS:
            return part
        pointer = f"/{_escaped(name)}"
        if name == "origin" and isinstance(part, dict):
            return {
                key: self._value(
                    item, f"{pointer}/{_escaped(key)}", key, is_kept=key != _AS_WRITTEN
                )
                for key, item in part.items()
            }
        return self._value(part, pointer, name, is_kept=name in _IDENTIFIES)

    def _value(
        self, value: Any, at: str, name: str | None, *, is_kept: bool, depth: int = 1
    ) -> Any:
        if depth > _DEEPEST:
            raise UsageError(f"a value is nested more than {_DEEPEST} deep", field=at[:80])
        if at in self._redactor.fields:
            return self._whole(value, at)
        if isinstance(value, str):
            return self._text(value, at, name, is_kept=is_kept)
        if isinstance(value, dict):
            return self._object(value, at, is_kept=is_kept, depth=depth)
        if isinstance(value, list):
            return [
                self._value(part, f"{at}/{index}", name, is_kept=is_kept, depth=depth + 1)
                for index, part in enumerate(value)
            ]
        if type(value) is int and depth > 1 and abs(value) >= _LEAST_NUMBER:
            text = self._text(str(value), at, name, is_kept=is_kept)
            return value if text == str(value) else text
        return value

    def _whole(self, value: Any, at: str) -> Any:
        """Return a token for a member that is replaced as a whole; one for each item of a list."""
        if isinstance(value, list):
            return [self._whole(part, at) for part in value]
        if isinstance(value, dict):
            return {name: self._whole(part, at) for name, part in value.items()}
        text = value if isinstance(value, str) else str(value)
        if not text:
            return value
        return self._replaced(text, [Secret(TEXT, 0, len(text))], at)

    def _object(
        self, value: dict[str, Any], at: str, *, is_kept: bool, depth: int
    ) -> dict[str, Any]:
        out = {}
        for key, part in value.items():
            new = self._text(key, f"{at}/{_escaped(key)}" if is_kept else at, None, is_kept=is_kept)
            pointer = f"{at}/{_escaped(new)}"
            if f"{at}/{_escaped(key)}" in self._redactor.fields:
                out[new] = self._whole(part, pointer)
            else:
                out[new] = self._value(part, pointer, key, is_kept=is_kept, depth=depth + 1)
        return out

    def _text(self, text: str, at: str, name: str | None, *, is_kept: bool) -> str:
        secrets = list(self._secrets_in(text, name))
        if not secrets:
            return text
        if is_kept:
            for secret in secrets:
                number = self._tokens.number(secret, text)
                self.found.append(Replacement(kind=secret.kind, field=at, number=number, kept=True))
            return text
        return self._replaced(text, secrets, at)

    def _replaced(self, text: str, secrets: list[Secret], at: str) -> str:
        for secret in secrets:
            number = self._tokens.number(secret, text)
            self.found.append(Replacement(kind=secret.kind, field=at, number=number))
        return self._tokens.replace(text, secrets)

    def _secrets_in(self, text: str, name: str | None) -> Iterator[Secret]:
        """Yield the findings in a text, in order, without overlaps and without existing tokens."""
        kinds, spans = self._redactor.kinds, list[SensitiveSpan]()
        hidden = hide_tokens(text)
        if self._words is not None:
            for match in self._words.finditer(hidden):
                kind = TEXT if match[0].casefold() in self._own else "name"
                spans.append(SensitiveSpan(match.start(), match.end(), kind))
        for detector in self._redactor.detectors:
            spans += [span for span in detector(hidden) if span.kind in kinds]
        if kinds & SECRETS.keys():
            for secret in find_secrets(hidden, name):
                if secret.kind in kinds:
                    spans.append(SensitiveSpan(secret.start, secret.end, secret.kind))
        for span in merge_spans(spans, _RANK):
            yield Secret(span.kind, span.start, span.end)


def _pattern(texts: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern of texts as whole words, the longest first."""
    if not texts:
        return None
    words = sorted({text.strip() for text in texts}, key=len, reverse=True)[:_MOST_TEXTS]
    return re.compile(rf"(?i)(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)")


def _people(value: dict[str, Any]) -> list[str]:
    """Return the people that a record names among its entities."""
    entities = value.get("entities")
    return [
        entity["name"]
        for entity in (entities if isinstance(entities, list) else ())
        if isinstance(entity, dict)
        and isinstance(entity.get("name"), str)
        and len(entity["name"]) > 1
        and str(entity.get("entity_type", "")).lower() in _PERSON
    ]


def _texts_in(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts_in(part)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
