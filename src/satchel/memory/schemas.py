"""JSON Schemas (2020-12) of every record type, made from the model itself."""

from typing import Any

import msgspec

from satchel.memory.records import RECORD_CLASSES

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The JSON Schema version of all published schemas."""

_REF = "#/$defs/{name}"


def record_schemas() -> dict[str, dict[str, Any]]:
    """Return one self-contained schema a record type, by type name."""
    return {name: _sealed(name, cls) for name, cls in RECORD_CLASSES.items()}


def _sealed(name: str, cls: type[msgspec.Struct]) -> dict[str, Any]:
    """A record in a file: id and nonce are required there, while a draft has neither."""
    (top,), parts = msgspec.json.schema_components([cls], ref_template=_REF)
    own = parts.pop(cls.__name__)
    own["required"] = sorted({*own.get("required", ()), "id", "nonce"})
    for member in ("id", "nonce"):
        own["properties"][member] = own["properties"][member]["anyOf"][0]
    return {
        "$schema": DIALECT,
        "title": name,
        **own,
        **({"$defs": parts} if parts else {}),
        "additionalProperties": True,
    } | ({} if "$ref" in top else top)
