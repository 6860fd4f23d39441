"""``satchel file write``, ``edit``, ``mv``, ``rm``, ``restore`` and ``sync``."""

import sys
from pathlib import Path
from typing import Annotated

from satchel.actions.filing.opened import opened_files
from satchel.actions.paths.permission import file_to_read, require_uncontained
from satchel.errors import LimitError, UsageError
from satchel.files import MemoryMeta
from satchel.files.keeping.changes import decoded_text
from satchel.files.keeping.tree import LARGEST
from satchel.surfaces.cli._console import count, line, message, print_json, state
from satchel.surfaces.cli._options import Json
from satchel.surfaces.cli._tree import Argument, Option
from satchel.surfaces.cli.filing._options import (
    ME,
    Actor,
    At,
    ExpectedSha,
    Key,
    Reason,
    Root,
    files,
)


@files.command("write")
def write_command(
    path: At,
    text: Annotated[str | None, Argument(help="The text; - or nothing for stdin.")] = None,
    file: Annotated[Path | None, Option("--file", help="Take the text from here.")] = None,
    append: Annotated[bool, Option("--append", help="Add it at the end.")] = False,
    keep_versions: Annotated[
        bool, Option("--keep-versions", help="Have the store keep every text from now on.")
    ] = False,
    expected_sha: ExpectedSha = None,
    actor: Actor = ME,
    reason: Reason = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Write a file; a store is made where there is none.

    Example: `satchel file write user/notes.md "likes tea" --reason "she said so"`
    """
    data = _content(text, file)
    with opened_files(state.settings, key, root, create=True) as store:
        if keep_versions and not store.keep_versions:
            store.change_policy(keep_versions=True, actor=actor)
        if append:
            meta = store.append_text(
                path,
                decoded_text(path, data),
                actor=actor,
                reason=reason,
                expected_sha=expected_sha,
            )
        else:
            meta = store.write_bytes(
                path, data, actor=actor, reason=reason, expected_sha=expected_sha
            )
        store.save()
    _tell(meta, as_json=as_json)


def _content(text: str | None, file: Path | None) -> bytes:
    if file is not None:
        if text is not None:
            raise UsageError("the text is given twice: as an argument and with --file")
        with file_to_read(state.settings, file) as opened, opened.stream() as stream:
            data = stream.read(LARGEST + 1)
    elif text is None or text == "-":
        data = (
            b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(LARGEST + 1)
        )
    else:
        data = text.encode("utf-8", "surrogateescape")
    if len(data) > LARGEST:
        raise LimitError(f"a memory file has at most {LARGEST:,} bytes")
    return data


def _tell(meta: MemoryMeta, *, as_json: bool) -> None:
    if as_json:
        print_json(vars(meta))
    else:
        line(f"{meta.path} version {meta.version}, {meta.sha256}")


@files.command("edit")
def edit_command(
    path: At,
    old: Annotated[str, Argument(help="The text to replace, exactly.")],
    new: Annotated[str, Argument(help="What to put in its place.")],
    times: Annotated[int, Option("--count", minimum=1, help="How often it has to be there.")] = 1,
    expected_sha: ExpectedSha = None,
    actor: Actor = ME,
    reason: Reason = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Replace a text in a file that is there exactly so often.

    Example: `satchel file edit user/notes.md tea coffee`
    """
    with opened_files(state.settings, key, root) as store:
        meta = store.edit(
            path, old, new, times, actor=actor, reason=reason, expected_sha=expected_sha
        )
        store.save()
    _tell(meta, as_json=as_json)


@files.command("mv")
def mv_command(
    old: At,
    new: Annotated[str, Argument(metavar="NEW", help="Its path afterwards.")],
    force: Annotated[bool, Option("--overwrite", help="Replace what is there.")] = False,
    expected_sha: ExpectedSha = None,
    actor: Actor = ME,
    reason: Reason = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Give a file, or a folder with all in it, another path.

    Example: `satchel file mv user/notes.md user/2026/notes.md`
    """
    with opened_files(state.settings, key, root) as store:
        moved = store.rename(
            old, new, actor=actor, reason=reason, expected_sha=expected_sha, overwrite=force
        )
        store.save()
    if as_json:
        print_json(moved)
    else:
        line(f"{count(len(moved), 'file')} moved")


@files.command("rm")
def rm_command(
    path: At,
    recursive: Annotated[
        bool, Option("--recursive", "-r", help="A folder with all in it.")
    ] = False,
    erase: Annotated[
        bool, Option("--erase", help="Leave no bytes of it, nor of its versions.")
    ] = False,
    expected_sha: ExpectedSha = None,
    actor: Actor = ME,
    reason: Reason = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Delete a file; its history stays, and its texts where versions are kept.

    Example: `satchel file rm user/notes.md`
    """
    if erase and recursive:
        raise UsageError("--erase is of one file")
    with opened_files(state.settings, key, root) as store:
        if erase:
            store.erase(path, actor=actor, reason=reason, expected_sha=expected_sha)
            gone = [path]
        else:
            gone = store.delete(
                path, actor=actor, reason=reason, expected_sha=expected_sha, recursive=recursive
            )
        store.save()
    if as_json:
        print_json(gone)
    else:
        line(f"{count(len(gone), 'file')} deleted")


@files.command("restore")
def restore_command(
    path: At,
    version: Annotated[int, Argument(help="Number of the version.")],
    expected_sha: ExpectedSha = None,
    actor: Actor = ME,
    reason: Reason = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> None:
    """Write a former version of a file again, as a new one.

    Example: `satchel file restore user/notes.md 1`
    """
    with opened_files(state.settings, key, root) as store:
        meta = store.restore(path, version, actor=actor, reason=reason, expected_sha=expected_sha)
        store.save()
    _tell(meta, as_json=as_json)


@files.command("collect")
def collect_command(
    hours: Annotated[
        float, Option("--hours", minimum=0, help="For which readers may go on meanwhile.")
    ] = 24.0,
    key: Key = None,
    as_json: Json = False,
) -> None:
    """Remove what nothing refers to any more where the files are saved, such as in S3.

    Safe while others read and write. What is found is removed by the first collection that many
    hours later; texts of versions stay where versions are kept. In a folder there is nothing to do.

    Example: `satchel file collect --hours 1`
    """
    with opened_files(state.settings, key) as store:
        done = store.collect(grace=hours * 3600)
    if as_json:
        print_json(done._asdict())
        return
    line(f"{count(done.removed, 'pack')} removed, {done.waiting:,} waiting")
    if done.rewritten:
        line(f"  what is still wanted was copied out of {count(done.rewritten, 'pack')}")


@files.command("sync")
def sync_command(
    folder: Annotated[
        Path | None, Argument(help="A plain folder to keep alike with the store.")
    ] = None,
    prefix: Annotated[str, Option(help="Only this folder of the store, for FOLDER.")] = "",
    delete_many: Annotated[
        bool, Option("--delete-many", help="Also where most of FOLDER's files are gone.")
    ] = False,
    actor: Actor = "outside",
    reason: Reason = "",
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Take in what was changed in the store's folder by something else; exit status 1 for rest.

    With a FOLDER, bring its changes and those of the store to each other. What both changed is
    kept twice: the folder's text beside, as NAME.conflict-SHA.

    Example: `satchel file sync ./notes --prefix user --actor editor`
    """
    if folder is not None:
        return _alike(folder, (key, root), prefix, actor, delete_many, as_json)
    with opened_files(state.settings, key, root, create=root is not None) as store:
        done = store.sync(actor=actor, reason=reason)
        store.save()
    if as_json:
        print_json(done._asdict())
    else:
        line(
            f"{len(done.created):,} new, {len(done.changed):,} changed,"
            f" {len(done.deleted):,} deleted"
        )
        for problem in done.refused:
            message(f"  left out: {problem}")
    return int(bool(done.refused))


def _alike(
    folder: Path,
    where: tuple[str | None, Path | None],
    prefix: str,
    actor: str,
    delete_many: bool,
    as_json: bool,
) -> int:
    from satchel.files.exchange.folders import keep_alike

    require_uncontained(state.settings, str(folder))
    with opened_files(state.settings, *where, create=True, leaves=True) as store:
        done = keep_alike(store, folder, prefix=prefix, actor=actor, delete_many=delete_many)
        store.save()
    if as_json:
        print_json(vars(done))
        return int(bool(done.left_out or done.conflicts))
    line(
        f"{len(done.to_store):,} to the store, {len(done.to_folder):,} to the folder,"
        f" {len(done.deleted_in_store) + len(done.deleted_in_folder):,} deleted"
    )
    for path in done.conflicts:
        message(f"  changed on both sides, kept twice: {path}")
    for problem in done.left_out:
        message(f"  left out: {problem}")
    return int(bool(done.left_out or done.conflicts))
