"""Every action asks, in one place; a holder sees and adds what the token covers, and no more."""

import ast
import importlib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
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
from satchel.files.bank_files import files_of_bank, namespace_of
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


def _files(bank: OpenBank) -> MemoryStore:
    """Return the memory files of a bank, which are there, as its holder has them."""
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
    "read files": lambda bank, _, __: _files(bank).list_paths(),
    "change files": lambda bank, _, __: _files(bank).write_text("a.md", "x"),
}
NEEDED = {"raw": NEEDS["show"], **NEEDS}
PURE = "it computes what it was given, and reads nothing of a bank"
ASKS_FILES = "the store of files asks at each call: to read, to change, or its owner (filing.held)"
MEASURES = "the measurement that it calls is the owner's; banks of this machine are not read"
AGENTS = "what opens the memory of agents is the owner's"
FILE = "a file that the caller names needs no permission of a bank; none is written into one"
OPENS = "what it opens gives nothing before something asked, and to a token its own bank only"
HANDS_ON = "it hands the bank to one that asks"
MACHINE = "of this machine's settings, which the process has read for itself"

NEED_NOT_ASK = {
    # pure
    "agent_graph": PURE,
    "parse_hook_request": PURE,
    "cell_text": PURE,
    "check": PURE,
    "how_to_trust": PURE,
    "unique_tags": PURE,
    "parse_moment": PURE,
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
    "require_owner": "it is what asks",
    "shown_address": PURE,
    "transfer_rows": PURE,
    # memory files
    "audit_files": ASKS_FILES,
    "collect_files": ASKS_FILES,
    "delete_file": ASKS_FILES,
    "diff_file": ASKS_FILES,
    "edit_file": ASKS_FILES,
    "export_files": ASKS_FILES + "; and opening them for it asks to export",
    "file_history": ASKS_FILES,
    "import_files": ASKS_FILES,
    "list_files": ASKS_FILES,
    "move_file": ASKS_FILES,
    "promote_files": ASKS_FILES,
    "read_file": ASKS_FILES,
    "read_memories": FILE,
    "restore_file": ASKS_FILES,
    "search_files": ASKS_FILES,
    "sync_files": ASKS_FILES + "; and opening them for it asks to export",
    "write_file": ASKS_FILES,
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
    "find_memory": AGENTS + "; hierarchical() asked for the bank it is given",
    "similar_links": AGENTS + "; hierarchical() asked for the bank it is given",
    "hierarchical": AGENTS + "; it says where that would be",
    "import_agent": AGENTS,
    "legacy_graph": "it tells whether a file is there, for what opens it, which is the owner's",
    "show_tree": AGENTS,
    "start_session": AGENTS,
    "stop_session": AGENTS,
    # files
    "convert_file": FILE,
    "decrypt_file": FILE,
    "encrypt_file": FILE,
    "file_to_read": FILE,
    "inspect_file": FILE,
    "inspect_token": "a token shows what it says to whoever has it",
    "lock_for": "recipients are public",
    "rehydrate_file": FILE,
    "verify_file": FILE,
    # a holder's own
    "attenuate_token": "the holder of a token hands on a part of it, signed by the holder's key",
    "signing_key": "with a token presented, it is the holder's key and no other",
    "writer_key": "it signs heads of logs for whoever may write, as this machine",
    # opening
    "open_or_create_bank": OPENS,
    "has_store": "that there is a store is no secret of a bank",
    "still_matches": "of a bank that is open, by the name under which it was opened",
    "open_bank_in": OPENS,
    "open_bank": OPENS,
    "opened_source": OPENS,
    "configured_store": "it refuses tokens, but for those who open one bank in it",
    "open_bank_for_query": OPENS,
    "open_bank_for_writing": OPENS,
    "find_bank": "only the owner's routes and commands call it, after they asked",
    # handing on
    "create_artifact": HANDS_ON + ": export",
    "diff": "each bank that it opens is asked; of others it does not say whether they exist",
    "export": HANDS_ON + ": export",
    "export_bank": HANDS_ON + ": export",
    "import_": HANDS_ON + ", which is the owner's: import",
    "import_bank": HANDS_ON + ", which is the owner's: import",
    "rehydrate_any": HANDS_ON + ": rehydrate",
    "verify_bank": HANDS_ON + ": stats, and for the owner an audit",
    # nothing for a holder
    "is_behind": "a holder is answered no before anything is read",
    "keep_up": "it makes vectors for an owner; for a holder it returns at once",
    "log_open_changes": "it writes to a bank for an owner; for a holder it returns at once",
    # this machine's
    "audience_from_elsewhere": "the name of a key becomes its public key, for issuing: the owner's",
    "load_settings": MACHINE,
    "settings_of": MACHINE,
    "embedder_of": MACHINE,
    "is_encrypted": MACHINE,
    "sections": MACHINE,
    "server_of": MACHINE,
    "show_config": MACHINE + "; of a token it says where it is from",
    "versions": MACHINE,
}
"""Why a function that interfaces call need not ask itself. What a token without the permission
gets of it over each interface is tested in ``tests/cli/test_token_permissions.py`` and
``tests/http/test_token_permissions.py``, by trying every command, route and tool."""


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


def doors() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every function of the actions that a surface or the API calls."""
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
                    yield from _called(found)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield from _called(getattr(modules.get(node.value.id), node.attr, None))


def _called(found: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    if isinstance(found, Operation):
        yield from behind(found)
    elif inspect.isfunction(found):
        yield found.__name__, found


def behind(operation: Operation[Any, Any, ..., Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield an operation that asks, or else what it hands its context to."""
    itself = operation.run.__name__, operation.run
    if itself[0] in NEED_NOT_ASK or _asks(operation.run):
        yield itself
        return
    handed = list[tuple[str, Callable[..., Any]]]()
    for node in ast.walk(ast.parse(inspect.getsource(operation.run))):
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
    yield from [each for each in handed if _asks(each[1])] or handed or [itself]


def _asks(call: Callable[..., Any]) -> bool:
    """Tell whether a function itself asks: it calls what asks, in whatever it does otherwise."""
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("asked", "require_owner")
        for node in ast.walk(ast.parse(dedent(inspect.getsource(call))))
    )


def _imported(module: str, name: str) -> Any:
    found = getattr(importlib.import_module(module), name, None)
    return importlib.import_module(f"{module}.{name}") if found is None else found


DOORS = defaultdict[str, dict[Any, None]](dict)
"""All of them by their names; two modules may call theirs the same."""
for _name, _door in doors():
    DOORS[_name][_door] = None


@pytest.fixture
def stocked(bank: OpenBank) -> dict[str, str]:
    """What is in the bank of these tests: ids by text."""
    return {
        text: keep(bank, text, type=type_, tags=list(tags))
        for text, type_, tags in (
            ("green tea", "semantic", ("tea",)),
            ("black tea", "semantic", ("tea", "secret")),
            ("ship on Friday", "working", ()),
            ("password of the tea house", "working", ("secret",)),
        )
    }


# -- one place ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(DOORS))
def test_every_action_asks_or_says_why_it_need_not(name: str) -> None:
    """An action that a surface calls and that asks nobody fails here on the day it is added."""
    silent = [door.__module__ for door in DOORS[name] if not _asks(door)]
    assert bool(silent) is (name in NEED_NOT_ASK), f"{name} asks for no permission: {silent}"


def test_every_reason_is_of_something_that_interfaces_call() -> None:
    """A reason that outlives its function would excuse another one of its name."""
    assert sorted(NEED_NOT_ASK.keys() - DOORS.keys()) == []


def test_a_function_that_only_speaks_of_asking_does_not_ask() -> None:
    """A docstring with the words of the call, or a function of a similar name, is no question."""

    def speaks() -> str:
        """Whoever calls it has to call ``bank.asked("list")`` and require_owner(settings)."""
        return _unasked("asked(")

    def asks(bank: OpenBank) -> OpenBank:
        return bank.asked("list")

    assert not _asks(speaks)
    assert _asks(asks)


def _unasked(text: str) -> str:
    return text


def test_there_are_actions_to_walk_over() -> None:
    """A walk that finds nothing would prove nothing."""
    assert len(DOORS) > 60
    assert {"remember", "recall_memories", "prune_memories", "pull", "revoke_key"} <= DOORS.keys()
    assert set(NEEDED) == set(ACTIONS) | {"diff"}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_token_without_a_permission_lets_nothing_through(
    action: str, bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """D43: each action needs what its name says, all of it; without, nothing is read or written."""
    size = _size(bank)
    for missing in NEEDED[action]:
        allow = sorted(set(Permission) - {missing})
        holder = may(bank, Wildcard(), allow=allow)
        with pytest.raises(PermissionRefusedError, match=missing):
            ACTIONS[action](holder, stocked["green tea"], tmp_path / "out.pam.jsonl")
    assert _size(bank) == size
    assert list(tmp_path.glob("out*")) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_a_token_with_the_permissions_is_enough(
    action: str, bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """No more is asked for than what the table says."""
    holder = may(bank, Wildcard(), allow=sorted(NEEDED[action]))
    ACTIONS[action](holder, stocked["green tea"], tmp_path / "out.pam.jsonl")


def test_a_bank_returns_nothing_to_a_holder_without_a_permission_check(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """An action that forgets to ask fails closed, whatever the token allows."""
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


# -- what a holder sees ---------------------------------------------------------------------------


def test_what_a_token_does_not_cover_is_not_there(
    bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """Not in lists, answers, counts, histories, files, nor by its id or the start of that."""
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


def test_what_is_hidden_is_answered_like_what_was_never_there(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Attack: the difference between two refusals tells which ids exist."""
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


def test_other_records_than_memories_are_shown_with_all_of_the_bank_only(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """A status or an edge shows when its ends do; a token, a receipt or a setting never."""
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


def test_a_version_that_left_the_scope_takes_its_history_along(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """A memory that became secret shows no newer version, no id of one, and how many there are."""
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


def test_a_list_of_entries_opens_these_and_no_version_that_follows(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """What is listed is listed by its content."""
    clause, _ = entries_clause([stocked["green tea"]])
    holder = may(bank, clause)
    assert texts(holder) == ["green tea"]
    update(bank, stocked["green tea"], MemoryEdit(members={"text": "white tea"}))
    assert texts(holder) == []
    assert texts(holder, everything=True) == ["green tea"]


def test_an_export_holds_what_is_covered_and_is_signed_by_the_holder(
    bank: OpenBank, stocked: dict[str, str], tmp_path: Path
) -> None:
    """Nothing that is withheld is in the bytes that leave, and the owner's key signs none of it."""
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


# -- what a holder adds ---------------------------------------------------------------------------


def test_what_is_written_has_to_be_in_the_scope(bank: OpenBank, stocked: dict[str, str]) -> None:
    """A token for tea writes about tea, and changes nothing to be about something else."""
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
    """What is written twice is written twice: that it was there already is not told."""
    holder = may(bank, SEMANTIC, allow=["write"])
    first = remember(holder, {"text": "likes tea"}, key="drink")
    again = remember(holder, {"text": "likes tea"}, key="drink")
    assert (again.is_new, again.replaces) == (True, None)
    assert first.id != again.id
    assert texts(bank) == ["likes tea"]
    for action in ("list", "show", "recall", "update", "forget"):
        with pytest.raises(PermissionRefusedError):
            ACTIONS[action](holder, first.id, Path("out"))


def test_a_key_of_a_holder_is_its_own(bank: OpenBank, stocked: dict[str, str]) -> None:
    """Attack: giving a key tells whether somebody else's hidden memory has it, or replaces it."""
    keep(bank, "the owner's", key="plan", tags=["secret"])
    holder = may(bank, NOT_SECRET, allow=["read", "write"])
    made = remember(holder, {"text": "the holder's"}, key="plan")
    assert made.replaces is None
    assert set(texts(bank)) >= {"the owner's", "the holder's"}
    again = remember(holder, {"text": "the holder's again"}, key="plan")
    assert again.replaces == made.id
    assert stocked


def test_deriving_needs_to_read_every_parent(bank: OpenBank, stocked: dict[str, str]) -> None:
    """A child may be added to what can be read, however its parents are named; to nothing else."""
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
    with pytest.raises(PermissionRefusedError):  # that takes the place of one: a change
        remember(holder, {"text": "y"}, parents=[stocked["green tea"]], key="k")
    writer = may(bank, NOT_SECRET, allow=["read", "write"])
    with pytest.raises(PermissionRefusedError, match="derive"):
        remember(writer, {"text": "x"}, parents=[stocked["green tea"]])
    with pytest.raises(PermissionRefusedError):
        update(writer, made.id, MemoryEdit(parents=[stocked["ship on Friday"]]))


def test_a_holders_memories_are_not_attributed_to_the_user(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Attack: an agent with a token writes what is then recalled as the user's own word."""
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


def test_a_holder_adds_memories_and_nothing_else(bank: OpenBank, stocked: dict[str, str]) -> None:
    """Attack: a promotion, an erasure or a revocation is appended with leave to write."""
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


def test_an_old_version_is_not_brought_back_beside_one_that_is_hidden(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Attack: two versions of one memory become current, because the holder sees only one."""
    identity = stocked["green tea"]
    update(bank, identity, MemoryEdit(members={"text": "poison"}, add_tags=["secret"]))
    holder = may(bank, NOT_SECRET, allow=["read", "write"])
    with pytest.raises(RefusedError):
        restore(holder, [identity])
    assert "green tea" not in texts(bank)


# -- how long -------------------------------------------------------------------------------------


def test_a_handle_that_stays_open_sees_that_its_token_was_revoked(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Also between asking and reading, and by an owner only."""
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


def test_a_handle_that_stays_open_ends_with_its_token(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """The clock is looked at each time."""
    moments = [later(0.5)]
    chain = chain_of(WORKING, bank=bank.id, owner=owner())
    holder = held(bank, chain, lambda: moments[-1])
    assert len(texts(holder)) == 2
    moments.append(later(2))
    with pytest.raises(TokenTimeError):
        texts(holder)
    assert stocked


def test_a_token_of_another_owner_or_bank_opens_nothing(bank: OpenBank) -> None:
    """Only an owner's word counts, and only for the bank that it names."""
    at = now()
    times = {"issued_at": at, "expires_at": later(1, since=at)}
    with pytest.raises(TokenError, match="owner"):
        texts(held(bank, chain_of(bank=bank.id, owner=HOLDER, **times)))
    with pytest.raises(TokenError, match="bank"):
        texts(held(bank, chain_of(bank="blake3:" + "0" * 64, owner=owner(), **times)))


def test_a_key_that_was_revoked_here_issues_nothing(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """All tokens that it issued die with it."""
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


def test_what_a_token_does_not_cover_costs_no_write(
    bank: OpenBank, stocked: dict[str, str]
) -> None:
    """Whatever is refused leaves the log as it was."""
    size = _size(bank)
    holder = may(bank, TEA, allow=["read", "write", "derive"])
    for members in ({"text": "x"}, {"text": "x", "tags": ["secret"]}):
        with pytest.raises(PermissionRefusedError):
            remember(holder, members)
    assert _size(bank) == size
    assert stocked


def test_the_store_itself_is_closed_to_a_holder() -> None:
    """An owner's action that forgets to ask does not get the store of somebody with a token."""
    from satchel.bank.connections import configured_store

    with filled() as bank:
        keep(bank, "x")
    settings = msgspec.structs.replace(load_settings(), token="{}")  # noqa: S106 - none at all
    with pytest.raises((PermissionRefusedError, ReadOnlyStoreError)), configured_store(settings):
        pass


def test_attack_a_token_holder_learns_no_names_from_a_vanished_store() -> None:
    """Neither of the banks that this machine saw in it, nor where it was."""
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
