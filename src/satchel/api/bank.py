"""One bank, open: the verbs on its memories."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

from satchel.actions.agents.undoing import undo_agent_in
from satchel.actions.importing.imported import Imported
from satchel.actions.importing.undoing import Undone
from satchel.actions.inferring.duplicates import MOST, Duplicates, duplicates
from satchel.actions.inferring.embedding import Embedded, embed_bank
from satchel.actions.memories import changing, counting, remembering, showing
from satchel.actions.memories import listing as lists
from satchel.actions.memories.changing import Edit, Moved, Revised
from satchel.actions.memories.counting import Stats
from satchel.actions.memories.listing import Listing, Wanted
from satchel.actions.memories.remembering import Remembered
from satchel.actions.memories.showing import History, Shown
from satchel.actions.moving.exported import Export
from satchel.actions.opened import OpenBank
from satchel.actions.operating.providing import LiveBank
from satchel.actions.recalling import Answer, recall_memories
from satchel.api.arguments import (
    ExportArguments,
    FilePath,
    ImportArguments,
    ListArguments,
    RecallArguments,
    RememberArguments,
    Roots,
    UpdateArguments,
)
from satchel.api.asked import export_as_asked, import_as_asked, known, nobody, query_of
from satchel.api.code import Code
from satchel.api.continuity.files import Filing
from satchel.api.continuity.sessions import Conversing
from satchel.api.linking import Linking
from satchel.api.sharing.disclosing import Sharing
from satchel.api.sharing.removing import Removing
from satchel.api.waking import Waking
from satchel.errors import UsageError
from satchel.memory.entries import Entry
from satchel.seal.encoding.domain import plain
from satchel.transfer.near.finding import LEAST

_OWNERS = ("user", "agent", "run", "app")
_Moves = list[Moved]


class Bank(Sharing, Removing, Linking, Waking, Conversing, Filing):
    """The memory of one agent; ``Satchel.bank`` gives it.

    May be used from any thread, and after a fork. When a call returns, what it did is durable.
    Ids may be given whole, or by six of their first digits or more.
    """

    @property
    def id(self) -> str:
        """Its id."""
        return self._opened.id

    @property
    def name(self) -> str | None:
        """Its name."""
        return self._opened.name

    @property
    def code(self) -> Code:
        """The code that its memories speak of: reading source trees, and asking about them."""
        return Code(self._opened, self._lifetime)

    def remember(
        self,
        memory: str | Entry | Mapping[str, Any] | None = None,
        **said: Unpack[RememberArguments],
    ) -> Remembered:
        """Store a memory, or with ``messages`` the turns of a conversation.

        Args:
            memory: Its words; or an entry such as ``Procedural(...)``; or members by name.
            **said: What it says besides, which wins over an entry's own; and ``key``, ``actor``.

        Raises:
            EmptyInputError: If it says nothing.
            UnknownMemoryError: If a parent is not in the bank.
            UsageError: If a time names no moment, or the like; ``field`` says which.
            ValueRefusedError: If a member has the wrong shape, or cannot be JSON.
            LimitError: If it is too large.
            StoreError: If the store cannot be written; then nothing was kept.
        """
        options = known("remember", said, RememberArguments)
        key, actor = options.pop("key", None), options.pop("actor", None)
        scrub = bool(options.pop("scrub_secrets", False))
        parents = options.pop("parents", None) or ()
        messages = options.pop("messages", None)
        members = _members(memory)
        members |= _said(options, members)
        if messages is not None:
            alone = [name for name, part in (("key", key), ("parents", parents)) if part]
            if alone or isinstance(messages, str | bytes | Mapping):
                field = alone[0] if alone else "messages"
                raise UsageError("messages are a list, without a key and parents", field=field)
            if actor is not None:
                raise UsageError("each message names its own speaker", field="actor")
            with self._lifetime.use():
                return remembering.remember_messages(
                    self._opened, list(messages), members, scrub_secrets=scrub
                )
        with self._lifetime.use():
            return remembering.remember(
                self._opened,
                members,
                key=_text(key),
                parents=_texts(parents),
                actor=_text(actor),
                scrub_secrets=scrub,
            )

    def recall(self, text: str = "", **wanted: Unpack[RecallArguments]) -> Answer:
        """Return the memories that go best with some words, best first.

        Args:
            text: Words; without any, the newest memories.
            **wanted: Which, how many, and in how many tokens: see ``RecallArguments``.

        Raises:
            UsageError: If a time names no moment, or a number is out of range.
            VerificationError: If the bank is not what was signed.
        """
        options = known("recall", wanted, RecallArguments)
        code, explain = bool(options.pop("code", True)), bool(options.pop("explain", False))
        query = query_of(text, options)
        with self._lifetime.use():
            return recall_memories(self._opened, query, code=code, explain=explain)

    def export(
        self,
        path: FilePath,
        *,
        allowed_roots: Roots | None = None,
        allow_uncontained: bool = False,
        **wanted: Unpack[ExportArguments],
    ) -> Export:
        """Write the bank's current memory to a file; see ``satchel export``.

        With a provider set, that is the memory which the provider has of the user of its name.

        Args:
            path: The file; its name says the format, ``.pam`` when it says nothing.
            allowed_roots: Folders that it may be in. Roots that the operator has set
                (``SATCHEL_PORTABILITY_ROOTS``) hold as well: a call only narrows them.
            allow_uncontained: That the path is the caller's own choice and may be anywhere, if no
                roots are set. Without one of the three every path is refused, since one that came
                from a model or a request could be anything.
            **wanted: Which memory, and how: see ``ExportArguments``.

        Raises:
            ContainmentError: If it is not where it may be, or nothing says where; a ``ValueError``.
            PathRefusedError: If there is a link on the way, or the like.
            LossError: With ``fail_on_loss``, if something would not survive.
            TargetError: If it cannot be written; nothing is left behind then.
        """
        options = known("export", wanted, ExportArguments)
        options |= {"allowed_roots": allowed_roots, "allow_uncontained": allow_uncontained}
        with self._lifetime.use():
            return export_as_asked(self._where_it_is(), path, options)

    def import_(
        self,
        path: FilePath,
        *,
        allowed_roots: Roots | None = None,
        allow_uncontained: bool = False,
        **wanted: Unpack[ImportArguments],
    ) -> Imported:
        """Bring a file's memory into the bank; see ``satchel import``.

        With a provider set, it is brought to that, as the user of the bank's name has it.

        Args:
            path: The file.
            allowed_roots: As for ``export``.
            allow_uncontained: As for ``export``.
            **wanted: What to do with what the bank has: see ``ImportArguments``.

        Raises:
            ContainmentError: As ``export``.
            PathRefusedError: If there is a link on the way, or the file has a second name.
            InputError: If it cannot be read or is malformed; nothing is changed then.
            VerificationError: If it is sealed, and does not verify.
            ConflictError: With ``on_conflict="error"``, if there is one.
        """
        options = known("import_", wanted, ImportArguments)
        options |= {"allowed_roots": allowed_roots, "allow_uncontained": allow_uncontained}
        live = isinstance(self._where_it_is(), LiveBank)
        into = (self.name or self.id, self._owner) if live else (self.id, nobody)
        with self._lifetime.use():
            return import_as_asked(self._opened.settings, path, into, options)

    def _where_it_is(self) -> OpenBank | LiveBank:
        """Return the bank, or what the configured provider has of it."""
        settings = self._opened.settings
        if settings.provider is None:
            return self._opened
        return LiveBank(settings, self.name or self.id, self._owner)

    def undo(self, imported: str | None = None, *, reason: str | None = None) -> Undone:
        """Take an import back: what came with it goes, what it replaced is there again.

        Args:
            imported: Id of its source record, or the start of that; the last one when None.
            reason: For the history.

        Raises:
            UnknownImportError: If there is none.
        """
        with self._lifetime.use():
            return undo_agent_in(self._opened, imported, reason=reason)

    def update(
        self, memory: str, text: str | None = None, **said: Unpack[UpdateArguments]
    ) -> Revised:
        """Give a memory a new version; the old one stays in its history.

        Args:
            memory: Its id.
            text: What it says now; the same as before when None.
            **said: What is different besides; None takes a member away. And ``reason``, ``actor``.

        Raises:
            RetiredMemoryError: If it has a newer version, which ``current`` names.
            UnknownMemoryError: If there is no such memory.
            SatchelError: As ``remember``.
        """
        edit, reason, actor = _edit(text, known("update", said, UpdateArguments))
        with self._lifetime.use():
            return changing.update(self._opened, memory, edit, reason=reason, actor=actor)

    def correct(
        self, memory: str, text: str | None = None, **said: Unpack[UpdateArguments]
    ) -> Revised:
        """Put right a memory that was wrong: as ``update``, and the log says that it was.

        Args and Raises: as ``update``.
        """
        edit, reason, actor = _edit(text, known("correct", said, UpdateArguments))
        with self._lifetime.use():
            return changing.correct(self._opened, memory, edit, reason=reason, actor=actor)

    def forget(
        self,
        *memories: str,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> _Moves:
        """Say that memories are no longer wanted: all of them, or none. The log keeps their text.

        Raises:
            UnknownMemoryError: If one is not there, or is no memory.
            RetiredMemoryError: If one has a newer version, which ``current`` names.
        """
        with self._lifetime.use():
            return changing.forget(
                self._opened, memories, reason=reason, actor=actor, dry_run=dry_run
            )

    def restore(
        self,
        *memories: str,
        reason: str | None = None,
        actor: str | None = None,
        dry_run: bool = False,
    ) -> _Moves:
        """Make memories current again that were forgotten: all of them, or none.

        Raises:
            UnknownMemoryError: If one is not there, or is no memory.
            RetiredMemoryError: If another version of one is current.
        """
        with self._lifetime.use():
            return changing.restore(
                self._opened, memories, reason=reason, actor=actor, dry_run=dry_run
            )

    def show(self, memory: str) -> Shown:
        """Return a memory, or a record of another type, with all that is known of it.

        Raises:
            UnknownMemoryError: If there is none.
        """
        with self._lifetime.use():
            return showing.show(self._opened, memory)

    def raw(self, memory: str) -> bytes:
        """Return the canonical bytes of a record, which its id is the hash of.

        Raises:
            UnknownMemoryError: If there is none.
        """
        with self._lifetime.use():
            return showing.raw(self._opened, memory)

    def history(self, memory: str, *, limit: int = 100) -> History:
        """Return the newest versions of a memory, oldest first, and what was said of each.

        Raises:
            UnknownMemoryError: If there is no such memory.
            UsageError: If ``limit`` is below 1.
        """
        with self._lifetime.use():
            return showing.history(self._opened, memory, limit=limit)

    def stats(self) -> Stats:
        """Count what is in the bank; every memory is proved on the way."""
        with self._lifetime.use():
            return counting.stats(self._opened)

    def embed(self, model: str | None = None, *, rebuild: bool = False) -> Embedded:
        """Make the vectors that memories lack; see ``satchel embed``.

        Args:
            model: ``static-idf``, ``static``, ``minilm``, ``onnx`` or ``openai``; the
                configured one when None.
            rebuild: Make all of them again, then drop the old ones.

        Raises:
            MissingExtraError: If what the model needs is not installed.
            InferenceError: If it does not answer; what was made is kept, and gone on with.
        """
        with self._lifetime.use():
            return embed_bank(self._opened, model, rebuild=rebuild)

    def duplicates(self, *, similarity: float = LEAST, limit: int = MOST) -> Duplicates:
        """List memories that say what an earlier one says; nothing is changed.

        Args:
            similarity: The lowest that counts, from 0.5 to 1.
            limit: Pairs that are told of at most.

        Raises:
            MissingExtraError: If numpy is not installed.
        """
        with self._lifetime.use():
            return duplicates(self._opened, least=similarity, most=limit)

    def list(self, **wanted: Unpack[ListArguments]) -> Listing:
        """Return a page of memories, the newest first; it can be gone through like a list.

        Args:
            **wanted: Which, and how many: see ``ListArguments``.

        Raises:
            UsageError: If a time names no moment, or a number is out of range.
        """
        options = known("list", wanted, ListArguments)
        types, tags = options.pop("type", None), options.pop("tag", None)
        asked = Wanted(types=_texts(types), tags=_texts(tags), **options)
        with self._lifetime.use():
            return lists.list_memories(self._opened, asked)


def _members(memory: str | Entry | Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what was given in place of a text as members by name."""
    if memory is None:
        return {}
    if isinstance(memory, str):
        return {"text": memory}
    return plain(memory) if isinstance(memory, Entry) else dict(memory)


def _said(options: dict[str, Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments as members of an entry; owners are put into the scope there is."""
    found = {**(options.pop("members", None) or {})}
    owner = {name: options.pop(name) for name in _OWNERS if name in options}
    found |= options
    if isinstance(found.get("metadata"), Mapping):
        found["metadata"] = dict(found["metadata"])
    if isinstance(found.get("tags"), Collection) and not isinstance(found["tags"], str):
        found["tags"] = [*found["tags"]]
    if owner:
        found["scope"] = {**(found.get("scope") or members.get("scope") or {}), **owner}
    return found


def _edit(text: str | None, options: dict[str, Any]) -> tuple[Edit, str | None, str | None]:
    reason, actor = options.pop("reason", None), options.pop("actor", None)
    add_tags, drop_tags = options.pop("add_tags", ()), options.pop("drop_tags", ())
    parents = options.pop("parents", None)
    members = _said(options, {})
    if text is not None:
        members["text"] = text
    edit = Edit(
        members=members,
        add_tags=_texts(add_tags),
        drop_tags=_texts(drop_tags),
        parents=None if parents is None else _texts(parents),
    )
    return edit, reason, actor


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _texts(value: Any) -> Sequence[str]:
    """Return one text, several or none as several."""
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
