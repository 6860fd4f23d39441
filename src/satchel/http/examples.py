"""Examples of requests: each of them fits the document, and is sent by a test."""

from typing import Any

from satchel.http.answers import BYTES

_ID = "blake3:" + "0" * 64

_PARAMETERS: dict[str, Any] = {
    "bank": "assistant",
    "entry": _ID,
    "memory": _ID,
    "to": _ID,
    "token": _ID,
    "artifact": "0" * 64,
    "session": "planning",
    "other": "planning (2)",
    "store": "notes",
    "path": "plans/today.md",
    "old": 1,
    "job": "0" * 32,
    "receipt": _ID,
}
"""What has to be said in a path or a query, by its name."""


def takes_file() -> dict[str, Any]:
    """Return what the document says of a route whose body is a file, as it is."""
    said = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {BYTES: said}}}


def gives_file(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of a route that answers with a file, of one of some kinds."""
    said = {"schema": {"type": "string", "format": "binary"}}
    return {200: {"description": "The file.", "content": dict.fromkeys(kinds, said)}}


def with_examples(document: dict[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI document in which each request has an example; it is changed."""
    schemas = document.get("components", {}).get("schemas", {})
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                if parameter.get("required"):
                    parameter["example"] = _PARAMETERS[parameter["name"]]
            for media in operation.get("requestBody", {}).get("content", {}).values():
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                if name:
                    media["example"] = _body(schemas[name])
    return document


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what the fields of a body have for examples."""
    return {
        name: said["examples"][0]
        for name, said in schema.get("properties", {}).items()
        if "examples" in said
    }
