"""Every error that satchel raises on purpose: one tree, stable codes, exit and HTTP statuses.

A message states what is wrong, where (file, line, byte, field), and how to fix it.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Self

_MASK = "***"
_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_END = re.compile(r"[\s'\"<>`]")
_AS_PATH = re.compile(r"(?:^|(?<=[\s/\\:'\"<]))([A-Za-z][A-Za-z0-9+.-]+):(?!//)([/\\]*)")
"""Start of an address that was parsed as a path: it has one slash instead of two, or none."""

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.%]*\]|[^\[\]:@/?#\s\\]*)(:[0-9]*)?")
_AFTER, _LONGEST = ("", "/", "?", "#"), 100_000

_LOCAL = frozenset(
    {"sqlite", "ladybug", "file", "memory", "parquet", "mem0", "memfs", "satchel", "chroma"}
)
"""Schemes of files and folders, which are followed by a path."""

_SERVERS = frozenset({"postgresql", "postgres", "s3", "gs", "az", "abfs", "abfss", "qdrant"})
"""Schemes of servers with names in their paths."""

_OBJECTS = frozenset({"s3", "gs", "az", "abfs", "abfss"})
_WEB = frozenset({"http", "https", "ws", "wss"})
_HARMLESS = frozenset(
    {
        *("schema", "bank", "host", "hostaddr", "port", "dbname", "user", "sslmode", "sslrootcert"),
        *("connect_timeout", "application_name", "target_session_attrs", "region", "endpoint"),
        *("collection", "limit", "version", "mode", "format"),
    }
)
"""Members of a query that are not secrets."""


def shown_address(address: str) -> str:
    """Return an address without its secrets; a path and other text unchanged."""
    match = _ADDRESS.match(address)
    if match is None:
        return _plain(shown_text(address))
    start, rest = match[0], address[match.end() :]
    scheme = match[1].lower()
    if scheme in _LOCAL:
        return start + _local(rest)
    parts = _taken_apart(rest, scheme)
    authority = _AUTHORITY.match(parts[1]) if parts is not None else None
    if parts is None or authority is None:
        return start + _MASK
    user, after = parts[0], parts[1][authority.end() :]
    if after[:1] not in _AFTER:  # such as a password where a port should be
        return f"{start}{user}{authority[1]}"
    if scheme not in _SERVERS | _WEB:
        return f"{start}{authority[0]}"
    if user and (scheme in _WEB or "%" in user):
        user = f"{_MASK}@"
    path, mark, query = after.partition("#")[0].partition("?")
    return f"{start}{user}{authority[0]}{path}{mark}{_query(query)}"


def shown_host(address: str) -> str:
    """Return only the scheme and the host of an address: the rest may be secret."""
    match = _ADDRESS.match(address)
    parts = None if match is None else _taken_apart(address[match.end() :], match[1].lower())
    if match is None or parts is None:
        return _MASK
    authority = _AUTHORITY.match(parts[1])
    is_whole = authority is not None and parts[1][authority.end() :][:1] in _AFTER
    return f"{match[0]}{authority[0] if authority is not None and is_whole else _MASK}"


def shown_place(location: str) -> str:
    """Return a file's name, or an address in its place, without secrets."""
    if "://" in location:
        return shown_text(location)
    for match in _AS_PATH.finditer(location):
        rest = location[match.end() :]
        is_server = match[1].lower() in _SERVERS | _WEB
        if match[2] or (is_server and any(sign in rest for sign in "@?#")):
            address = shown_address(f"{match[1]}://{rest}").replace("://", f":{match[2]}", 1)
            return location[: match.start()] + address
    return _without_members(location)


def shown_text(text: str) -> str:
    """Return a text with the secrets of its addresses masked."""
    if "://" not in text:
        return text
    parts, at = list[str](), 0
    while (match := _ADDRESS.search(text, at)) is not None:
        ends = _END.search(text, match.end())
        end = ends.start() if ends else len(text)
        if _is_cut(text[match.end() : end]):
            sign = text.find("@", end)
            if sign >= 0:  # a password with a space or a quotation mark in it
                ends = _END.search(text, sign)
                end = ends.start() if ends else len(text)
        parts += [text[at : match.start()], shown_address(text[match.start() : end])]
        at = end
    return "".join((*parts, text[at:]))


def _local(rest: str) -> str:
    path, mark, query = rest.partition("?")
    user, at, _ = path.partition("@")
    if at and ":" in user and "/" not in user.partition(":")[0]:
        return _MASK  # a user and a password, which no local address has
    return f"{path}{mark}{_query(query)}"


def _taken_apart(rest: str, scheme: str) -> tuple[str, str] | None:
    """Return the user of an address with the ``@``, and the rest, without a password.

    Everything before the last ``@`` may be a password, including slashes. None if the ``@`` follows
    a question mark: it may be in a password or in the query.
    """
    user, at, host = rest.rpartition("@")
    if not at or (
        scheme in _OBJECTS and "/" in user and ":" not in user
    ):  # part of an object's name
        return "", rest
    if len(rest) > _LONGEST or "?" in user or "#" in user:
        return None
    return f"{re.split('[:/]', user)[0]}@", host


def _is_cut(rest: str) -> bool:
    """Return whether an address ends where a password may be."""
    host = _AUTHORITY.match(rest)
    whole = host is not None and rest[host.end() :][:1] in _AFTER
    return "@" not in rest and not whole


def _query(query: str) -> str:
    members = []
    for pair in re.split("[&;]", query) if query else ():
        name, sign, value = pair.partition("=")
        is_harmless = name.lower() in _HARMLESS and "@" not in value
        members.append(pair if is_harmless else f"{name}={_MASK}" if sign else _MASK)
    return "&".join(members)


def _plain(text: str) -> str:
    """Return text that is not an address, without passwords in it."""
    text = _without_members(text)
    return re.sub(r"^((?://)?[^\s:/@]+):\S*@(?=[^\s/@])", r"\1:***@", text)


def _without_members(text: str) -> str:
    return re.sub(r"(?i)\b(\w*(?:pass|secret|token|key)\w*\s*=\s*)('[^']*'|\S+)", r"\1***", text)


class SatchelError(Exception):
    """Base of all errors that this package raises on purpose.

    Args:
        message: What is wrong, in one sentence.
        file: File or address.
        line: Line number, from 1, of input that has lines.
        byte: Byte offset, from 0, of other input.
        field: Name of the argument or member, or a JSON pointer without the leading slash.
        hint: How to fix it.

    Passwords in addresses are masked in all of them.
    """

    code: ClassVar[str] = "satchel"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        byte: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = shown_text(message)
        super().__init__(self.message)
        self.file = None if file is None else shown_place(file)
        self.line = line
        self.byte = byte
        self.field = field
        self.hint = None if hint is None else shown_text(hint)
        self.command_hint: str | None = None
        """The hint with commands, if ``hint`` has Python calls."""

    def located(
        self, *, file: str | None = None, line: int | None = None, byte: int | None = None
    ) -> Self:
        """Add missing parts of the place, and return the same error."""
        self.file = self.file or (None if file is None else shown_place(file))
        if self.line is None and self.byte is None:
            self.line, self.byte = line, byte
        return self

    def within(self, path: str) -> Self:
        """Prefix the field with the path of what contains it, and return the same error."""
        self.field = f"{path}/{self.field}" if self.field else path
        return self

    @property
    def place(self) -> str:
        """File, line or byte, and field, as text; empty if none is known."""
        parts = [self.file] if self.file else []
        if self.line is not None:
            parts.append(f"line {self.line}")
        if self.byte is not None:
            parts.append(f"byte {self.byte}")
        if self.field:
            parts.append(f"field {self.field}")
        return ", ".join(parts)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text}. {self.hint}" if self.hint else text

    def problem(self) -> dict[str, str | int]:
        """Return code, message, place and hint as one JSON object; absent members are omitted."""
        facts: dict[str, str | int | None] = {
            "code": self.code,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "byte": self.byte,
            "field": self.field,
            "hint": self.command_hint or self.hint,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}

    def public(self) -> dict[str, str | int]:
        """Return what a remote caller may see: ``problem`` without names of this machine.

        It has no file, and no hint, which may name one.
        """
        known = ("code", "message", "line", "byte", "field")
        return {name: fact for name, fact in self.problem().items() if name in known}


class InputError(SatchelError):
    """The input cannot be used."""

    code: ClassVar[str] = "input"
    exit_status: ClassVar[int] = 4
    http_status: ClassVar[int] = 422


class UnreadableError(InputError):
    """A file is missing, is a directory, is not permitted, or could not be read from the disk."""

    code: ClassVar[str] = "input.unreadable"
    http_status: ClassVar[int] = 404


class MalformedError(InputError):
    """The input is not valid in its format."""

    code: ClassVar[str] = "input.malformed"


class NoOwnerError(MalformedError):
    """A file names neither a user nor an agent, and no bank was named to import it into."""

    code: ClassVar[str] = "input.no_owner"


class EmptyInputError(InputError):
    """The input is empty."""

    code: ClassVar[str] = "input.empty"


class ShortInputError(InputError):
    """The input is incomplete by its own account: truncated, or one page of several."""

    code: ClassVar[str] = "input.short"


class LimitError(InputError):
    """The input exceeds a limit on size, count or depth."""

    code: ClassVar[str] = "input.limit"
    http_status: ClassVar[int] = 413


class ValueRefusedError(InputError):
    """A value has no canonical form: its type, number or text is not allowed in a memory."""

    code: ClassVar[str] = "value.refused"


class PathRefusedError(InputError, ValueError):
    """A path leads out of its folder, or to a link, or to something other than a regular file."""

    code: ClassVar[str] = "path.refused"


class ContainmentError(PathRefusedError):
    """A path is outside of the allowed folders, or no folder is allowed.

    Args:
        message: As in ``SatchelError``; so are the other arguments.
        roots: The folders that are allowed, for who may know.
        **place: ``file`` and ``hint`` of ``SatchelError``.
    """

    code: ClassVar[str] = "path.uncontained"
    exit_status: ClassVar[int] = 3

    def __init__(self, message: str, *, roots: tuple[str, ...] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.roots = roots

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}. Allowed: {', '.join(self.roots)}" if self.roots else text

    def problem(self) -> dict[str, Any]:
        """Return the facts of ``SatchelError``, and the roots."""
        return {**super().problem(), **({"roots": list(self.roots)} if self.roots else {})}

    def public(self) -> dict[str, str | int]:
        """Return the facts of ``SatchelError``, and the hint, which names no folder here."""
        return {**super().public(), **({"hint": self.hint} if self.hint else {})}


class MemoryStoreError(SatchelError, RuntimeError):
    """Memory files refuse a path, text or key, or their store is not the expected one.

    Args:
        message: What is wrong.
        path: Which memory file, where it is about one.
        place: As for every error: ``file``, ``hint`` and so on.
    """

    code: ClassVar[str] = "files.refused"
    exit_status: ClassVar[int] = 4
    http_status: ClassVar[int] = 422

    def __init__(self, message: str, *, path: str | None = None, **place: Any) -> None:
        super().__init__(message, **{"field": path, **place})
        self.path = path


class StoreExistsError(MemoryStoreError):
    """A memory file store exists at the address.

    Args:
        address: Its place.
    """

    code: ClassVar[str] = "files.exists"
    http_status: ClassVar[int] = 409

    def __init__(self, address: str) -> None:
        super().__init__(
            "a store of this key already exists",
            file=address,
            hint="Open it with get_or_create, or use another key.",
        )
        self.address = address

    def __reduce__(self) -> tuple[Any, ...]:
        return StoreExistsError, (self.address,)


class NoMemoryFilesError(MemoryStoreError):
    """There are no memory files of this name."""

    code: ClassVar[str] = "files.none"
    http_status: ClassVar[int] = 404


class AccessDenied(MemoryStoreError):  # noqa: N818 - the seed's name
    """The path is reserved, or the store's policy forbids direct writes."""

    code: ClassVar[str] = "files.denied"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class ConcurrencyError(MemoryStoreError):
    """Another writer changed the file first. Nothing was written.

    Args:
        path: Which memory file.
        expected_sha: What it was to be; empty for "not there yet".
        actual_sha: What it is; empty when it is not there.
        expected_version: What number it was to have, where that was said.
        actual_version: What number it has; 0 when it is not there, None when it was changed
            outside and has none.
        message: What to say instead.
        hint: What to do about it; to read again, by default.
    """

    code: ClassVar[str] = "files.changed"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 409

    def __init__(  # noqa: PLR0913 - the facts of one refusal
        self,
        path: str,
        expected_sha: str | None = None,
        actual_sha: str | None = None,
        *,
        expected_version: int | None = None,
        actual_version: int | None = None,
        message: str | None = None,
        hint: str = "Read the file again and repeat the change.",
    ) -> None:
        super().__init__(
            message or _said(expected_sha, actual_sha, expected_version, actual_version),
            path=path,
            hint=hint,
        )
        self.expected_sha = expected_sha
        self.actual_sha = actual_sha
        self.expected_version = expected_version
        self.actual_version = actual_version

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {
            "path": self.path,
            "expected_sha": self.expected_sha,
            "actual_sha": self.actual_sha,
            "expected_version": self.expected_version,
            "actual_version": self.actual_version,
            "message": self.message,
            "hint": self.hint,
        }
        return _rebuilt, (facts,)


class ManyDeletedError(MemoryStoreError):
    """So many files disappeared from a folder that the folder itself was probably lost."""

    code: ClassVar[str] = "files.many_deleted"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 409


def _rebuilt(facts: dict[str, Any]) -> ConcurrencyError:
    return ConcurrencyError(**facts)


def _said(
    expected_sha: str | None, actual_sha: str | None, expected: int | None, actual: int | None
) -> str:
    if expected_sha is not None and expected_sha != actual_sha:
        if not expected_sha:
            return "the file already exists"
        return (
            f"the file has sha256 {actual_sha or '(none: it does not exist)'}, not {expected_sha}"
        )
    return f"the file is at version {'(unknown)' if actual is None else actual}, not {expected}"


class RefusedError(SatchelError):
    """Verification or a permission check failed."""

    code: ClassVar[str] = "refused"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class VerificationError(RefusedError):
    """A sealed file or a bank did not verify."""

    code: ClassVar[str] = "verify.refused"


class UnfinishedCopyError(VerificationError):
    """A bank has no signed head: it was copied only in part, or the head was removed."""

    code: ClassVar[str] = "store.unfinished_copy"
    http_status: ClassVar[int] = 409


class WitnessError(RefusedError):
    """The witness of a bank is damaged, or contradicts its head."""

    code: ClassVar[str] = "witness.refused"
    http_status: ClassVar[int] = 409


class ErasureRefusedError(RefusedError):
    """Something must not be erased, or something that was erased must not be stored again."""

    code: ClassVar[str] = "erasure.refused"
    http_status: ClassVar[int] = 409


class RedactionRefusedError(RefusedError):
    """The memory to redact no longer exists, or its redacted form does not belong to it."""

    code: ClassVar[str] = "redaction.refused"
    http_status: ClassVar[int] = 409


class SigningKeyError(RefusedError):
    """A key is missing or unusable, its file is not protected, or its passphrase is wrong."""

    code: ClassVar[str] = "key.refused"


class ThresholdError(SigningKeyError):
    """Fewer owners signed than the bank requires.

    Args:
        drawn: The canonical bytes of what they are to sign, signed by those who did.
        (The others as for every error.)
    """

    code: ClassVar[str] = "key.threshold"

    def __init__(self, message: str, *, drawn: Sequence[bytes] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.drawn = list(drawn)


class EncryptionError(RefusedError):
    """A file cannot be decrypted: no identity here opens it, or it was truncated or altered."""

    code: ClassVar[str] = "encryption.refused"


class RolledBackError(VerificationError):
    """A store is older than this machine last saw it, or a bank seen earlier is missing from it."""

    code: ClassVar[str] = "verify.rolled_back"


class ForkedError(VerificationError):
    """The store's log and the one that this machine saw have diverged."""

    code: ClassVar[str] = "verify.forked"


class AdoptedError(VerificationError):
    """A bank of this machine was adopted by a key that is not trusted here."""

    code: ClassVar[str] = "verify.adopted"


class TokenError(RefusedError):
    """A capability token is not valid: its signatures, chain, bank, or presenter."""

    code: ClassVar[str] = "token.refused"


class TokenTimeError(TokenError):
    """A capability token has expired or is not valid yet."""

    code: ClassVar[str] = "token.expired"


class TokenRevokedError(TokenError):
    """A capability token, or one that it derives from, was revoked."""

    code: ClassVar[str] = "token.revoked"


class PermissionRefusedError(RefusedError):
    """The capability token does not allow this. The error reveals nothing about the bank."""

    code: ClassVar[str] = "permission.refused"


class TargetError(SatchelError):
    """Writing failed. What was at the target before is unchanged."""

    code: ClassVar[str] = "target.failed"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 507


class TargetExistsError(TargetError):
    """The target exists, and overwriting was not requested."""

    code: ClassVar[str] = "target.exists"
    http_status: ClassVar[int] = 409


class InferenceError(SatchelError):
    """A model did not answer, or its answer cannot be used."""

    code: ClassVar[str] = "inference.failed"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 502


class LockedError(SatchelError):
    """Another process is using it; the message names the process if it is known."""

    code: ClassVar[str] = "locked"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 423


class LossError(SatchelError):
    """Something would be lost, and the caller does not accept that."""

    code: ClassVar[str] = "transfer.loss"
    exit_status: ClassVar[int] = 1
    http_status: ClassVar[int] = 409


class StoreError(SatchelError):
    """A store cannot be opened or used."""

    code: ClassVar[str] = "store.failed"
    exit_status: ClassVar[int] = 5
    http_status: ClassVar[int] = 503


class StoreBusyError(StoreError):
    """Another process is writing to the store and did not finish in time."""

    code: ClassVar[str] = "store.busy"


class StoreFullError(StoreError):
    """There is no space left. Acknowledged changes are stored; this one is not."""

    code: ClassVar[str] = "store.full"
    http_status: ClassVar[int] = 507


class StoreVersionError(StoreError):
    """The store was written by a newer version, by an old read-only one, or is no Satchel store."""

    code: ClassVar[str] = "store.version"


class ReadOnlyStoreError(StoreError):
    """The store was opened read-only, or the caller may not write to it."""

    code: ClassVar[str] = "store.read_only"
    exit_status: ClassVar[int] = 3
    http_status: ClassVar[int] = 403


class StoreDamagedError(StoreError):
    """The store's files are damaged, by the report of the database engine."""

    code: ClassVar[str] = "store.damaged"


class SlotTakenError(SatchelError):
    """Another current record has the same key or origin."""

    code: ClassVar[str] = "slot.taken"
    http_status: ClassVar[int] = 409


class ConflictError(SatchelError):
    """The bank has another version of an incoming memory."""

    code: ClassVar[str] = "transfer.conflict"
    http_status: ClassVar[int] = 409


class AgentExistsError(ConflictError):
    """An agent with this ID exists."""

    code: ClassVar[str] = "agent.exists"


class ChangedError(SatchelError):
    """Another writer changed it first. Nothing was written."""

    code: ClassVar[str] = "bank.changed"
    http_status: ClassVar[int] = 409


class UsageError(SatchelError):
    """The request is not valid. Nothing was read or written."""

    code: ClassVar[str] = "usage"
    exit_status: ClassVar[int] = 2
    http_status: ClassVar[int] = 400


class ConfigError(UsageError):
    """The configuration file or an environment variable is not valid."""

    code: ClassVar[str] = "config.invalid"


class MissingExtraError(UsageError):
    """A required package is not installed. The hint says how to install it."""

    code: ClassVar[str] = "extra.missing"
    http_status: ClassVar[int] = 501


class UnknownFormatError(UsageError):
    """No format has this name, or no format recognizes the file."""

    code: ClassVar[str] = "format.unknown"
    http_status: ClassVar[int] = 404


class ClosedError(UsageError):
    """It was used after it was closed."""

    code: ClassVar[str] = "closed"
    http_status: ClassVar[int] = 410


class UnknownMemoryError(UsageError):
    """The bank has no such memory, or the ID is that of another record."""

    code: ClassVar[str] = "memory.unknown"
    http_status: ClassVar[int] = 404


class RetiredMemoryError(UsageError):
    """The memory has a newer version, was forgotten, or is in quarantine.

    Args:
        message: As in ``SatchelError``; so are the other arguments.
        current: Id of its current version, where there is one.
        **place: ``field`` and ``hint`` of ``SatchelError``.
    """

    code: ClassVar[str] = "memory.retired"
    http_status: ClassVar[int] = 409

    def __init__(self, message: str, *, current: str | None = None, **place: Any) -> None:
        super().__init__(message, **place)
        self.current = current

    def problem(self) -> dict[str, str | int]:
        """Return the facts of ``SatchelError``, and the current version."""
        more = {} if self.current is None else {"current": self.current}
        return {**super().problem(), **more}


class UnknownBankError(UsageError):
    """There is no such bank in the store."""

    code: ClassVar[str] = "bank.unknown"
    http_status: ClassVar[int] = 404


class BankExistsError(UsageError):
    """A bank with this name exists."""

    code: ClassVar[str] = "bank.exists"
    http_status: ClassVar[int] = 409


class UnknownAgentError(UsageError):
    """The configuration has no such agent."""

    code: ClassVar[str] = "agent.unknown"
    http_status: ClassVar[int] = 404


class UnknownImportError(UsageError):
    """The bank has no such import."""

    code: ClassVar[str] = "import.unknown"
    http_status: ClassVar[int] = 404


class UnknownReceiptError(UsageError):
    """There is no such receipt."""

    code: ClassVar[str] = "receipt.unknown"
    http_status: ClassVar[int] = 404


class UnknownJobError(UsageError):
    """There is no such job."""

    code: ClassVar[str] = "job.unknown"
    http_status: ClassVar[int] = 404


class UnknownBackupError(UsageError):
    """There is no such backup."""

    code: ClassVar[str] = "backup.unknown"
    http_status: ClassVar[int] = 404


class UnknownBlobError(UsageError):
    """The bank has no such blob."""

    code: ClassVar[str] = "blob.unknown"
    http_status: ClassVar[int] = 404


class UnknownCodeError(UsageError):
    """The bank has no such symbol, file or source tree, or no code graph."""

    code: ClassVar[str] = "code.unknown"
    http_status: ClassVar[int] = 404


class UnknownSessionError(UsageError):
    """The bank has no such session, or the session no such point."""

    code: ClassVar[str] = "session.unknown"
    http_status: ClassVar[int] = 404


__all__ = [
    "AccessDenied",
    "AdoptedError",
    "AgentExistsError",
    "BankExistsError",
    "ChangedError",
    "ClosedError",
    "ConcurrencyError",
    "ConfigError",
    "ConflictError",
    "ContainmentError",
    "EmptyInputError",
    "EncryptionError",
    "ErasureRefusedError",
    "ForkedError",
    "InferenceError",
    "InputError",
    "LimitError",
    "LockedError",
    "LossError",
    "MalformedError",
    "ManyDeletedError",
    "MemoryStoreError",
    "MissingExtraError",
    "NoMemoryFilesError",
    "NoOwnerError",
    "PathRefusedError",
    "PermissionRefusedError",
    "ReadOnlyStoreError",
    "RedactionRefusedError",
    "RefusedError",
    "RetiredMemoryError",
    "RolledBackError",
    "SatchelError",
    "ShortInputError",
    "SigningKeyError",
    "SlotTakenError",
    "StoreBusyError",
    "StoreDamagedError",
    "StoreError",
    "StoreExistsError",
    "StoreFullError",
    "StoreVersionError",
    "TargetError",
    "TargetExistsError",
    "ThresholdError",
    "TokenError",
    "TokenRevokedError",
    "TokenTimeError",
    "UnfinishedCopyError",
    "UnknownAgentError",
    "UnknownBackupError",
    "UnknownBankError",
    "UnknownBlobError",
    "UnknownCodeError",
    "UnknownFormatError",
    "UnknownImportError",
    "UnknownJobError",
    "UnknownMemoryError",
    "UnknownReceiptError",
    "UnknownSessionError",
    "UnreadableError",
    "UsageError",
    "ValueRefusedError",
    "VerificationError",
    "WitnessError",
]
