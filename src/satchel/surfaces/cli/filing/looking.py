"""``satchel file ls``, ``read``, ``history``, ``diff`` and ``audit``."""

from typing import Annotated

from satchel.actions.filing.opened import opened_files
from satchel.errors import MemoryStoreError
from satchel.surfaces.cli._console import (
    count,
    line,
    message,
    print_json,
    print_raw,
    size,
    state,
    table,
)
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Option
from satchel.surfaces.cli.filing._options import At, Key, Root, files

_SHOWN = 12


@files.command("ls")
def ls_command(
    prefix: Annotated[str, Argument(help="Folder in the store; all by default.")] = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """List the files, with what is known of each.

    Example: `satchel file ls user/`
    """
    with opened_files(state.settings, key, root, read_only=True) as store:
        found = [(path, store.get_meta(path)) for path in store.list_paths(prefix)]
    if as_json:
        print_json(
            [
                {"path": path, "managed": meta is not None, **(vars(meta) if meta else {})}
                for path, meta in found
            ]
        )
        return
    if not found:
        message("no files")
        return
    table(
        ["path", "size", "version", "changed", "by"],
        [
            [path, size(meta.bytes), meta.version or "", meta.updated_at, meta.updated_by]
            if meta
            else [path, "", "", "outside; satchel file sync takes it in", ""]
            for path, meta in found
        ],
    )


@files.command("read")
def read_command(
    path: At,
    version: Annotated[int | None, Option(help="A former version of it.")] = None,
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Print a file, byte for byte.

    Example: `satchel file read user/notes.md`
    """
    with opened_files(state.settings, key, root, read_only=True) as store:
        if version is not None:
            data: bytes | None = store.read_version(path, version).encode()
        else:
            data = store.read_bytes(path)
        if data is None:
            raise MemoryStoreError("there is no such file", path=path)
        if as_json:
            meta = store.get_meta(path)
            known = vars(meta) if meta is not None and version is None else {"path": path}
            print_json({**known, "text": data.decode("utf-8", "backslashreplace")})
            return
    print_raw(data)


@files.command("search")
def search_command(
    text: Annotated[str, Argument(help="What to look for; plain text, no pattern.")],
    prefix: Annotated[str, Argument(help="Folder in the store; all by default.")] = "",
    case: Annotated[bool, Option("--case", help="Capitals count.")] = False,
    limit: Annotated[int, Option(minimum=1, maximum=1000, help="Lines at most.")] = 100,
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Show the lines that hold a text, as PATH:LINE; exit status 1 if there are none.

    By words and best first, beside memories: `satchel recall`.

    Example: `satchel file search tea user/`
    """
    with opened_files(state.settings, key, root, read_only=True) as store:
        found = store.search(text, prefix, ignore_case=not case, limit=limit)
    if as_json:
        print_json([one._asdict() for one in found])
        return int(not found)
    for one in found:
        line(f"{one.path}:{one.line}: {one.text}")
    if not found:
        message("nothing found")
    if len(found) == limit:
        message(f"the first {count(limit, 'line')}; for more: --limit")
    return int(not found)


@files.command("history")
def history_command(path: At, key: Key = None, root: Root = None, as_json: Json = False) -> None:
    """List the versions of a file, also of one that is deleted.

    Example: `satchel file history user/notes.md`
    """
    with opened_files(state.settings, key, root, read_only=True) as store:
        found = store.history(path)
    if as_json:
        print_json([one._asdict() for one in found])
        return
    if not found:
        message("no versions")
        return
    table(
        ["version", "what", "sha256", "size", "when", "by", "why"],
        [
            [one.version, one.op, one.sha[:_SHOWN], size(one.bytes), one.at, one.actor, one.reason]
            for one in found
        ],
    )


@files.command("diff")
def diff_command(
    path: At,
    old: Annotated[int, Argument(help="Number of the earlier version.")],
    new: Annotated[int | None, Argument(help="Of the later; the file by default.")] = None,
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Show how two versions of a file differ; exit status 1 if they do.

    Versions are kept by a store that was told to: `satchel file write --keep-versions`.

    Example: `satchel file diff user/notes.md 1`
    """
    with opened_files(state.settings, key, root, read_only=True) as store:
        text = store.diff(path, old, new)
    if as_json:
        print_json({"path": path, "old": old, "new": new, "diff": text})
    else:
        print_raw(text.encode())
    return int(bool(text))


@files.command("audit")
def audit_command(
    number: Annotated[int, Option("--last", "-n", minimum=1, help="How many events.")] = 20,
    verify: Annotated[bool, Option("--verify", help="Hold all of it to its chain.")] = False,
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Show who asked for what, also what was refused; with --verify, whether it is all there.

    Example: `satchel file audit --last 50`
    """
    with opened_files(state.settings, key, root, read_only=True) as store:
        if verify:
            found = store.verify_audit()
            if as_json:
                print_json({**found._asdict(), "ok": found.ok})
            else:
                line(f"{count(found.events, 'event')}, {'sound' if found.ok else 'not sound'}")
                for problem in found.problems:
                    line(f"  {problem}")
            return 0 if found.ok else 3
        events = store.audit_tail_sync(number)
    if as_json:
        print_json(events)
        return 0
    table(
        ["when", "what", "path", "by", "why"],
        [
            [
                one.get("ts", ""),
                f"{one.get('op', '')} {one.get('error', '')}".strip(),
                one.get("path", ""),
                one.get("actor", ""),
                one.get("reason", ""),
            ]
            for one in events
        ],
    )
    return 0
