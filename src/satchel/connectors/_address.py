"""Addresses of live products, as users write them.

A folder is ``SCHEME:///path/to/folder?member=value``. A database is the product's name, ``+``, and
the address that the database's driver takes.
"""

import re
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from satchel.errors import UsageError


class Kind(NamedTuple):
    """A kind of address."""

    scheme: str
    """Its prefix, including the colon."""

    what: str
    """The product's name in messages."""

    members: AbstractSet[str]
    example: str

    def refused(self, problem: str) -> UsageError:
        """Return an error with the problem and the correct spelling."""
        return UsageError(
            f"not the address of a {self.what}: {problem}",
            field=self.scheme.removesuffix(":"),
            hint=f"Write it as {self.example}.",
        )

    def read(self, text: str) -> tuple[Path, dict[str, str]]:
        """Return the folder and the members of an address; a plain path has no members.

        Raises:
            UsageError: If it has no folder, or an unknown member.
        """
        if not text.startswith(self.scheme):
            return Path(text).expanduser(), {}
        path, _, query = text.removeprefix(self.scheme).partition("?")
        members = dict(parse_qsl(query, keep_blank_values=True))
        unknown = sorted(members.keys() - self.members)
        if unknown:
            raise self.refused(f"no such member: {unknown[0]}")
        if not path:
            raise self.refused("the address has no folder")
        # A ``Path`` collapses several slashes into one.
        return Path(re.sub("^/+", "/", unquote(path))).expanduser(), members


FOLDERS = frozenset({"mem0", "qdrant", "chroma", "memfs"})
"""Schemes of products whose address is a local folder."""


def require_whole(text: str) -> str:
    """Return a path or an address unchanged; call this before it becomes a ``Path``.

    A ``Path`` collapses double slashes and ``.``: ``qdrant://./folder`` becomes ``/folder``.

    Raises:
        UsageError: If an address of a folder names a host, as two slashes do.
    """
    scheme, mark, rest = text.partition("://")
    if mark and scheme in FOLDERS and not rest.startswith("/"):
        raise UsageError(
            f"not a folder address: {text}",
            field=scheme,
            hint=f"Write {scheme}:///path/to/folder, with three slashes, or {scheme}:folder for one"
            " in this folder.",
        )
    return text


_collapsed = re.compile(r"([a-z]+):/(?!/)(.*)", re.DOTALL).fullmatch


def of_server(text: str) -> str:
    """Return the driver's part of an address such as ``langgraph+postgresql://HOST/DATABASE``.

    A ``Path`` collapses its slashes into one; a single name is then the database.
    """
    address = text.partition("+")[2] if "+" in text.partition(":")[0] else text
    match = _collapsed(address)
    if match is None:
        return address
    slashes = "//" if "/" in match[2].partition("?")[0] else "///"
    return f"{match[1]}:{slashes}{match[2]}"
