"""The git history of a folder, read as data.

No program is started, no hook is run, no setting is read, and no object outside the repository is
read. Every object is compared with its name, the hash of its bytes. The unpacked size, the length
of delta chains and the depth of folders are bounded.

Source: gitformat-pack and gitformat-index of git 2.47; repositories of SHA-1 only.
"""

import hashlib
import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import BinaryIO, NamedTuple

from satchel.errors import InputError, LimitError, MalformedError
from satchel.model.values import format_time
from satchel.runtime.contained_folder import ContainedFolder

_MOST_BYTES = 256 * 2**20
"""Limit on the unpacked bytes of one repository."""

_MOST_OBJECT = 16 * 2**20
_MOST_INDEX = 64 * 2**20
_MOST_COMMITS = 100_000
_DEEPEST, _LONGEST_CHAIN = 16, 256
_SMALL = 4096
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_OFFSET, _REFERENCE = 6, 7
_INDEX = b"\xfftOc\0\0\0\x02"
_PACK = b"PACK"
_HASH = 20
_FAR = 1 << 31
_BROKEN = (zlib.error, struct.error, IndexError, ValueError, OverflowError)

_is_hash = re.compile("[0-9a-f]{40}").fullmatch
_is_branch = re.compile(r"refs/heads/(?!.*\.\.)[\w][\w./-]{0,200}", re.ASCII).fullmatch
_committed = re.compile(rb"^committer .*> (\d{1,11}) [+-]\d{4}$", re.MULTILINE).search
_tree = re.compile(rb"^tree ([0-9a-f]{40})$", re.MULTILINE).match
_parent = re.compile(rb"^parent ([0-9a-f]{40})$", re.MULTILINE).search


class GitCommit(NamedTuple):
    """A commit of the folder."""

    time: str
    """The commit time that it states."""

    files: dict[str, str]
    """Hashes of the files' contents, by path."""


class Repository:
    """The git repository of a folder.

    Args:
        folder: The folder; the repository is its ``.git``. A file of that name, which refers to a
            repository elsewhere, is not followed.

    Raises:
        InputError: If it has no readable history.
    """

    def __init__(self, folder: ContainedFolder) -> None:
        self._folder = folder
        self._held = ExitStack()
        self._left = _MOST_BYTES
        self._folders = dict[str, dict[str, str]]()
        self._packs = list[_Pack]()
        try:
            for name, kind in self._listed(".git/objects/pack"):
                if kind == "file" and name.endswith(".idx"):
                    self._packs.append(self._pack(name.removesuffix(".idx")))
            self.head = self._head()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close its files."""
        self._held.close()

    def _listed(self, path: str) -> list[tuple[str, str]]:
        with suppress(InputError):
            return [(name, kind) for name, kind in self._folder.listing(path)]
        return []

    def _pack(self, name: str) -> "_Pack":
        path = f".git/objects/pack/{name}"
        index = self._folder.read(f"{path}.idx", limit=_MOST_INDEX)
        stream = self._held.enter_context(self._folder.open(f"{path}.pack"))
        return _Pack(index, stream)

    def _head(self) -> str:
        """Return the hash of the newest commit of the current branch."""
        head = self._text(".git/HEAD")
        if not head.startswith("ref: "):
            return _hash(head)
        branch = head.removeprefix("ref: ")
        if _is_branch(branch) is None:
            raise MalformedError("no branch is checked out")
        with suppress(InputError):
            return _hash(self._text(f".git/{branch}"))
        for line in self._folder.read(".git/packed-refs", limit=_MOST_INDEX).split(b"\n"):
            if line[_HASH * 2 :] == b" " + branch.encode():
                return _hash(line[: _HASH * 2].decode("ascii", "replace"))
        raise MalformedError("there are no commits yet")

    def _text(self, path: str) -> str:
        return self._folder.read(path, limit=_SMALL).decode("ascii", "replace").strip()

    # -- commits ---------------------------------------------------------------------------

    def commits(self) -> list[GitCommit]:
        """Return the commits along first parents, oldest first.

        Raises:
            InputError: If an object is missing, damaged or over a limit.
        """
        commits, seen, name = list[GitCommit](), set[str](), self.head
        while True:
            if name in seen or len(seen) >= _MOST_COMMITS:
                raise LimitError(f"a history can have at most {_MOST_COMMITS:,} commits")
            seen.add(name)
            data = self._object(name, "commit")
            tree, committed = _tree(data), _committed(data)
            if tree is None or committed is None:
                raise MalformedError("a commit has no tree or no time")
            try:
                time = format_time(datetime.fromtimestamp(int(committed[1]), UTC))
            except (ValueError, OverflowError, OSError):
                raise MalformedError("a commit has no valid time") from None
            commits.append(GitCommit(time, self._files(tree[1].decode())))
            before = _parent(data.partition(b"\n\n")[0])
            if before is None:
                return commits[::-1]
            name = before[1].decode()

    def blob(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            InputError: If it is missing, damaged or over a limit.
        """
        return self._object(name, "blob")

    def _files(self, tree: str, depth: int = 0) -> dict[str, str]:
        """Return the hashes of the notes in a folder, by path."""
        known = self._folders.get(tree)
        if known is not None:
            return known
        if depth >= _DEEPEST:
            raise LimitError(f"folders can be nested at most {_DEEPEST} deep")
        files = dict[str, str]()
        for mode, name, content in _entries(self._object(tree, "tree")):
            if mode == b"40000":
                below = self._files(content, depth + 1)
                files.update({f"{name}/{path}": digest for path, digest in below.items()})
            elif mode.startswith(b"100") and name.endswith(".md"):
                files[name] = content
        self._folders[tree] = files
        self._spend(sum(map(len, files)))
        return files

    # -- objects ---------------------------------------------------------------------------

    def _object(self, name: str, expected: str) -> bytes:
        try:
            kind, data = self._loose(name) or self._packed(name, 0)
        except _BROKEN as error:
            if isinstance(error, InputError):
                raise
            raise MalformedError(f"the object {name[:12]} is damaged: {error}") from None
        head = f"{kind} {len(data)}\0".encode()
        if kind != expected or hashlib.sha1(head + data, usedforsecurity=False).hexdigest() != name:
            raise MalformedError(f"the object {name[:12]} does not match its name")
        return data

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise LimitError(f"a history can unpack to at most {_MOST_BYTES:,} bytes")

    def _loose(self, name: str) -> tuple[str, bytes] | None:
        try:
            packed = self._folder.read(f".git/objects/{name[:2]}/{name[2:]}", limit=_MOST_OBJECT)
        except LimitError:
            raise
        except InputError:
            return None
        opened = zlib.decompressobj()
        data = opened.decompress(packed, _MOST_OBJECT)
        if not opened.eof:
            raise LimitError(f"an object can have at most {_MOST_OBJECT:,} bytes")
        self._spend(len(data))
        head, _, rest = data.partition(b"\0")
        return head.partition(b" ")[0].decode("ascii", "replace"), rest

    def _packed(self, name: str, depth: int) -> tuple[str, bytes]:
        key = bytes.fromhex(name)
        for pack in self._packs:
            offset = pack.offset_of(key)
            if offset is not None:
                return self._at(pack, offset, depth)
        raise MalformedError(f"the object {name[:12]} is missing")

    def _at(self, pack: "_Pack", offset: int, depth: int) -> tuple[str, bytes]:
        """Return an object of a pack, with its deltas applied to their base."""
        changes = list[bytes]()
        while True:
            kind, size, base_offset, base = pack.head_at(offset)
            data = pack.data(size)
            self._spend(size)
            if kind in _KINDS:
                break
            changes.append(data)
            if len(changes) + depth > _LONGEST_CHAIN:
                raise LimitError(f"a delta chain can have at most {_LONGEST_CHAIN} links")
            if base is not None:
                name, data = self._packed(base.hex(), depth + len(changes))
                return name, self._changed(data, changes)
            if not 0 < base_offset < offset:
                raise MalformedError("a delta against a later object")
            offset = base_offset
        return _KINDS[kind], self._changed(data, changes)

    def _changed(self, data: bytes, changes: list[bytes]) -> bytes:
        for change in reversed(changes):
            data = _applied(data, change)
            self._spend(len(data))
        return data


class _Pack:
    """A pack file and its index."""

    def __init__(self, index: bytes, stream: BinaryIO) -> None:
        if not index.startswith(_INDEX) or stream.read(4) != _PACK:
            raise MalformedError("unsupported pack version")
        self._stream = stream
        try:
            (count,) = struct.unpack_from(">I", index, 8 + 255 * 4)
            start = 8 + 256 * 4
            self._names = index[start : start + _HASH * count]
            at = start + (_HASH + 4) * count
            self._places: tuple[int, ...] = struct.unpack_from(f">{count}I", index, at)
            self._far = index[at + 4 * count :]
        except struct.error:
            raise MalformedError("the index of a pack is truncated") from None
        if len(self._names) != _HASH * count:
            raise MalformedError("the index of a pack is truncated")

    def offset_of(self, key: bytes) -> int | None:
        names, count = self._names, len(self._places)
        at = bisect_left(range(count), key, key=lambda n: names[_HASH * n : _HASH * (n + 1)])
        if at == count or names[_HASH * at : _HASH * (at + 1)] != key:
            return None
        offset = self._places[at]
        if offset < _FAR:
            return offset
        return int(struct.unpack_from(">Q", self._far, 8 * (offset - _FAR))[0])

    def head_at(self, offset: int) -> tuple[int, int, int, bytes | None]:
        """Return the kind and size of the object at an offset, and its delta base."""
        self._stream.seek(offset)
        byte = self._byte()
        kind, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 128:
            byte = self._byte()
            size |= (byte & 127) << shift
            shift += 7
            if size > _MOST_OBJECT:
                raise LimitError(f"an object can have at most {_MOST_OBJECT:,} bytes")
        if kind == _OFFSET:
            byte = self._byte()
            back = byte & 127
            while byte & 128:
                byte = self._byte()
                back = (back + 1) << 7 | byte & 127
                if back > offset:
                    raise MalformedError("a delta against a missing object")
            return kind, size, offset - back, None
        if kind == _REFERENCE:
            return kind, size, 0, self._stream.read(_HASH)
        if kind not in _KINDS:
            raise MalformedError("an object of unknown kind")
        return kind, size, 0, None

    def _byte(self) -> int:
        return self._stream.read(1)[0]

    def data(self, size: int) -> bytes:
        """Unpack the data after a header."""
        opened, parts, left = zlib.decompressobj(), list[bytes](), size + 1
        while not opened.eof and left > 0:
            packed = opened.unconsumed_tail or self._stream.read(1 << 14)
            if not packed:
                break
            part = opened.decompress(packed, left)
            left -= len(part)
            parts.append(part)
        data = b"".join(parts)
        if len(data) != size:
            raise MalformedError("an object does not have its declared size")
        return data


def _hash(text: str) -> str:
    if _is_hash(text) is None:
        raise MalformedError("no commit of a SHA-1 repository is checked out")
    return text


def _entries(tree: bytes) -> Iterator[tuple[bytes, str, str]]:
    """Yield the mode, name and hash of each entry of a tree; hidden ones are skipped."""
    at = 0
    while at < len(tree):
        space, end = tree.index(b" ", at), tree.index(b"\0", at)
        mode, name = tree[at:space], tree[space + 1 : end].decode("utf-8", "replace")
        at = end + 1 + _HASH
        if at > len(tree):
            raise MalformedError("a folder in the history is truncated")
        if not name.startswith(".") and "/" not in name and "\ufffd" not in name:
            yield mode, name, tree[end + 1 : at].hex()


def _applied(base: bytes, change: bytes) -> bytes:
    """Return a base with a delta applied."""
    at, size = 0, 0
    sizes = list[int]()
    for _ in range(2):
        size, shift = 0, 0
        while True:
            byte = change[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
        sizes.append(size)
    if sizes[0] != len(base) or sizes[1] > _MOST_OBJECT:
        raise MalformedError("a delta against another text")
    result = bytearray()
    while at < len(change):
        code = change[at]
        at += 1
        if code & 128:
            start, count, at = _copied(change, code, at)
            if start + count > len(base):
                raise MalformedError("a delta beyond the end of its base")
            result += base[start : start + count]
        else:
            result += change[at : at + code]
            at += code
        if not code or len(result) > sizes[1]:
            raise MalformedError("not a valid delta")
    if len(result) != sizes[1]:
        raise MalformedError("a delta does not have its declared size")
    return bytes(result)


def _copied(change: bytes, code: int, at: int) -> tuple[int, int, int]:
    """Return the offset and size of a copy from the base, and the position after it."""
    start = count = 0
    for bit in range(4):
        if code & 1 << bit:
            start |= change[at] << 8 * bit
            at += 1
    for bit in range(3):
        if code & 16 << bit:
            count |= change[at] << 8 * bit
            at += 1
    return start, count or 1 << 16, at
