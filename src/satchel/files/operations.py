"""Operations on memory files: text at paths, with history."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from satchel.config.options import DryRun, require_uncontained
from satchel.config.settings import Settings
from satchel.errors import NoMemoryFilesError, UsageError
from satchel.files import MemoryMeta, MemoryStore, anthropic_stores
from satchel.files.anthropic_stores import FileTransferResult, from_memories
from satchel.files.commit import CollectResult
from satchel.files.folder_sync import FolderSyncResult
from satchel.files.manifest import StoredVersion
from satchel.files.memory_store import FileMatch, FileSyncResult
from satchel.files.promotion import PromotionDecision, PromotionRule, promote_all
from satchel.files.transaction import decoded_text
from satchel.ports.operations import Absent, Option, Options, PathText, operation, texts

_ME = "person"
_MOST_PATH = 1000
_SEED = "`satchel.files.MemoryStore` has it, with the method names of its specification."
_TOOL = "The tool `memory` does it, as Claude's memory tool."
_LOCAL = "It names files or folders of this machine."
_READ = {"python": _SEED, "mcp": _TOOL}
_HERE = {"python": _SEED, "http": _LOCAL, "mcp": _LOCAL}
_MANAGED = {
    "python": _SEED,
    "http": "The command line does it, on the server's machine.",
    "mcp": "A person decides it, not the agent whose files they are.",
}

FilePath = Annotated[
    str,
    Option("Path of the file in the store.", argument=True, metavar="PATH", max_length=_MOST_PATH),
]
Prefix = Annotated[
    str,
    Option(
        "Folder in the store. Default: all.",
        argument=True,
        metavar="FOLDER",
        max_length=_MOST_PATH,
    ),
]
ExpectedSha = Annotated[
    str | None,
    Option(
        "SHA-256 that the file must have; empty if it must not exist.",
        metavar="SHA256",
        http=Absent(why="The headers If-Match and If-None-Match have it."),
    ),
]
_Header = Absent(why="The header X-Actor names the actor.")
Actor = Annotated[str, Option("Author of the change, for the audit.", max_length=200, http=_Header)]
Reason = Annotated[str, Option("Reason, for the audit.", max_length=1000)]


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """A file store that is open, and the settings of its machine."""

    settings: Settings
    store: MemoryStore


@dataclass(frozen=True, kw_only=True)
class FileChangeOptions(Options):
    """What a file must be for a change of it, who makes the change, and why."""

    are_last: ClassVar[bool] = True
    expected_sha: ExpectedSha = None
    actor: Actor = _ME
    reason: Reason = ""

    @property
    def change(self) -> dict[str, Any]:
        """These options as keyword arguments of the store."""
        return {
            "expected_sha": self.expected_sha,
            "actor": self.actor,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class FileWriteOptions(FileChangeOptions):
    """What to write, and where."""

    path: FilePath
    text: Annotated[
        str | None,
        Option(
            "Text of the file; - or nothing for standard input.",
            argument=True,
            max_length=8_000_000,
            examples=["buy tea"],
        ),
    ] = None
    _: KW_ONLY
    append: Annotated[bool, Option("Add the text at the end.")] = False
    keep_versions: Annotated[bool, Option("Keep the text of every version from now on.")] = False
    content: bytes | None = None
    """What a file or standard input has, in place of the text."""


@dataclass(frozen=True, slots=True)
class FileEditOptions(FileChangeOptions):
    """What to replace in a file."""

    path: FilePath
    old: Annotated[str, Option("Text to replace, exactly.", argument=True)]
    new: Annotated[str, Option("Replacement text.", argument=True)]
    _: KW_ONLY
    count: Annotated[int, Option("Number of times that the text must occur.", minimum=1)] = 1


@dataclass(frozen=True, slots=True)
class FileMoveOptions(FileChangeOptions):
    """What to move, and where to."""

    path: FilePath
    new: Annotated[str, Option("New path.", argument=True, metavar="NEW", max_length=_MOST_PATH)]
    _: KW_ONLY
    overwrite: Annotated[bool, Option("Replace the file at the new path.")] = False


@dataclass(frozen=True, slots=True)
class FileDeleteOptions(FileChangeOptions):
    """What to delete."""

    path: FilePath
    _: KW_ONLY
    recursive: Annotated[bool, Option("Delete a folder with all its files.", short="-r")] = False
    erase: Annotated[bool, Option("Erase the bytes of the file and of all its versions.")] = False


@dataclass(frozen=True, slots=True)
class FileRestoreOptions(FileChangeOptions):
    """Which version to restore."""

    path: FilePath
    version: Annotated[int, Option("Number of the version.", argument=True, minimum=1)]
    _: KW_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions(Options):
    """What to remove."""

    hours: Annotated[
        float, Option("Hours to keep unused data for readers that may still need it.", minimum=0)
    ] = 24.0


@dataclass(frozen=True, slots=True)
class FileSyncOptions(Options):
    """What to synchronize."""

    folder: Annotated[
        PathText | None,
        Option("Plain folder to keep in sync with the store.", argument=True, values="file"),
    ] = None
    _: KW_ONLY
    prefix: Annotated[str, Option("Folder of the store to keep in sync. Default: all.")] = ""
    delete_many: Annotated[
        bool, Option("Delete files although most of FOLDER's files are gone.")
    ] = False
    actor: Actor = "outside"
    reason: Reason = ""


@dataclass(frozen=True, slots=True)
class FileImportOptions(Options):
    """What to import."""

    file: Annotated[
        PathText,
        Option("JSON with memories, as Anthropic's API lists them.", argument=True, values="file"),
    ]
    _: KW_ONLY
    actor: Actor = "import"
    memories: Sequence[Any] | None = None
    """What was read of the file before the file store was opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExportOptions(Options):
    """Where to export to."""

    path: Annotated[
        PathText,
        Option(
            "File to write. Default: -, standard output.",
            flag="--output",
            short="-o",
            metavar="FILE",
        ),
    ] = "-"
    overwrite: Annotated[bool, Option("Replace the file if it exists.")] = False


@dataclass(frozen=True, slots=True)
class FileListOptions(Options):
    """Which files to list."""

    prefix: Prefix = ""


@dataclass(frozen=True, slots=True)
class FileReadOptions(Options):
    """Which file to read."""

    path: FilePath
    _: KW_ONLY
    version: Annotated[int | None, Option("Number of a former version.", minimum=1)] = None


@dataclass(frozen=True, slots=True)
class FileSearchOptions(Options):
    """What to search for."""

    text: Annotated[str, Option("Plain text to search for.", argument=True)]
    prefix: Prefix = ""
    _: KW_ONLY
    case: Annotated[bool, Option("Match upper and lower case exactly.")] = False
    limit: Annotated[int, Option("Maximum number of lines.", minimum=1, maximum=1000)] = 100


@dataclass(frozen=True, slots=True)
class FileHistoryOptions(Options):
    """Which file's versions to list."""

    path: FilePath


@dataclass(frozen=True, slots=True)
class FileDiffOptions(Options):
    """Which versions to compare."""

    path: FilePath
    old: Annotated[int, Option("Number of the earlier version.", argument=True, minimum=1)]
    new: Annotated[
        int | None,
        Option("Number of the later version. Default: the file now.", argument=True, minimum=1),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions(Options):
    """Which events to list."""

    last: Annotated[
        int,
        Option("Number of events to show, from the end.", short="-n", minimum=1, maximum=100_000),
    ] = 20
    verify: Annotated[bool, Option("Verify the whole audit against its hash chain.")] = False


@dataclass(frozen=True, slots=True)
class FilePromoteOptions(FileChangeOptions):
    """What to promote, and by which rule."""

    path: FilePath
    target: Annotated[
        str,
        Option(
            "Path of the promoted file; with --folder, of the folder.",
            argument=True,
            metavar="TARGET",
        ),
    ]
    _: KW_ONLY
    folder: Annotated[bool, Option("Promote the proposals of a folder that the rule allows.")] = (
        False
    )
    authors: Annotated[
        str | Sequence[str],
        Option("Rule: only what this actor wrote. Repeatable.", flag="--author"),
    ] = ()
    max_bytes: Annotated[int, Option("Rule: maximum size of a file.", minimum=1)] = 100_000
    overwrite: Annotated[bool, Option("Rule: other text at the target may be replaced.")] = False
    keep: Annotated[bool, Option("Keep the proposal file.")] = False
    actor: Annotated[str, Option("Who reviewed it, for the audit.", max_length=200)] = "reviewer"
    dry_run: DryRun = False


class FileLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file in a listing."""

    path: str
    managed: bool
    """Whether the store knows it; what something else wrote is not until a sync."""

    sha256: str | None = None
    updated_at: str | None = None
    updated_by: str | None = None
    reason: str | None = None
    bytes: int | None = None
    version: int | None = None


class FileContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, or a version of one."""

    path: str
    text: str
    """Bytes that are not UTF-8 are lone surrogates, as in Python's file names."""

    sha256: str | None = None
    """Of the file as it is now; None for a former version."""

    version: int | None = None

    @property
    def content(self) -> bytes:
        """Its bytes."""
        return self.text.encode("utf-8", "surrogateescape")


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """How two versions of a file differ."""

    path: str
    old: int
    new: int | None
    diff: str
    """As unified diff; empty if they are the same."""


class FileAudit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last events of a file store, or whether all of them verify."""

    events: list[dict[str, Any]] = []
    verified: int | None = None
    """Number of events that were verified; None if that was not asked for."""

    adopted_bytes: int = 0
    ok: bool = True
    problems: list[str] = []


@operation(
    FileWriteOptions,
    name="file write",
    example='satchel file write user/notes.md "likes tea" --reason "she said so"',
    absent=_READ,
)
def write_file(files: OpenFiles, options: FileWriteOptions) -> MemoryMeta:
    """Write a file. The file store is created if there is none.

    Raises:
        MemoryStoreError: If the path or the text is not valid.
        AccessDenied: If the path is read-only.
        ConcurrencyError: If the file is not as expected.
    """
    store, data = files.store, options.content
    if data is None:
        data = (options.text or "").encode("utf-8", "surrogateescape")
    if options.keep_versions and not store.keep_versions:
        store.change_policy(keep_versions=True, actor=options.actor)
    if not options.append:
        return store.write_bytes(options.path, data, **options.change)
    text = decoded_text(options.path, data)
    return store.append_text(options.path, text, **options.change)


@operation(
    FileEditOptions,
    name="file edit",
    example="satchel file edit user/notes.md tea coffee",
    absent=_MANAGED | {"mcp": _TOOL},
)
def edit_file(files: OpenFiles, options: FileEditOptions) -> MemoryMeta:
    """Replace a text in a file. It must occur exactly as often as `--count` says.

    Raises:
        MemoryStoreError: If it does not.
        ConcurrencyError: If the file is not as expected.
    """
    return files.store.edit(
        options.path,
        options.old,
        options.new,
        options.count,
        **options.change,
    )


@operation(
    FileMoveOptions,
    name="file mv",
    example="satchel file mv user/notes.md user/2026/notes.md",
    items="paths",
    absent=_MANAGED | {"mcp": _TOOL},
)
def move_file(files: OpenFiles, options: FileMoveOptions) -> list[str]:
    """Move a file, or a folder with all its files, to another path.

    Raises:
        MemoryStoreError: If there is nothing at the path, or something at the new one.
        ConcurrencyError: If the file is not as expected.
    """
    return files.store.rename(
        options.path,
        options.new,
        **options.change,
        overwrite=options.overwrite,
    )


@operation(
    FileDeleteOptions,
    name="file rm",
    example="satchel file rm user/notes.md",
    items="paths",
    absent=_READ,
)
def delete_file(files: OpenFiles, options: FileDeleteOptions) -> list[str]:
    """Delete a file. Its history stays, and its texts if the store keeps versions.

    Raises:
        MemoryStoreError: If there is no file at the path.
        ConcurrencyError: If the file is not as expected.
        UsageError: If a folder is to be erased.
    """
    if not options.erase:
        return files.store.delete(options.path, recursive=options.recursive, **options.change)
    if options.recursive:
        raise UsageError("only one file can be erased at a time", field="recursive")
    files.store.erase(options.path, **options.change)
    return [options.path]


@operation(
    FileRestoreOptions,
    name="file restore",
    example="satchel file restore user/notes.md 1",
    absent=_MANAGED,
)
def restore_file(files: OpenFiles, options: FileRestoreOptions) -> MemoryMeta:
    """Restore a former version of a file, as a new version.

    Raises:
        MemoryStoreError: If there is no such version, or its text was not kept.
        ConcurrencyError: If the file is not as expected.
    """
    return files.store.restore(
        options.path,
        options.version,
        **options.change,
    )


@operation(
    CollectOptions,
    name="file collect",
    example="satchel file collect --hours 1",
    absent=_MANAGED,
)
def collect_files(files: OpenFiles, options: CollectOptions) -> CollectResult:
    """Remove data that nothing refers to from the storage of the files, such as S3.

    Safe while others read and write. Unused data is removed by the first collection after
    `--hours`; the texts of stored versions are not removed. In a folder there is nothing to do.
    """
    return files.store.collect(grace=options.hours * 3600)


@operation(
    FileSyncOptions,
    name="file sync",
    example="satchel file sync ./notes --prefix user --actor editor",
    absent=_HERE,
)
def sync_files(files: OpenFiles, options: FileSyncOptions) -> FileSyncResult | FolderSyncResult:
    """Import changes that other programs made in the store's folder. Exit status 1 if some remain.

    With a FOLDER, synchronize it with the store in both directions. What changed on both sides is
    kept twice: the folder's text beside the other, as NAME.conflict-SHA.

    Raises:
        MemoryStoreError: If most of FOLDER's files are gone, without ``delete_many``.
        ContainmentError: If the folder is outside of the roots.
    """
    if options.folder is None:
        return files.store.sync(actor=options.actor, reason=options.reason)
    from satchel.files.folder_sync import keep_alike

    require_uncontained(files.settings, str(options.folder))
    return keep_alike(
        files.store,
        Path(options.folder),
        prefix=options.prefix,
        actor=options.actor,
        delete_many=options.delete_many,
    )


@operation(
    FileImportOptions,
    name="file import",
    example="satchel file import memories.json",
    absent=_HERE,
)
def import_files(files: OpenFiles, options: FileImportOptions) -> FileTransferResult:
    """Import the memories of one of Anthropic's memory stores. Exit status 1 if some are skipped.

    The file is what `memory_stores.memories.list(view="full")` returns, as a list, a page, or one a
    line. A file with other text is not replaced: it is named.

    Raises:
        MalformedError: If it is no such file; nothing is written then.
        LimitError: If it is too large.
    """
    memories = options.memories
    if memories is None:
        memories = anthropic_stores.read_memories(files.settings, Path(options.file))
    return from_memories(files.store, memories, actor=options.actor)


@operation(
    FileExportOptions,
    name="file export",
    example="satchel file export -o memories.json",
    absent=_HERE,
)
def export_files(files: OpenFiles, options: FileExportOptions) -> FileTransferResult:
    """Export the files as memories of Anthropic's memory stores. Exit status 1 if some do not fit.

    Raises:
        TargetExistsError: If the file exists, without ``overwrite``.
        TargetError: If it cannot be written. No partial file remains.
    """
    return anthropic_stores.export_memories(
        files.settings, Path(options.path), files.store, overwrite=options.overwrite
    )


@operation(
    FileListOptions, name="file ls", example="satchel file ls user/", items="files", absent=_READ
)
def list_files(files: OpenFiles, options: FileListOptions) -> list[FileLine]:
    """List files with their size, version and last change."""
    lines = []
    for path in files.store.list_paths(options.prefix):
        meta = files.store.get_meta(path)
        known = {} if meta is None else vars(meta)
        lines.append(FileLine(**{"path": path, "managed": meta is not None, **known}))
    return lines


@operation(
    FileReadOptions, name="file read", example="satchel file read user/notes.md", absent=_READ
)
def read_file(files: OpenFiles, options: FileReadOptions) -> FileContent:
    """Read a file, byte for byte.

    Raises:
        MemoryStoreError: If there is no such version, or its text was not kept.
        NoMemoryFilesError: If there is no file at the path.
    """
    store, path = files.store, options.path
    if options.version is not None:
        return FileContent(
            path=path, text=store.read_version(path, options.version), version=options.version
        )
    data, meta = store.read_bytes(path), store.get_meta(path)
    if data is None:
        raise NoMemoryFilesError("no such file", path=path)
    return FileContent(
        path=path,
        text=data.decode("utf-8", "surrogateescape"),
        sha256=store.current_sha(path),
        version=None if meta is None else meta.version,
    )


@operation(
    FileSearchOptions,
    name="file search",
    example="satchel file search tea user/",
    items="lines",
    absent=_MANAGED | {"mcp": "`recall` finds passages of files."},
)
def search_files(files: OpenFiles, options: FileSearchOptions) -> list[FileMatch]:
    """Search files for a plain text, and print the lines as PATH:LINE. Exit status 1 if none match.

    `satchel recall` searches files by words, best first, beside memories.
    """
    return files.store.search(
        options.text, options.prefix, ignore_case=not options.case, limit=options.limit
    )


@operation(
    FileHistoryOptions,
    name="file history",
    example="satchel file history user/notes.md",
    items="versions",
    absent=_READ | {"mcp": "A model gets few options; this one is for programs and people."},
)
def file_history(files: OpenFiles, options: FileHistoryOptions) -> list[StoredVersion]:
    """List the versions of a file, oldest first. Deleted files have theirs, too."""
    return files.store.history(options.path)


@operation(
    FileDiffOptions,
    name="file diff",
    example="satchel file diff user/notes.md 1",
    absent=_READ | {"mcp": "A model gets few options; this one is for programs and people."},
)
def diff_file(files: OpenFiles, options: FileDiffOptions) -> FileDiff:
    """Compare two versions of a file. Exit status 1 if they differ.

    The store must keep versions: `satchel file write --keep-versions`.

    Raises:
        MemoryStoreError: If there is no such version, or its text was not kept.
    """
    return FileDiff(
        path=options.path,
        old=options.old,
        new=options.new,
        diff=files.store.diff(options.path, options.old, options.new),
    )


@operation(
    AuditOptions,
    name="file audit",
    example="satchel file audit --last 50",
    absent=_READ | {"mcp": "A person reviews what agents did."},
)
def audit_files(files: OpenFiles, options: AuditOptions) -> FileAudit:
    """List who changed what, refusals included; or verify the whole audit."""
    if not options.verify:
        return FileAudit(events=files.store.audit_tail_sync(options.last))
    verification = files.store.verify_audit()
    return FileAudit(
        verified=verification.events,
        adopted_bytes=verification.adopted_bytes,
        ok=verification.ok,
        problems=list(verification.problems),
    )


@operation(
    FilePromoteOptions,
    name="file promote",
    example="satchel file promote user/proposals memory --folder --author agent --dry-run",
    items="proposals",
    absent=_MANAGED,
)
def promote_files(files: OpenFiles, options: FilePromoteOptions) -> list[PromotionDecision]:
    """Promote a proposal to a path that may be read-only for direct writes.

    With `--folder`, each proposal of a folder is checked by a rule: who wrote it, its size, that it
    holds no secret and no hidden characters. What the rule does not allow stays, and is named with
    the reason; the exit status is 1 then.

    Raises:
        MemoryStoreError: If there is no such proposal, or one folder is inside the other.
        ConcurrencyError: If the proposal is not as expected.
        UsageError: If a rule is given without ``folder``.
    """
    store = files.store
    if options.folder:
        rule = PromotionRule(
            staged=options.path,
            into=options.target,
            actors=frozenset(texts(options.authors)),
            most_bytes=options.max_bytes,
            replace=options.overwrite,
        )
        return promote_all(store, rule, actor=options.actor, dry_run=options.dry_run)
    for field in ("authors", "overwrite", "dry_run"):
        if getattr(options, field):
            raise UsageError("this option is part of a rule", field=field, hint="Add --folder.")
    meta = store.promote(
        options.path,
        options.target,
        **options.change,
        keep=options.keep,
    )
    return [PromotionDecision(options.path, meta.path, None, meta.sha256)]
