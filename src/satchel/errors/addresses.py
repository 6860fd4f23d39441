"""Addresses as they may be shown: without whatever could be a secret. The one place that says how.

Passwords stand in addresses in forms that no parser of addresses takes: with a slash, a question
mark or an ``@`` that nobody escaped, in a query, in the name of the user. So nothing here is taken
for harmless because it was understood: of what is not known to be harmless nothing is shown.
"""

import re

_MASK = "***"
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_END = re.compile(r"[\s'\"<>`]")
_AS_PATH = re.compile(r"(?:^|(?<=[\s/\\:'\"<]))([A-Za-z][A-Za-z0-9+.-]+):(?!//)([/\\]*)")
"""Start of an address that was taken for a path: it has one slash where it had two, or none."""

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^\[\]:@/?#\s\\]*)(:[0-9]*)?")
_AFTER, _LONGEST = ("", "/", "?", "#"), 100_000

_LOCAL = frozenset(
    {"sqlite", "ladybug", "file", "memory", "parquet", "mem0", "memfs", "satchel", "chroma"}
)
"""Of files and folders: what follows is a path."""

_SERVERS = frozenset({"postgresql", "postgres", "s3", "gs", "az", "abfs", "abfss", "qdrant"})
"""Of servers whose paths name things."""

_OBJECTS = frozenset({"s3", "gs", "az", "abfs", "abfss"})
_WEB = frozenset({"http", "https", "ws", "wss"})
_HARMLESS = frozenset(
    {
        *("schema", "bank", "host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert"),
        *("connect_timeout", "application_name", "target_session_attrs", "region", "endpoint"),
        *("collection", "limit", "version", "mode", "format"),
    }
)
"""Members of a query that are no secrets."""


def shown_address(address: str) -> str:
    """Return an address as it may be shown; a path, and what is no address, as it is."""
    found = _ADDRESS.match(address)
    if found is None:
        return _plain(shown_text(address))
    start, rest = found[0], address[found.end() :]
    scheme = found[1].lower()
    if scheme in _LOCAL:
        return start + _local(rest)
    taken = _taken_apart(rest, scheme)
    authority = _AUTHORITY.match(taken[1]) if taken is not None else None
    if taken is None or authority is None:
        return start + _MASK
    user, after = taken[0], taken[1][authority.end() :]
    if after[:1] not in _AFTER:  # such as a password where a port should be
        return f"{start}{user}{authority[1]}"
    if scheme not in _SERVERS | _WEB:
        return f"{start}{authority[0]}"
    if user and (scheme in _WEB or "%" in user):
        user = f"{_MASK}@"
    path, mark, query = after.partition("#")[0].partition("?")
    return f"{start}{user}{authority[0]}{path}{mark}{_query(query)}"


def shown_host(address: str) -> str:
    """Return no more of an address than its kind and its host: all the rest may be a secret."""
    found = _ADDRESS.match(address)
    taken = None if found is None else _taken_apart(address[found.end() :], found[1].lower())
    if found is None or taken is None:
        return _MASK
    authority = _AUTHORITY.match(taken[1])
    is_whole = authority is not None and taken[1][authority.end() :][:1] in _AFTER
    return f"{found[0]}{authority[0] if authority is not None and is_whole else _MASK}"


def shown_place(place: str) -> str:
    """Return a file's name, or whatever was taken for one, as it may be shown."""
    if "://" in place:
        return shown_text(place)
    for found in _AS_PATH.finditer(place):
        rest = place[found.end() :]
        is_server = found[1].lower() in _SERVERS | _WEB
        if found[2] or (is_server and any(sign in rest for sign in "@?#")):
            shown = shown_address(f"{found[1]}://{rest}").replace("://", f":{found[2]}", 1)
            return place[: found.start()] + shown
    return _without_members(place)


def shown_text(text: str) -> str:
    """Return a text with each address in it as it may be shown."""
    if "://" not in text:
        return text
    parts, at = list[str](), 0
    while (found := _ADDRESS.search(text, at)) is not None:
        ends = _END.search(text, found.end())
        end = ends.start() if ends else len(text)
        if _is_cut(text[found.end() : end]):
            sign = text.find("@", end)
            if sign >= 0:  # a password with a space or a quotation mark in it
                ends = _END.search(text, sign)
                end = ends.start() if ends else len(text)
        parts += [text[at : found.start()], shown_address(text[found.start() : end])]
        at = end
    return "".join((*parts, text[at:]))


def _local(rest: str) -> str:
    path, mark, query = rest.partition("?")
    who, at, _ = path.partition("@")
    if at and ":" in who and "/" not in who.partition(":")[0]:
        return _MASK  # somebody and a password stand where no local address has anybody
    return f"{path}{mark}{_query(query)}"


def _taken_apart(rest: str, scheme: str) -> tuple[str, str] | None:
    """Return who an address is for, with the ``@``, and the rest, without a password.

    Whatever stands before the last ``@`` may be a password, slashes as well. Where that follows a
    question mark, nobody can tell whether it is in a password or in the query: None.
    """
    who, at, place = rest.rpartition("@")
    if not at or (scheme in _OBJECTS and "/" in who and ":" not in who):  # in an object's name
        return "", rest
    if len(rest) > _LONGEST or "?" in who or "#" in who:
        return None
    return f"{re.split('[:/]', who)[0]}@", place


def _is_cut(rest: str) -> bool:
    """Tell whether an address ends where a password may stand."""
    host = _AUTHORITY.match(rest)
    whole = host is not None and rest[host.end() :][:1] in _AFTER
    return "@" not in rest and not whole


def _query(query: str) -> str:
    shown = []
    for pair in re.split("[&;]", query) if query else ():
        name, sign, value = pair.partition("=")
        is_harmless = name.lower() in _HARMLESS and "@" not in value
        shown.append(pair if is_harmless else f"{name}={_MASK}" if sign else _MASK)
    return "&".join(shown)


def _plain(text: str) -> str:
    """Return what is no address, without a password that stands as in one or as a member."""
    text = _without_members(text)
    return re.sub(r"^((?://)?[^\s:/@]+):\S*@(?=[^\s/@])", r"\1:***@", text)


def _without_members(text: str) -> str:
    return re.sub(r"(?i)\b(\w*(?:pass|secret|token|key)\w*\s*=\s*)('[^']*'|\S+)", r"\1***", text)
