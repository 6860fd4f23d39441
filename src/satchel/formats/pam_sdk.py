"""Files of the published PAM SDK, profile ``pam-sdk-1.0`` (docs/spec/4-verification.md, 4.6).

The SDK's IDs become ``origin.id`` and its links refer to our IDs; an unchanged entry is written
with its original ID. ``satchel verify`` judges such files.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError
from typing import Any, ClassVar, cast

import msgspec

from satchel.artifact.encodings import gzip_sink
from satchel.artifact.pam_sdk.layout import (
    CAPS,
    PROFILE,
    check_envelope,
    content_text,
    parents_first,
)
from satchel.artifact.pam_sdk.reader import SdkDocument, open_sdk_file, sdk_draft, to_sdk_entry
from satchel.artifact.pam_sdk.writer import (
    NOT_IN_FILE,
    PROVIDER,
    dump_cbor,
    dump_json,
    make_document,
    make_entry,
)
from satchel.crypto.canonical import decode_foreign, encode_foreign
from satchel.crypto.sealed_records import Sealed, digest, seal
from satchel.errors import MalformedError, SatchelError
from satchel.model.records import Entry, Model, Source
from satchel.model.values import Component, now
from satchel.ports.format import Info, Location, ReadContext, Signs, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, Report

_HEADER = ("pam_version", "schema_version", "created_at", "source_agent")
_CARRIED_ENVELOPE = (*_HEADER, "capability_tokens", "metadata")
_TRANSFER_RECORDS = frozenset({"source", "receipt"})
_NO_FIELD = "the SDK cannot hold it"

# `pam_version` is the first member that the SDK writes; only plain texts may precede it.
_JSON_START = re.compile(rb'\s*\{\s*(?:"[a-z_]+"\s*:\s*"[^"\\]*"\s*,\s*)*"pam_version"\s*:')
_CBOR_START = re.compile(rb"[\xa0-\xbf].*kpam_version", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _SdkEntry:
    """An entry of a file between the two passes, as the text that its ID covers."""

    component: str
    pointer: str
    place: dict[str, int]
    text: str
    links: tuple[str, ...]


class PamSdk:
    """The format."""

    info: ClassVar[Info] = Info(
        title=f"PAM file of the published SDK (profile {PROFILE})",
        suffixes=(),
        signs=Signs(texts=((b"pam_version",),)),
        spec="docs/spec/4-verification.md, section 4.6; PAM reference SDK at 7297c12",
        checked="2026-11-21",
        traits=Traits(components=frozenset(Component), sealed=True),
        lost_on_writing=(
            "Scope, entities, validity and other times, free metadata, embeddings, edges and "
            "every record that is not an entry; lists beyond the lengths that the SDK loads."
        ),
    )

    def recognizes(self, location: Location) -> bool:
        head = location.unpacked_head
        return bool(_JSON_START.match(head) or _CBOR_START.match(head))

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield sealed entries, parents before children; their IDs must be valid."""
        with open_sdk_file(location.file, reading.limits) as document:
            held = _collect(document)
        reading.container.update(encode_foreign(document.envelope))
        links = {identity: entry.links for identity, entry in held.items()}
        ours: dict[str, str] = {}
        for identity in _in_order(links, location.name):
            entry = held.pop(identity)
            value = {**json.loads(entry.text), "id": identity}
            _report_links(value, links, reading.report)
            try:
                record = seal(sdk_draft(entry.component, value, ours), limits=reading.limits)
            except SatchelError as error:
                error.within(entry.pointer)
                raise error.located(file=location.name, **entry.place) from None
            ours[identity] = record.id
            yield record

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        components = _Writer(writing.report).components(records)
        if len(writing.keys) > 1:
            writing.report.note("an SDK file has one signature; only the first key signed")
        document = make_document(
            components,
            _envelope(records, writing),
            writing.keys[0] if writing.keys else None,
        )
        cbor = target.path.name.removesuffix(".gz").endswith(".cbor")
        data = dump_cbor(document) if cbor else dump_json(document)
        with target.open() as stream:
            if writing.compress:
                with gzip_sink(stream) as packed:
                    packed.write(data)
            else:
                stream.write(data)


FORMAT = PamSdk()
"""The instance that the registry loads."""


def _collect(document: SdkDocument) -> dict[str, _SdkEntry]:
    held: dict[str, _SdkEntry] = {}
    for entry in document.entries():
        text = content_text(entry.value)
        if digest(text.encode()) != entry.id:
            # A forged ID would later exclude the genuine entry as a duplicate.
            raise MalformedError(
                "the ID does not match the content", field=f"{entry.pointer}/id"
            ).located(file=document.name, **entry.place)
        links = (*entry.value["parent_ids"], *entry.value.get("source_event_ids", ()))
        held[entry.id] = _SdkEntry(entry.component, entry.pointer, entry.place, text, links)
    return held


def _in_order(links: dict[str, tuple[str, ...]], name: str) -> list[str]:
    try:
        return list(parents_first(links))
    except CycleError as error:
        raise MalformedError(
            "an entry is its own ancestor", file=name, field=str(error.args[1])
        ) from None


def _report_links(
    value: dict[str, Any], present: dict[str, tuple[str, ...]], report: Report
) -> None:
    for member in ("parent_ids", "source_event_ids"):
        for link in value.get(member, ()):
            if link not in present:
                report.lost(member, NOT_IN_FILE, example=value["id"])


class _Writer:
    """Converts a set of records to the SDK's arrays, and reports losses.

    Args:
        report: Counts losses.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._theirs: dict[str, str] = {}
        self._written: dict[str, dict[str, Any]] = {}
        self._used: set[str] = set()

    def components(self, records: RecordSet) -> dict[str, list[dict[str, Any]]]:
        """Return the entries of each array, in the order of the records."""
        selected = self._select(records)
        links = {identity: _links(record) for identity, record in selected.items()}
        for identity in _in_order(links, "the records to write"):
            self._make(Sealed(identity, selected[identity].type, selected[identity].body))
        arrays: dict[str, list[dict[str, Any]]] = {component: [] for component in CAPS}
        for identity, record in selected.items():
            if identity in self._written:
                arrays[record.type].append(self._written.pop(identity))
        return arrays

    def _select(self, records: RecordSet) -> dict[str, Sealed]:
        selected: dict[str, Sealed] = {}
        counts = dict.fromkeys(CAPS, 0)
        for record in records:
            cap = CAPS.get(record.type)
            if cap is None:
                if record.type not in _TRANSFER_RECORDS:
                    self._report.lost(record.type, _NO_FIELD, example=record.id)
            elif counts[record.type] >= cap:
                self._report.lost(
                    record.type, f"the SDK loads no more than {cap}", example=record.id
                )
            else:
                counts[record.type] += 1
                selected[record.id] = record
        return selected

    def _make(self, record: Sealed) -> None:
        converted = to_sdk_entry(cast("Entry", record.model), self._theirs)
        for member, reason in converted.losses:
            self._report.lost(member, reason, example=record.id)
        for member in record.unknown:
            self._report.lost(member, _NO_FIELD, example=record.id)
        if converted.defaulted:
            self._report.note("absent members are written as the SDK's default")
        entry = make_entry(record.type, converted.members)
        if entry["id"] in self._used:
            self._report.lost(record.type, "the file already has the same entry", example=record.id)
        else:
            self._written[record.id] = entry
            self._used.add(entry["id"])
        self._theirs[record.id] = entry["id"]


def _links(record: Sealed) -> tuple[str, ...]:
    # Not through record.value, which would hold every decoded record in memory.
    value = msgspec.json.decode(record.body)
    return (*value.get("parent_ids", ()), *value.get("source_event_ids", ()))


def _is_header(record: Sealed) -> bool:
    return isinstance(record.model, Source) and PROVIDER in (
        record.model.format,
        record.model.provider,
    )


def _envelope(records: RecordSet, writing: WriteContext) -> dict[str, Any]:
    """Return the members around the entries: those of the source, if it was a single file."""
    envelope: dict[str, Any] = {
        "created_at": (writing.header.extra or {}).get("created_at", now()),
        "source_agent": {
            "name": "satchel",
            "model_family": "",
            "runtime": "satchel",
            "version": "",
        },
    }
    headers = [record.model for record in records.of("source") if _is_header(record)]
    if len(headers) > 1:
        writing.report.note("the records come from several SDK files; their headers are dropped")
        return envelope
    for header in headers:
        found = cast("Source", header).container
        for member in _CARRIED_ENVELOPE:
            with suppress(SatchelError, KeyError):
                value = decode_foreign(found[member])
                check_envelope(member, value)
                envelope[member] = value
    return envelope
