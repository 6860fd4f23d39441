"""Permissions: every operation checks them, and a token limits reads and writes to its scope."""

import ast
import importlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import msgspec
import pytest
from bank_kit import filled, keep, owner, texts
from missing_store_kit import delete_store
from token_kit import HOLDER, SEMANTIC, WORKING, chain_of, held, later, may

import satchel
from satchel.admin.statistics import stats
from satchel.bank import links
from satchel.bank.banks import create_bank
from satchel.bank.changes import MemoryEdit, correct, forget, remember, restore, update
from satchel.bank.details import history, raw, show
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.bank.permissions import NEEDS
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.crypto.tokens import Permission, Tags, Wildcard, entries_clause
from satchel.erasure.redaction import redact
from satchel.erasure.selection import RedactOptions
from satchel.errors import (
    PermissionRefusedError,
    ReadOnlyStoreError,
    RefusedError,
    RolledBackError,
    TokenError,
    TokenRevokedError,
    TokenTimeError,
    UnknownMemoryError,
)
from satchel.files import MemoryStore
from satchel.files.bank_files import files_of_bank
from satchel.files.catch_up import namespace_of
from satchel.ledger.authority import token_revocation_record
from satchel.model.records import Edge, Semantic, Status
from satchel.model.values import TrustClass, now
from satchel.ports.operations import Operation
from satchel.recall.duplicates import duplicates
from satchel.recall.query import Query
from satchel.recall.search import recall_memories
from satchel.rehydrate.operations import rehydrate_memories
from satchel.transfer.disclosure import disclose_to
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export

SRC = Path(satchel.__file__).parent
TEA = Tags(any_of=("tea",))
NOT_SECRET = Tags(none_of=("secret",))


def _files_of(bank: OpenBank) -> MemoryStore:
    """Return the memory files of a bank, as a holder has them."""
    known = {**namespace_of(bank.settings)._asdict(), "key": bank.name or ""}
    MemoryStore.get_or_create(**known).close()
    return files_of_bank(bank)


ACTIONS: dict[str, Callable[[OpenBank, str, Path], Any]] = {
    "list": lambda bank, _, __: list_memories(bank, ListRequest()),
    "show": lambda bank, there, _: show(bank, there),
    "raw": lambda bank, there, _: raw(bank, there),
    "history": lambda bank, there, _: history(bank, there),
    "stats": lambda bank, _, __: stats(bank),
    "recall": lambda bank, _, __: recall_memories(bank, Query(text="tea")),
    "rehydrate": lambda bank, _, __: rehydrate_memories(bank, task="tea"),
    "duplicates": lambda bank, _, __: duplicates(bank),
    "links": lambda bank, there, _: links.links(bank, there),
    "path": lambda bank, there, _: links.path(bank, there, there),
    "remember": lambda bank, _, __: remember(bank, {"text": "x"}),
    "derive": lambda bank, there, _: remember(bank, {"text": "x"}, parents=[there]),
    "update": lambda bank, there, _: update(bank, there, MemoryEdit(members={"text": "y"})),
    "correct": lambda bank, there, _: correct(bank, there, MemoryEdit(members={"text": "y"})),
    "forget": lambda bank, there, _: forget(bank, [there]),
    "restore": lambda bank, there, _: restore(bank, [there]),
    "redact": lambda bank, there, _: redact.run(bank, RedactOptions(ids=[there])),
    "export": lambda bank, _, path: export(bank, path, ExportOptions()),
    "disclose": lambda bank, there, path: disclose_to(
        bank, [there], path, ExportOptions(key=HOLDER)
    ),
    "read files": lambda bank, _, __: _files_of(bank).list_paths(),
    "change files": lambda bank, _, __: _files_of(bank).write_text("a.md", "x"),
}
NEEDED = {"raw": NEEDS["show"], **NEEDS}
PURE = "it is a pure function and reads nothing of a bank"
CHECKED_BY_FILES = "the store of files checks each call: read, write or owner (filing.held)"
MEASURES = "the measurement that it calls needs the owner; banks of this machine are not read"
AGENTS = "opening the memory of agents needs the owner"
FILE = "it reads or writes a file of the caller and no bank"
OPENS = "the bank that it opens refuses access before a check; a token opens only its own"
DELEGATES = "it passes the bank to a function that checks"
MACHINE = "it reads the settings of this machine, which the process has anyway"

NO_CHECK_NEEDED = {
    # pure
    "agent_graph": PURE,
    "parse_hook_request": PURE,
    "cell_text": PURE,
    "check": PURE,
    "how_to_trust": PURE,
    "unique_tags": PURE,
    "other_page": PURE,
    "page_of": PURE,
    "plan_page": PURE,
    "trust_hint": PURE,
    "connector_for": PURE,
    "contained_rows": PURE,
    "fidelity_rows": PURE,
    "framed_rows": PURE,
    "from_file": PURE,
    "gist_of": PURE,
    "host_answer": PURE,
    "ids_in": PURE,
    "list_formats": PURE,
    "moment_of": PURE,
    "require_bank_name": PURE,
    "nearest": PURE,
    "require_owner": "it is the check",
    "shown_address": PURE,
    "transfer_rows": PURE,
    "undo_command": PURE,
    # memory files
    "audit_files": CHECKED_BY_FILES,
    "collect_files": CHECKED_BY_FILES,
    "delete_file": CHECKED_BY_FILES,
    "diff_file": CHECKED_BY_FILES,
    "edit_file": CHECKED_BY_FILES,
    "export_files": CHECKED_BY_FILES + "; opening them for it checks export",
    "file_history": CHECKED_BY_FILES,
    "import_files": CHECKED_BY_FILES,
    "list_files": CHECKED_BY_FILES,
    "move_file": CHECKED_BY_FILES,
    "promote_files": CHECKED_BY_FILES,
    "read_file": CHECKED_BY_FILES,
    "read_memories": FILE,
    "restore_file": CHECKED_BY_FILES,
    "search_files": CHECKED_BY_FILES,
    "sync_files": CHECKED_BY_FILES + "; opening them for it checks export",
    "write_file": CHECKED_BY_FILES,
    # measurements
    "measure_containment": MEASURES,
    "measure_fidelity": MEASURES,
    "measure_framed": MEASURES,
    "measure_paper": MEASURES,
    "measure_recall": MEASURES,
    "measure_transfer": MEASURES,
    # amplihack
    "clean_sessions": AGENTS,
    "export_agent": AGENTS,
    "find_memory": AGENTS + "; hierarchical() checked the bank that it gets",
    "similar_links": AGENTS + "; hierarchical() checked the bank that it gets",
    "hierarchical": AGENTS + "; it returns the path",
    "import_agent": AGENTS,
    "legacy_graph": "it checks whether a file exists, for a function that needs the owner",
    "show_tree": AGENTS,
    "start_session": AGENTS,
    "stop_session": AGENTS,
    # files
    "convert_file": FILE,
    "decrypt_file": FILE,
    "encrypt_file": FILE,
    "file_to_read": FILE,
    "inspect_file": FILE,
    "inspect_token": "a token is readable for its holder",
    "lock_for": "recipients are public",
    "rehydrate_file": FILE,
    "verify_file": FILE,
    # a holder's own
    "attenuate_token": "a holder attenuates a token with the holder's key",
    "signing_key": "with a token it is the holder's key",
    "writer_key": "it signs heads of logs for writers, as this machine",
    # opening
    "open_or_create_bank": OPENS,
    "has_store": "the existence of a store is not a secret of a bank",
    "still_matches": "it compares an open bank with the name under which it was opened",
    "open_bank_in": OPENS,
    "open_bank": OPENS,
    "opened_source": OPENS,
    "configured_store": "it refuses tokens, except to open one bank in it",
    "open_bank_for_query": OPENS,
    "open_bank_for_writing": OPENS,
    "find_bank": "only routes and commands of the owner call it, after a check",
    # delegation
    "create_artifact": DELEGATES + ": export",
    "diff": "it checks each bank that it opens, and does not reveal others",
    "export": DELEGATES + ": export",
    "export_bank": DELEGATES + ": export",
    "import_": DELEGATES + ", which needs the owner: import",
    "import_bank": DELEGATES + ", which needs the owner: import",
    "rehydrate_any": DELEGATES + ": rehydrate",
    "verify_bank": DELEGATES + ": stats, and for the owner an audit",
    # without effect for a holder
    "is_behind": "it returns False to a holder before it reads anything",
    "keep_up": "it embeds for an owner; for a holder it returns immediately",
    "log_open_changes": "it writes to a bank for an owner; for a holder it returns immediately",
    # this machine's
    "audience_from_elsewhere": "it resolves the name of a key for issuing, which needs the owner",
    "load_settings": MACHINE,
    "settings_of": MACHINE,
    "embedder_of": MACHINE,
    "is_encrypted": MACHINE,
    "sections": MACHINE,
    "server_of": MACHINE,
    "show_config": MACHINE + "; of a token it returns the source",
    "versions": MACHINE,
}
"""Why a function that interfaces call needs no check of its own.

``tests/cli/test_token_permissions.py`` and ``tests/http/test_token_permissions.py`` call every
command, route and tool with a token that lacks the permission.
"""


INTERFACES = ("cli", "http", "mcp", "api")
FEATURES = frozenset(
    {
        *("admin", "agents", "amplihack", "backup", "bank", "code_graph", "config", "erasure"),
        *("evaluation", "files", "receipts", "recall", "rehydrate", "replication", "sessions"),
        *("setup", "transfer"),
    }
)


def _is_feature(module: str | None) -> bool:
    room, _, rest = (module or "").removeprefix("satchel.").partition(".")
    return room in FEATURES and rest not in ("lifetime", "threads")


def called_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every operation that an interface calls, with its name."""
    own = [SRC / "amplihack" / f"{name}.py" for name in ("hierarchy", "transfer_backend")]
    for path in [*own, *(path for room in INTERFACES for path in (SRC / room).rglob("*.py"))]:
        tree = ast.parse(path.read_text())
        modules = dict[str, ModuleType]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and _is_feature(node.module):
                for alias in node.names:
                    found = _imported(str(node.module), alias.name)
                    if inspect.ismodule(found):
                        modules[alias.asname or alias.name] = found
                    yield from _functions_of(found)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield from _functions_of(getattr(modules.get(node.value.id), node.attr, None))


def _functions_of(found: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    if isinstance(found, Operation):
        yield from checked_functions(found)
    elif inspect.isfunction(found):
        yield found.__name__, found


def checked_functions(
    operation: Operation[Any, Any, ..., Any],
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield an operation that checks permissions, or else the functions that get its context."""
    itself = operation.run.__name__, operation.run
    if itself[0] in NO_CHECK_NEEDED or _checks(operation.run):
        yield itself
        return
    handed = list[tuple[str, Callable[..., Any]]]()
    for node in _nodes(operation.run):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        first = node.args[0]
        names = {each.id for each in ast.walk(first) if isinstance(each, ast.Name)}
        name = ast.unparse(node.func)
        found: Any = operation.run.__globals__.get(name.partition(".")[0])
        if "." in name:
            found = getattr(found, name.partition(".")[2], None)
        is_public = inspect.isfunction(found) and not found.__name__.startswith("_")
        if names & {"bank", "settings", "owned", "context", "target", "source"} and is_public:
            handed.append((found.__name__, found))
    yield from [each for each in handed if _checks(each[1])] or handed or [itself]


@cache
def _nodes(call: Callable[..., Any]) -> list[ast.AST]:
    return list(ast.walk(ast.parse(dedent(inspect.getsource(call)))))


@cache
def _checks(call: Callable[..., Any]) -> bool:
    """Return whether a function itself calls a permission check, in any branch."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("asked", "require_owner")
        for node in _nodes(call)
    )


def _imported(module: str, name: str) -> Any:
    found = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(f"{module}.{name}") if found is None else found


CALLED = defaultdict[str, dict[Any, None]](dict)
"""All of them by name; functions of two modules may share one."""
for _name, _function in called_functions():
    CALLED[_name][_function] = None


@pytest.fixture
def stocked(bank: OpenBank) -> dict[str, str]:
    """A bank with several memories: their IDs by text."""
    return {
        text: keep(bank, text, type=type_, tags=list(tags))
        for text, type_, tags in (
            ("green tea", "semantic", ("tea",)),
            ("black tea", "semantic", ("tea", "secret")),
            ("ship on Friday", "working", ()),
            ("password of the tea house", "working", ("secret",)),
        )
    }


# -- checks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(CALLED))
def test_every_operation_checks_permissions_or_has_a_stated_reason(name: str) -> None:
    """A new operation without a check fails here."""
    silent = [function.__module__ for function in CALLED[name] if not _checks(function)]
    assert bool(silent) is (name in NO_CHECK_NEEDED), f"{name} checks no permission: {silent}"


def test_every_stated_reason_belongs_to_a_called_function() -> None:
    """An obsolete reason would excuse another function with the name."""
    assert sorted(NO_CHECK_NEEDED.keys() - CALLED.keys()) == []


def test_a_mention_of_a_check_is_not_a_check() -> None:
    """In a docstring, or as part of another function's name."""

    def mentions() -> str:
        """Call ``bank.asked("list")`` and require_owner(settings) before it."""
        return _quote("asked(")

    def checks(bank: OpenBank) -> OpenBank:
        return bank.asked("list")

    assert not _checks(mentions)
    assert _checks(checks)


def _quote(text: str) -> str:
    return text


def test_the_search_finds_operations() -> None:
    """An empty search would verify nothing."""
    assert len(CALLED) > 60
    assert {"remember", "recall_memories", "prune_memories", "pull", "revoke_key"} <= CALLED.keys()
    assert set(NEEDED) == set(ACTIONS) | {"diff"}


@pytest.mark.parametrize("action", ACTIONS)
def test_an_operation_without_its_permission_is_refused(
    action: str, bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """D43: each operation needs all of its permissions; otherwise nothing is read or written."""
    size = _size(bank)
    for missing in NEEDED[action]:
        allow = sorted(set(Permission) - {missing})
        holder = may(bank, Wildcard(), allow=allow)
        with pytest.raises(PermissionRefusedError, match=missing):
            ACTIONS[action](holder, stocked["green tea"], tmp_path / "out.pam.jsonl")
    assert _size(bank) == size
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_an_operation_needs_no_other_permissions(
    action: str, bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """The ones in the table are enough."""
    holder = may(bank, Wildcard(), allow=sorted(NEEDED[action]))
    ACTIONS[action](holder, stocked["green tea"], tmp_path / "out.pam.jsonl")


def test_a_bank_returns_nothing_to_a_holder_without_a_permission_check(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """An operation that forgets the check fails closed, whatever the token allows."""
    holder = may(bank, Wildcard(), allow=list(Permission))
    with pytest.raises(PermissionRefusedError), holder.ledger.reading():
        pass
    with pytest.raises(PermissionRefusedError):
        holder.ledger.append([seal(Semantic(text="x"))])
    with pytest.raises(PermissionRefusedError):
        holder.asked("list").ledger.append([seal(Semantic(text="x"))])
    with pytest.raises(PermissionRefusedError):
        holder.ledger.append_rows([], batch=stocked["green tea"])
    with pytest.raises(PermissionRefusedError):
        holder.ledger.decide(lambda *_: ([], None))


def _size(bank: OpenBank) -> int:
    with bank.ledger.reading() as view:
        return view.head.size


# -- reads ---------------------------------------------------------------------------


def test_a_holder_does_not_see_memories_outside_the_scope(
    bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """Not in lists, answers, counts, histories or files, nor by ID or prefix."""
    holder = may(bank, SEMANTIC, NOT_SECRET, allow=["read", "export"])
    assert texts(holder) == ["green tea"]
    answer = recall_memories(holder, Query(text="tea"))
    assert [memory.text for memory in answer.memories] == ["green tea"]
    found = stats(holder)
    assert (found.records, found.memories, found.tags) == (1, 1, {"tea": 1})
    assert (found.imports, found.store_bytes, found.vectors) == (0, None, None)
    assert export(holder, tmp_path / "out.pam.jsonl", ExportOptions(key=HOLDER)).entries == 1
    for text, identity in stocked.items():
        if text == "green tea":
            assert show(holder, identity).text == text
            continue
        for wanted in (identity, identity[:20]):
            for look in (show, raw, history):
                with pytest.raises(UnknownMemoryError):
                    look(holder, wanted)


def test_attack_a_hidden_memory_is_answered_like_a_missing_one(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """A different error would reveal which IDs exist."""
    holder = may(
        bank, Tags(any_of=("tea",), none_of=("secret",)), allow=["read", "write", "derive"]
    )
    there, nowhere = stocked["black tea"], "blake3:" + "0" * 64
    for action in ("show", "raw", "history", "update", "correct", "forget", "restore", "derive"):
        said = [_refusal(ACTIONS[action], holder, one) for one in (there, nowhere)]
        assert said[0] == said[1], action


def _refusal(action: Callable[..., Any], bank: OpenBank, identity: str) -> str:
    with pytest.raises(UnknownMemoryError) as caught:
        action(bank, identity, Path("out"))
    return str(caught.value).replace(identity, "ID")


def test_other_records_are_visible_only_if_their_ends_are(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """A status or an edge; never a token, a receipt or a setting."""
    one, other, hidden = (stocked[text] for text in ("green tea", "black tea", "ship on Friday"))
    seen = seal(Edge(source=one, target=other, kind="similar_to"))
    half = seal(Edge(source=one, target=hidden, kind="similar_to"))
    bank.ledger.append([seen, half, gone := seal(Status(target=hidden, state="deleted"))])
    holder = may(bank, TEA).asked("show")
    with holder.ledger.reading() as view:
        assert set(view.get([seen.id, half.id, gone.id])) == {seen.id}
        assert [logged.record.id for logged in view.neighbors(one)] == [seen.id]
        walked = view.links([one], incoming=False, limit=9)
        assert [linked.link.target for linked in walked] == [other]
        types = {logged.record.type for logged in view.scan()}
    assert types == {"bank", "config", "semantic", "edge"}


def test_a_version_outside_the_scope_is_not_in_the_history(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Neither its ID nor the number of hidden versions."""
    identity = stocked["green tea"]
    size = _size(bank)
    newer = update(bank, identity, MemoryEdit(members={"text": "poison"}, add_tags=["secret"])).id
    holder = may(bank, NOT_SECRET)
    before = recall_memories(holder, Query(text="green", as_of=size))
    assert [memory.id for memory in before.memories] == [identity]
    found = history(holder, identity)
    assert [version.id for version in found.versions] == [identity]
    assert found.left_out == 0
    shown = [found, show(holder, identity), list_memories(holder, ListRequest()), before]
    told = msgspec.json.encode(shown)
    assert newer.removeprefix("blake3:").encode() not in told
    assert b"poison" not in told


def test_a_scope_of_ids_does_not_cover_later_versions(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """An ID is the hash of its contents."""
    clause, _ = entries_clause([stocked["green tea"]])
    holder = may(bank, clause)
    assert texts(holder) == ["green tea"]
    update(bank, stocked["green tea"], MemoryEdit(members={"text": "white tea"}))
    assert texts(holder) == []
    assert texts(holder, everything=True) == ["green tea"]


def test_an_export_has_the_scope_and_is_signed_by_the_holder(
    bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """No bytes of withheld memories, and no signature of the owner."""
    child = keep(
        bank, "boil water", type="procedural", tags=["tea"], parents=[stocked["black tea"]]
    )
    path = tmp_path / "out.pam.jsonl"
    holder = may(bank, NOT_SECRET, allow=["read", "export"])
    done = export(holder, path, ExportOptions(key=HOLDER))
    data = path.read_bytes()
    assert done.entries == 3
    assert child.encode() in data
    for hidden in (b"black tea", b"password", b"secret"):
        assert hidden not in data
    assert done.signed_by == HOLDER.did
    assert done.records["withheld"] == 1
    assert done.read_back in ("good", "untrusted")


# -- writes ---------------------------------------------------------------------------


def test_a_holder_writes_only_within_the_scope(bank: OpenBank, stocked: dict[str, str]) -> None:
    """An update cannot move a memory out of it."""
    holder = may(bank, SEMANTIC, TEA, allow=["read", "write"])
    made = remember(holder, {"text": "white tea", "tags": ["tea"]})
    assert texts(holder)[0] == "white tea"
    for members in ({"text": "coffee"}, {"text": "tea", "type": "working", "tags": ["tea"]}):
        with pytest.raises(PermissionRefusedError):
            remember(holder, members)
    with pytest.raises(PermissionRefusedError):
        update(holder, made.id, MemoryEdit(drop_tags=["tea"]))
    with pytest.raises(UnknownMemoryError):
        forget(holder, [stocked["ship on Friday"]])
    assert update(holder, made.id, MemoryEdit(members={"text": "yellow tea"})).is_new
    assert forget(holder, [stocked["green tea"]])[0].is_changed
    assert restore(holder, [stocked["green tea"]])[0].is_changed


def test_writing_without_read_permission_works_and_reveals_nothing(bank: OpenBank) -> None:
    """A second write does not reveal that the memory exists."""
    holder = may(bank, SEMANTIC, allow=["write"])
    first = remember(holder, {"text": "likes tea"}, key="drink")
    again = remember(holder, {"text": "likes tea"}, key="drink")
    assert (again.is_new, again.replaces) == (True, None)
    assert first.id != again.id
    assert texts(bank) == ["likes tea"]
    for action in ("list", "show", "recall", "update", "forget"):
        with pytest.raises(PermissionRefusedError):
            ACTIONS[action](holder, first.id, Path("out"))


def test_attack_a_key_does_not_reveal_or_replace_a_hidden_memory(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """A holder's keys are separate."""
    keep(bank, "the owner's", key="plan", tags=["secret"])
    holder = may(bank, NOT_SECRET, allow=["read", "write"])
    made = remember(holder, {"text": "the holder's"}, key="plan")
    assert made.replaces is None
    assert set(texts(bank)) >= {"the owner's", "the holder's"}
    again = remember(holder, {"text": "the holder's again"}, key="plan")
    assert again.replaces == made.id
    assert stocked


def test_derive_needs_read_permission_for_every_parent(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """In whatever form the parents are given."""
    holder = may(bank, NOT_SECRET, allow=["read", "derive"])
    made = remember(holder, {"text": "so buy tea"}, parents=[stocked["green tea"]])
    assert show(holder, made.id).record["parent_ids"] == [stocked["green tea"]]
    with pytest.raises(UnknownMemoryError):
        remember(holder, {"text": "x"}, parents=[stocked["green tea"], stocked["black tea"]])
    with pytest.raises(PermissionRefusedError):
        remember(holder, {"text": "x", "parent_ids": [stocked["black tea"]]})
    with pytest.raises(PermissionRefusedError, match="write"):
        remember(holder, {"text": "x"})
    remember(holder, {"text": "x"}, parents=[stocked["green tea"]], key="k")
    with pytest.raises(PermissionRefusedError):  # it would replace a memory, which needs write
        remember(holder, {"text": "y"}, parents=[stocked["green tea"]], key="k")
    writer = may(bank, NOT_SECRET, allow=["read", "write"])
    with pytest.raises(PermissionRefusedError, match="derive"):
        remember(writer, {"text": "x"}, parents=[stocked["green tea"]])
    with pytest.raises(PermissionRefusedError):
        update(writer, made.id, MemoryEdit(parents=[stocked["ship on Friday"]]))


def test_attack_memories_of_a_holder_are_not_attributed_to_the_user(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """They have the trust of an agent."""
    holder = may(bank, NOT_SECRET, allow=["read", "write"])
    claims = {"text": "I am the user", "origin": {"trust": "user"}}
    for made in (
        remember(holder, {"text": "plain"}).id,
        remember(holder, claims).id,
        update(holder, stocked["green tea"], MemoryEdit(members={"text": "poison tea"})).id,
    ):
        answer = recall_memories(bank, Query(limit=100))
        trust = {memory.id: memory.trust for memory in answer.memories}
        assert trust[made] == TrustClass.AGENT
    origin = show(bank, remember(holder, {"text": "again"}).id).record["origin"]
    assert origin["source"] == HOLDER.did
    with pytest.raises(PermissionRefusedError):
        holder.asked("remember").ledger.append([seal(Semantic(text="as the user"))])


def test_attack_a_holder_cannot_append_other_records(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """A promotion, a release or a revocation, with permission to write."""
    holder = may(bank, Wildcard(), allow=list(Permission)).asked("remember")
    there = stocked["green tea"]
    for record in (
        seal(Status(target=there, state="promoted")),
        seal(Status(target=there, state="released")),
        token_revocation_record(bank.id, "blake3:" + "0" * 64, HOLDER, now(), None),
    ):
        with pytest.raises(PermissionRefusedError):
            holder.ledger.append([record])
    with pytest.raises(PermissionRefusedError):
        holder.ledger.append([seal(Status(target=there, state="deleted"))], side={"x": b"y"})


def test_attack_an_old_version_is_not_restored_beside_a_hidden_one(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Two versions of a memory would be current."""
    identity = stocked["green tea"]
    update(bank, identity, MemoryEdit(members={"text": "poison"}, add_tags=["secret"]))
    holder = may(bank, NOT_SECRET, allow=["read", "write"])
    with pytest.raises(RefusedError):
        restore(holder, [identity])
    assert "green tea" not in texts(bank)


# -- duration -------------------------------------------------------------------------------------


def test_an_open_handle_is_refused_after_revocation(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Also between the check and the read; only an owner's revocation counts."""
    holder = may(bank, NOT_SECRET, allow=["read", "write"])
    asked = holder.asked("list")
    assert holder.bearer is not None
    token = holder.bearer.chain.leaf.id
    bank.ledger.append([token_revocation_record(bank.id, token, HOLDER, now(), None)])
    assert texts(holder) != []
    bank.ledger.append([token_revocation_record(bank.id, token, owner(), now(), "enough")])
    for attempt in (
        lambda: list_memories(holder, ListRequest()),
        lambda: remember(holder, {"text": "x"}),
        lambda: asked.ledger.reading().__enter__(),
        lambda: asked.ledger.append([seal(Semantic(text="x"))]),
    ):
        with pytest.raises((TokenRevokedError, PermissionRefusedError)):
            attempt()
    assert stocked


def test_an_open_handle_is_refused_after_expiry(bank: OpenBank, stocked: dict[str, str]) -> None:
    """The clock is read at each call."""
    moments = [later(0.5)]
    chain = chain_of(WORKING, bank=bank.id, owner=owner())
    holder = held(bank, chain, lambda: moments[-1])
    assert len(texts(holder)) == 2
    moments.append(later(2))
    with pytest.raises(TokenTimeError):
        texts(holder)
    assert stocked


def test_a_token_of_another_owner_or_bank_is_refused(bank: OpenBank) -> None:
    """A token must be issued by an owner of the bank that it names."""
    at = now()
    times = {"issued_at": at, "expires_at": later(1, since=at)}
    with pytest.raises(TokenError, match="owner"):
        texts(held(bank, chain_of(bank=bank.id, owner=HOLDER, **times)))
    with pytest.raises(TokenError, match="bank"):
        texts(held(bank, chain_of(bank="blake3:" + "0" * 64, owner=owner(), **times)))


def test_tokens_of_a_revoked_key_are_refused(bank: OpenBank, stocked: dict[str, str]) -> None:
    """All that the key issued."""
    from satchel.bank.permissions import revoked_keys

    settings = load_settings()
    holder = may(bank, SEMANTIC)
    assert holder.bearer is not None
    object.__setattr__(holder.bearer.held, "revoked_keys", lambda: revoked_keys(settings))
    assert len(texts(holder)) == 2
    settings.registry.revoke(owner().did)
    object.__setattr__(holder.bearer.held, "revoked_keys", lambda: revoked_keys(load_settings()))
    with pytest.raises(TokenRevokedError):
        texts(holder)
    assert stocked


def test_a_refused_write_leaves_the_log_unchanged(bank: OpenBank, stocked: dict[str, str]) -> None:
    """As if it had not been called."""
    size = _size(bank)
    holder = may(bank, TEA, allow=["read", "write", "derive"])
    for members in ({"text": "x"}, {"text": "x", "tags": ["secret"]}):
        with pytest.raises(PermissionRefusedError):
            remember(holder, members)
    assert _size(bank) == size
    assert stocked


def test_a_holder_cannot_open_the_whole_store() -> None:
    """An operation of the owner that forgets its check fails closed."""
    from satchel.bank.connections import configured_store

    with filled() as bank:
        keep(bank, "x")
    settings = msgspec.structs.replace(load_settings(), token="{}")  # noqa: S106 - none at all
    with pytest.raises((PermissionRefusedError, ReadOnlyStoreError)), configured_store(settings):
        pass


def test_attack_a_holder_learns_no_names_from_a_missing_store() -> None:
    """Neither of banks that this machine saw in it, nor its address."""
    settings = load_settings()
    create_bank(settings, "another secret", owner())
    with filled() as bank:
        identity = bank.id
    delete_store(settings.store)
    presented = msgspec.structs.replace(settings, token="{}")  # noqa: S106 - none at all
    for settings_of, is_owner in ((settings, True), (presented, False)):
        with pytest.raises(RolledBackError) as refused, open_bank(settings_of, identity):
            pass
        said = f"{refused.value} {refused.value.message} {refused.value.hint} {refused.value.file}"
        for name in ("another secret", identity, settings.store):
            assert (name in said) is is_owner, said
