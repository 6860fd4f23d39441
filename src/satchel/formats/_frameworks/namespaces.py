"""Where LangGraph's store keeps an item: a namespace of labels, and a key in it.

A label has no full stop in it and is not empty, since the store joins labels with full stops; the
first one is not ``langgraph``. What is not a label is spelled with per cent signs, so that no two
owners ever come to the same place.
"""

from satchel.memory.parts import Scope

ROOT = "memories"
"""The first label of what has no namespace of its own, as in LangMem's examples."""

_RESERVED = "langgraph"
_OWNERS = ("user", "agent", "app", "run")


def joined(labels: tuple[str, ...]) -> str:
    """Return labels as the store's column ``prefix`` has them."""
    return ".".join(labels)


def identity_of(prefix: str, key: str) -> str:
    """Return what tells an item from every other of a store."""
    return f"{prefix.replace('%', '%25').replace('/', '%2F')}/{key}"


def key_in(prefix: str, identity: str) -> str | None:
    """Return the key of an item that has an identity in a namespace, or None for another's."""
    start = identity_of(prefix, "")
    return identity.removeprefix(start) if identity.startswith(start) else None


def labels_of(scope: Scope | None) -> tuple[str, ...]:
    """Return the namespace for what somebody owns."""
    if scope is None:
        return (ROOT,)
    owners = [(name, found) for name in _OWNERS if (found := getattr(scope, name)) is not None]
    own = tuple(_label(one) for one in scope.namespace)
    if not owners:
        return _rooted(own) if own else (ROOT,)
    if owners[0][0] == "user" and len(owners) == 1 and not own:
        return (ROOT, _label(owners[0][1]).replace("=", "%3D"))
    return (ROOT, *(f"{name}={_label(found)}" for name, found in owners), *own)


def _label(text: str) -> str:
    if not text:
        return "%"
    return text.replace("%", "%25").replace(".", "%2E").replace("\x00", "%00")


def _rooted(labels: tuple[str, ...]) -> tuple[str, ...]:
    first = labels[0]
    return (f"%{ord(first[0]):02X}{first[1:]}", *labels[1:]) if first == _RESERVED else labels


def as_they_were(labels: tuple[str, ...]) -> bool:
    """Tell whether a namespace can be written with just these labels."""
    return bool(labels) and all(_plain(one) for one in labels) and labels[0] != _RESERVED


def _plain(label: str) -> bool:
    return label != "" and "." not in label and "\x00" not in label
