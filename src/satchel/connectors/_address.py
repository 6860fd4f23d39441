"""Addresses of live products, as a person writes them.

Of a folder it is ``SCHEME:///path/to/folder?member=value``, of a product in a database the product,
``+``, and what the database's driver takes.
"""

import re
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from satchel.errors import UsageError


class Kind(NamedTuple):
    """What an address is of."""

    scheme: str
    """What it begins with, the colon included."""

    what: str
    """As it is named to a person."""

    members: AbstractSet[str]
    example: str

    def refused(self, problem: str) -> UsageError:
        """Return the error that says what is wrong, and how it is written."""
        return UsageError(
            f"not the address of a {self.what}: {problem}",
            field=self.scheme.removesuffix(":"),
            hint=f"Write it as {self.example}.",
        )

    def read(self, text: str) -> tuple[Path, dict[str, str]]:
        """Return the folder and the members of an address; of a path alone, no members.

        Raises:
            UsageError: If it names no folder, or a member that there is not.
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
        # Written as a path somewhere, several slashes became one.
        return Path(re.sub("^/+", "/", unquote(path))).expanduser(), members


FOLDERS = frozenset({"mem0", "qdrant", "chroma", "memfs"})
"""Schemes of products whose address is a folder of this machine."""


def require_whole(text: str) -> str:
    """Return a path or an address as it was written, before anything makes a path of it.

    A path has no double slashes and no ``.``: of ``qdrant://./folder`` it leaves ``/folder``.

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
    """Return what the driver takes of an address such as ``langgraph+postgresql://HOST/DATABASE``.

    Written as a path somewhere, its slashes became one; a name alone is that of the database then.
    """
    address = text.partition("+")[2] if "+" in text.partition(":")[0] else text
    found = _collapsed(address)
    if found is None:
        return address
    slashes = "//" if "/" in found[2].partition("?")[0] else "///"
    return f"{found[1]}:{slashes}{found[2]}"
