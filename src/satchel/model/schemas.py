"""JSON Schemas (2020-12) of every record type, made from the model itself."""

from typing import Any

import msgspec

from satchel.model.entries import Entry
from satchel.model.records import RECORD_CLASSES
from satchel.model.type_info import resolved

DIALECT = "https://json-schema.org/draft/2020-12/schema"
"""The JSON Schema version of all published schemas."""

_REF = "#/$defs/{name}"

_TOKEN = {"type": "string", "pattern": r"\[REDACTED:[a-z0-9-]{1,40}:[0-9]{1,9}\]"}
_REDACTED = {
    "title": "a value with a token of a redaction somewhere in it",
    "anyOf": [
        _TOKEN,
        {"type": "array", "contains": {"$ref": "#/$defs/redacted"}},
        {"type": "object", "not": {"propertyNames": {"not": _TOKEN}}},
        {
            "type": "object",
            "not": {"additionalProperties": {"not": {"$ref": "#/$defs/redacted"}}},
        },
    ],
}


def record_schemas() -> dict[str, dict[str, Any]]:
    """Return one self-contained schema a record type, by type name."""
    return {name: _sealed(name, cls) for name, cls in RECORD_CLASSES.items()}


def _sealed(name: str, cls: type[msgspec.Struct]) -> dict[str, Any]:
    """A record in a file: id and nonce are required there, while a draft has neither.

    An entry may be a redacted form instead: without a nonce, and with a token in the place of a
    value. Whether it may stand there no schema can say.
    """
    (top,), parts = msgspec.json.schema_components([resolved(cls)], ref_template=_REF)
    own = parts.pop(cls.__name__)
    is_entry = issubclass(cls, Entry)
    always = {"id"} if is_entry else {"id", "nonce"}
    own["required"] = sorted({*own.get("required", ()), *always})
    if is_entry:
        own["anyOf"] = [{"required": ["nonce"]}, {"$ref": _REF.format(name="redacted")}]
        parts["redacted"] = _REDACTED
    for member in ("id", "nonce"):
        own["properties"][member] = own["properties"][member]["anyOf"][0]
    return {
        "$schema": DIALECT,
        "title": name,
        **own,
        **({"$defs": parts} if parts else {}),
        "additionalProperties": True,
    } | ({} if "$ref" in top else top)
