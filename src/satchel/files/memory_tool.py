"""Claude's memory tool (``memory_20250818``) over memory files: six commands, with exact texts.

The texts are those that models were trained on, word for word (anthropic 2.12.0). Unlike the
package's own backend, a change is checked and made atomically, so concurrent inserts are all kept;
it is on the disk before the response; and the rules, audit log and versions of the store apply.
"""

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any

from satchel.errors import AccessDenied, ConcurrencyError, MemoryStoreError, MissingExtraError
from satchel.files.memory_store import MemoryStore, call_in_thread
from satchel.files.paths import check_path
from satchel.files.transaction import TransformChange, decoded_text, encoded_text

MOUNT = "/memories"

_MOST_LINES = 999_999
_WIDTH = len(str(_MOST_LINES))
_AROUND = 2
_DEPTH = 2
_SCALE = 1024
_COMMANDS = ("view", "create", "str_replace", "insert", "delete", "rename")


class MemoryTool:
    """The six commands over a store.

    Each raises ``MemoryStoreError`` with the text for the model as its ``message``.

    Args:
        store: The store.
        prefix: The folder in it that the model sees as ``/memories``; all of it by default.
        actor: Actor for the audit log.
    """

    def __init__(self, store: MemoryStore, prefix: str = "", actor: str = "claude") -> None:
        self.store = store
        self._prefix = check_path(prefix) + "/" if prefix else ""
        self._actor = actor

    def __call__(self, command: dict[str, Any]) -> str:
        """Run a model's tool call, and return the response.

        Raises:
            MemoryStoreError: With the response for a failed command.
        """
        arguments = dict(command)
        name = arguments.pop("command", None)
        if name not in _COMMANDS:
            raise MemoryStoreError(f"Unknown command: {name}")
        try:
            return str(getattr(self, name)(**arguments))
        except TypeError:
            raise MemoryStoreError(f"The arguments of {name} are not right") from None

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Show a file with numbered lines, or list a folder."""
        inner = self._inner(path)
        data = self.store.read_bytes(inner) if self._is_file(inner) else None
        if data is None:
            return self._folder(path, inner)
        lines = decoded_text(inner, data).split("\n")
        if len(lines) > _MOST_LINES:
            raise MemoryStoreError(f"File {path} exceeds maximum line limit of 999,999 lines.")
        first, last = 1, len(lines)
        if view_range is not None and len(view_range) == 2:  # noqa: PLR2004 - from and to
            first = max(1, view_range[0])
            last = len(lines) if view_range[1] == -1 else view_range[1]
        shown = _numbered(lines[first - 1 : last], first)
        return f"Here's the content of {path} with line numbers:\n{shown}"

    def _folder(self, path: str, inner: str) -> str:
        paths = self.store.list_paths(inner.rstrip("/"))
        if not paths and inner != self._prefix:
            raise MemoryStoreError(f"The path {path} does not exist. Please provide a valid path.")
        start = len(inner.rstrip("/")) + 1 if inner else 0
        sizes: dict[tuple[str, ...], int] = {}
        folders: set[tuple[str, ...]] = set()
        for file in paths:
            parts = tuple(file[start:].split("/"))
            if any(part.startswith(".") for part in parts):
                continue
            size = self._size(file)
            for level in range(1, min(len(parts), _DEPTH) + 1):
                sizes[parts[:level]] = sizes.get(parts[:level], 0) + size
                if level < len(parts):
                    folders.add(parts[:level])
        total = sum(size for parts, size in sizes.items() if len(parts) == 1)
        depth = f"up to {_DEPTH} levels deep in {path}, excluding hidden items"
        lines = [f"Here're the files and directories {depth}:", f"{_shown_size(total)}\t{path}"]
        for parts in sorted(sizes):
            end = "/" if parts in folders else ""
            lines.append(f"{_shown_size(sizes[parts])}\t{path}/{'/'.join(parts)}{end}")
        return "\n".join(lines)

    def _size(self, path: str) -> int:
        meta = self.store.get_meta(path)
        return meta.bytes if meta is not None else len(self.store.read_bytes(path, b"") or b"")

    def create(self, path: str, file_text: str) -> str:
        """Create a new file."""
        inner = self._file(path)
        try:
            self.store.write_text(inner, file_text, actor=self._actor, expected_sha="")
        except ConcurrencyError:
            raise MemoryStoreError(f"File {path} already exists") from None
        self._save(inner)
        return f"File created successfully at: {path}"

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that occurs once in a file."""
        inner = self._file(path)
        self._require_file(path, inner)
        snippet: list[str] = []

        def make(_: str, data: bytes | None) -> bytes:
            content = decoded_text(inner, self._existing(path, data))
            _require_once(content, old_str, path)
            line = content[: content.find(old_str)].count("\n")
            after = content.replace(old_str, new_str)
            lines = after.split("\n")
            first = max(0, line - _AROUND)
            snippet[:] = [_numbered(lines[first : line + _AROUND + 1], first + 1)]
            return encoded_text(inner, after)

        self._transform(inner, make)
        return (
            "The memory file has been edited. "
            f"Here is the snippet showing the change (with line numbers):\n{snippet[0]}"
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text after a line; 0 is the top."""
        inner = self._file(path)
        self._require_file(path, inner)

        def make(_: str, data: bytes | None) -> bytes:
            lines = decoded_text(inner, self._existing(path, data)).split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= insert_line <= len(lines):
                raise MemoryStoreError(
                    f"Invalid `insert_line` parameter: {insert_line}. "
                    f"It should be within the range [0, {len(lines)}]."
                )
            lines.insert(insert_line, insert_text.rstrip("\n"))
            text = "\n".join(lines)
            return encoded_text(inner, text if text.endswith("\n") else text + "\n")

        self._transform(inner, make)
        return f"The file {path} has been edited."

    def delete(self, path: str) -> str:
        """Delete a file, or a folder with its files."""
        inner = self._inner(path)
        if inner == self._prefix:
            raise MemoryStoreError(f"Cannot delete the {MOUNT} directory itself")
        if not self._is_file(inner) and not self.store.list_paths(inner):
            raise MemoryStoreError(f"The path {path} does not exist")
        self.store.delete(inner, actor=self._actor, recursive=True)
        self._save(inner)
        return f"Successfully deleted {path}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a file or folder to another path."""
        old, new = self._inner(old_path), self._inner(new_path)
        if old == self._prefix:
            raise MemoryStoreError(f"Cannot rename the {MOUNT} directory itself")
        if new == self._prefix or self._is_file(new) or self.store.list_paths(new):
            raise MemoryStoreError(f"The destination {new_path} already exists")
        if not self._is_file(old) and not self.store.list_paths(old):
            raise MemoryStoreError(f"The path {old_path} does not exist")
        self.store.rename(old, new, actor=self._actor)
        self._save(old, new)
        return f"Successfully renamed {old_path} to {new_path}"

    def _inner(self, path: str) -> str:
        """Return the path in the store; for the folder itself, its prefix."""
        if path != MOUNT and not path.startswith(MOUNT + "/"):
            raise MemoryStoreError(f"Path must start with {MOUNT}, got: {path}")
        rest = path[len(MOUNT) :].strip("/")
        if not rest:
            return self._prefix
        if ".." in rest.split("/"):
            raise MemoryStoreError(f"Path {path} would escape {MOUNT} directory")
        return self._prefix + check_path(rest)

    def _file(self, path: str) -> str:
        inner = self._inner(path)
        if inner == self._prefix:
            raise MemoryStoreError(f"The path {path} is not a file.")
        return inner

    def _is_file(self, inner: str) -> bool:
        return inner != self._prefix and bool(self.store.exists(inner))

    def _require_file(self, path: str, inner: str) -> None:
        if not self._is_file(inner):
            if self.store.list_paths(inner):
                raise MemoryStoreError(f"The path {path} is not a file.")
            self._existing(path, None)

    @staticmethod
    def _existing(path: str, data: bytes | None) -> bytes:
        if data is None:
            raise MemoryStoreError(f"The path {path} does not exist. Please provide a valid path.")
        return data

    def _transform(self, inner: str, make: Callable[[str, bytes | None], bytes]) -> None:
        self.store.change(
            TransformChange(op="edit", requested_path=inner, make=make, actor=self._actor)
        )
        self._save(inner)

    def _save(self, *paths: str) -> None:
        """Save a remote store."""
        if self.store.is_in_place:
            return
        try:
            self.store.save()
        except ConcurrencyError as error:
            self.store.refresh(discard=paths)
            raise MemoryStoreError(
                f"{error.path} was changed concurrently. View it and try again."
            ) from error


def tool_for(store: MemoryStore, prefix: str = "", actor: str = "claude") -> Any:
    """Return the store as a memory tool of the ``anthropic`` package.

    For ``client.beta.messages.run_tools(tools=[...])``.

    Raises:
        MissingExtraError: If the package is not installed.
    """
    package = _anthropic()
    tool = MemoryTool(store, prefix, actor)

    def answered(name: str) -> Callable[[Any, Any], str]:
        def method(self: Any, command: Any) -> str:
            del self
            return _answer(tool, name, command, package.ToolError)

        return method

    made = {name: answered(name) for name in _COMMANDS}
    return type("SatchelMemoryTool", (package.BetaAbstractMemoryTool,), made)()


def async_tool_for(store: MemoryStore, prefix: str = "", actor: str = "claude") -> Any:
    """Return the store as a memory tool for an asynchronous client; see ``tool_for``.

    Raises:
        MissingExtraError: If the package is not installed.
    """
    package = _anthropic()
    tool = MemoryTool(store, prefix, actor)

    def answered(name: str) -> Callable[[Any, Any], Awaitable[str]]:
        async def method(self: Any, command: Any) -> str:
            del self
            return await call_in_thread(lambda: _answer(tool, name, command, package.ToolError))

        return method

    made = {name: answered(name) for name in _COMMANDS}
    return type("SatchelMemoryTool", (package.BetaAsyncAbstractMemoryTool,), made)()


def _anthropic() -> Any:
    try:
        return import_module("anthropic.lib.tools")
    except ModuleNotFoundError:
        raise MissingExtraError(
            "Claude's memory tool needs the anthropic package", hint="pip install anthropic"
        ) from None


def _answer(tool: MemoryTool, name: str, command: Any, failure: type[Exception]) -> str:
    arguments = command if isinstance(command, dict) else command.model_dump(exclude_none=True)
    try:
        return tool({**arguments, "command": name})
    except AccessDenied as error:
        raise failure(f"Permission denied: {error.message}") from error
    except MemoryStoreError as error:
        raise failure(error.message) from error


def _require_once(content: str, old: str, path: str) -> None:
    if not old or old not in content:
        raise MemoryStoreError(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        )
    lines, at = [], content.find(old)
    while at != -1:
        lines.append(content.count("\n", 0, at) + 1)
        at = content.find(old, at + 1)
        if len(lines) > _SCALE:
            break  # too many to list their lines
    if len(lines) > 1:
        raise MemoryStoreError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{', '.join(map(str, lines))}. Please ensure it is unique"
        )


def _numbered(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def _shown_size(size: int) -> str:
    units = ["B", "K", "M", "G"]
    value = float(size)
    while value >= _SCALE and len(units) > 1:
        value /= _SCALE
        units.pop(0)
    return f"{int(value)}{units[0]}" if value == int(value) else f"{value:.1f}{units[0]}"
