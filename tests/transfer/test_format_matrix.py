"""Round trips through every pair of formats: differences are exactly those in the receipts.

Every writable format takes part automatically. With a sidecar nothing differs.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matrix_kit import (
    WRITABLE,
    back,
    held,
    ids,
    out,
    output_of,
    put,
    rich,
    unlisted,
    without_beside,
)

from satchel.artifact.encodings import Header
from satchel.conformance.strategies import entries, structs
from satchel.conformance.subject import KEY, sealed
from satchel.errors import TargetError
from satchel.model.records import (
    ENTRY_CLASSES,
    Edge,
    Entry,
    Episodic,
    FileVersion,
    GraphNode,
    Identity,
    Procedural,
    Semantic,
    SessionEvent,
    Working,
)
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.receipts import comparison
from satchel.receipts.receipt import FieldLoss, ReceiptBody
from satchel.runtime.files import file_digest
from satchel.transfer.sidecars import Output, SidecarBuilder, SidecarFormat

_RING = [
    pytest.param(name, other, id=f"{name}-{other}")
    for name, other in zip(WRITABLE, [*WRITABLE[7:], *WRITABLE[:7]], strict=True)
]
"""Each format once in front and once behind; all pairs are tried by ``make prove``."""


def _through(
    bank: str, name: str, into: str, folder: Path, **options: Any
) -> Iterator[ReceiptBody]:
    """Carry a bank through a format into another bank; yield the receipts of both directions."""
    path = output_of(name, folder, f"{into}-{name}")
    done = out(bank, path, name, **options)
    assert done.account is not None
    yield done.account
    yield from back(path, name, into).accounts


@pytest.mark.in_check(7)
@pytest.mark.parametrize(("first", "second"), _RING)
def test_the_losses_of_two_formats_are_in_their_receipts(
    first: str, second: str, tmp_path: Path
) -> None:
    """Bank, file, bank, file, bank: every difference is listed, by name and number."""
    put(rich(), "start", tmp_path)
    told = [
        *_through("start", first, "middle", tmp_path),
        *_through("middle", second, "end", tmp_path),
    ]

    assert unlisted(held("start"), held("end"), told) == []


@pytest.mark.in_check(7)
@pytest.mark.parametrize(("first", "second"), _RING)
def test_a_bank_round_trips_with_sidecars(first: str, second: str, tmp_path: Path) -> None:
    """Every record comes back under its ID, and no receipt lists a loss."""
    put(rich(), "start", tmp_path)
    told = [
        *_through("start", first, "middle", tmp_path, sidecar=True),
        *_through("middle", second, "end", tmp_path, sidecar=True),
    ]

    assert [one.lost for one in told] == [[]] * len(told)
    assert ids("middle") == ids("start")
    assert ids("end") == ids("start")


@pytest.mark.prove
@pytest.mark.parametrize("first", WRITABLE)
def test_the_losses_of_all_pairs_of_formats_are_in_their_receipts(
    first: str, tmp_path: Path
) -> None:
    """As above, from one format through each other one."""
    put(rich(), "start", tmp_path)
    there = [*_through("start", first, "middle", tmp_path)]
    for second in WRITABLE:
        told = [*there, *_through("middle", second, f"end-{second}", tmp_path)]

        assert unlisted(held("start"), held(f"end-{second}"), told) == [], second


_WITHOUT_TEXT = (
    Semantic(metadata={"note": "q01"}),
    Semantic(metadata={"mark": ["q02"]}, confidence=0.5, tags=("a",)),
    Episodic(metadata={"mark": {"in": "q03"}}, created_at="2026-01-02T03:04:05.000000Z"),
    Procedural(metadata={"mark": "q04"}),
    Working(metadata={"mark": "q05"}),
    Identity(metadata={"mark": "q06"}),
)


@pytest.mark.in_check(7)
@pytest.mark.parametrize("name", WRITABLE)
def test_memories_without_text_are_imported_or_listed_as_losses(name: str, tmp_path: Path) -> None:
    """A file written by Satchel is never refused for a memory without text."""
    with sealed([Semantic(text="q99 there"), *_WITHOUT_TEXT]) as records:
        put(records, "start", tmp_path)

    receipts = [*_through("start", name, "end", tmp_path)]

    assert unlisted(held("start"), held("end"), receipts) == []


def _marked(drafts: list[Any]) -> list[Any]:
    """Give each entry a unique word, to recognize it in any format."""
    return [
        msgspec.structs.replace(draft, text=f"q{place:02} {draft.text or ''}", parent_ids=())
        for place, draft in enumerate(drafts)
    ]


@pytest.mark.prove
@pytest.mark.parametrize("first", WRITABLE)
def test_the_losses_of_generated_memories_are_in_the_receipts(first: str, tmp_path: Path) -> None:
    """With any other format as the second one."""
    number = iter(range(10**6))

    @settings(max_examples=9, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(entries(), min_size=1, max_size=4), st.sampled_from(WRITABLE))
    def tried(drafts: list[Any], second: str) -> None:
        turn = next(number)
        start, middle, end = f"start-{turn}", f"middle-{turn}", f"end-{turn}"
        with sealed([Semantic(text="q99 there"), *_marked(drafts)]) as records:
            put(records, start, tmp_path)
        told = [*_through(start, first, middle, tmp_path), *_through(middle, second, end, tmp_path)]

        assert unlisted(held(start), held(end), told) == []

    tried()


_SAMPLES = (
    *(f"ama/{name}_10.ama.jsonl" for name in ("cli", "engine", "sqlite")),
    "ama/schema_10_embeddings_entities.ama.jsonl",
    "amplihack/amplihack-python-v1.1.json",
    "amplihack/amplihack-rs-agent-core.json",
    "amplihack/amplihack-rs-sqlite-v1.1.json",
    *(f"amplihack/edge_cases/{name}.json" for name in ("dangling", "dupid", "null", "unknown")),
    "amplihack/memory-lib-python-v1.0.json",
    "amplihack/raw/amplihack-rs-flat-memory.db",
    "amplihack/raw/amplihack-rs-sqlite-raw.db",
    "chat-exports/chatgpt_export",
    "chat-exports/claude_export",
    "chroma/collection_get.json",
    "chroma/db",
    "cognee/zep_cogx",
    "graphiti/export_falkor.json",
    "graphiti/original_falkor.json",
    "langgraph/checkpoints.sqlite",
    "langgraph/get_item.json",
    "langgraph/search_all.json",
    "langgraph/store.db",
    "letta-af/customer_service.af",
    "letta-af/legacy_v0.6.47_memgpt_agent_with_convo.af",
    "letta-af/loop.af",
    "letta-af/memgpt_agent_with_convo.af",
    "letta-af/outreach_workflow_agent.af",
    "mcp-memory/memory.jsonl",
    "mcp-memory/memory_with_extras.jsonl",
    "mcp-memory/read_graph.json",
    "mem0",
    "mem0/get_all_ada.json",
    "mem0/get_one.json",
    "mem0/mem0_get_all.json",
    "mem0/mem0_list.json",
    "mem0/qdrant_points.json",
    "pam-sdk/01_signed.pam",
    "pam-sdk/01_signed.pam.cbor",
    "pam-sdk/02_disclosed_sdk_descendants.pam",
    "pam-sdk/03_disclosed_spec_ancestors.pam",
    "qdrant/db",
    "qdrant/scroll.json",
)
"""All there are, but for those that are refused, and those that hold no memory."""


def _unlisted_differences(sample: Path, names: Iterable[str], folder: Path) -> dict[str, list[str]]:
    """Return the differences from a sample that no receipt lists, by format."""
    back(sample, None, "start")
    problems = dict[str, list[str]]()
    for name in names:
        path = output_of(name, folder, name)
        try:
            there = out("start", path, name, embeddings=True).account
        except TargetError as error:  # refused, so nothing is lost
            if "cannot hold any of these records" not in error.message:
                raise
            continue
        again = back(path, name, name).accounts
        assert there is not None
        before, after = (without_beside(held(bank), name) for bank in ("start", name))
        problems[name] = unlisted(before, after, [there, *again])
    return problems


@pytest.mark.in_check(15)
@pytest.mark.shared
@pytest.mark.parametrize(("turn", "sample"), [*enumerate(_SAMPLES)], ids=_SAMPLES)
def test_a_sample_round_trips_as_its_receipts_say(
    turn: int, sample: str, shared_data: Path, tmp_path: Path
) -> None:
    """A real file, a bank, another format, a bank; each format has its turn."""
    problems = _unlisted_differences(
        shared_data / sample, [WRITABLE[turn % len(WRITABLE)]], tmp_path
    )

    assert not any(problems.values()), problems


@pytest.mark.prove
@pytest.mark.shared
@pytest.mark.parametrize("sample", _SAMPLES)
def test_a_sample_round_trips_through_every_format(
    sample: str, shared_data: Path, tmp_path: Path
) -> None:
    """As above, through each of them."""
    problems = _unlisted_differences(shared_data / sample, WRITABLE, tmp_path)

    assert problems
    assert not any(problems.values()), problems


def _losses(found: Iterable[FieldLoss]) -> list[tuple[str, int, str]]:
    return sorted((one.field, one.count, one.reason) for one in found)


@pytest.mark.in_check(7)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_dry_run_predicts_the_receipt(name: str, tmp_path: Path) -> None:
    """Field by field, with the numbers and the reasons; nothing is written."""
    put(rich(), "start", tmp_path)
    path = output_of(name, tmp_path, "file")
    plan, there = out("start", path, name, dry_run=True).plan, path.exists()
    account = out("start", path, name).account

    assert plan is not None
    assert account is not None
    assert not there
    assert _losses(plan.cannot_hold) == _losses(account.lost)
    assert plan.notes == account.notes


_ANY = st.lists(
    st.one_of(
        entries(), structs(Edge), structs(GraphNode), structs(SessionEvent), structs(FileVersion)
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.in_check(7)
@pytest.mark.parametrize("name", WRITABLE)
@settings(max_examples=8)
@given(drafts=_ANY)
def test_any_record_round_trips_with_the_sidecar(name: str, drafts: list[Any]) -> None:
    """The sidecar restores every record to the byte."""
    adapter = formats[name]
    part = min(adapter.info.traits.components)  # a file with nothing in it is no output
    with (
        sealed([ENTRY_CLASSES[part](text="there"), *drafts]) as records,
        TemporaryDirectory() as folder,
    ):
        path = output_of(name, Path(folder), "file")
        writing = WriteContext(keys=(KEY,), header=Header(), bank="b")
        adapter.write(records, Target(path), writing)
        keeps_ids = adapter.info.traits.keeps_ids
        items = adapter.read(Location(path), ReadContext(only_ours=writing.around))
        digest, size = file_digest(path)
        sidecar = Path(folder) / "sidecar"
        making = closing(SidecarBuilder(records, items, keeps_ids=keeps_ids))
        with making as made, sidecar.open("wb") as sink:
            made.write(sink, name, Output(digest=digest, bytes=size))
        with closing(SidecarFormat(adapter, name, sidecar, "sidecar", digest)) as restoring:
            found = read_records(restoring, Location(path), ReadContext(only_ours=writing.around))

            assert sorted(one.body for one in found) == sorted(one.body for one in records)


def test_the_matrix_detects_unlisted_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that drops a member is caught by reading back, or else by the matrix."""
    adapter, whole = type(formats["ama"]), type(formats["ama"]).write

    def dropping(self: Any, records: Any, target: Any, writing: Any) -> None:
        bare = [
            msgspec.structs.replace(one.model, id=None, nonce=None, tags=())
            for one in records
            if isinstance(one.model, Entry)
        ]
        with sealed(bare) as less:
            whole(self, less, target, writing)

    put(rich(), "start", tmp_path)
    monkeypatch.setattr(adapter, "write", dropping)
    told = [*_through("start", "ama", "honest", tmp_path)]
    assert unlisted(held("start"), held("honest"), told) == []

    monkeypatch.setattr(comparison.Differences, "into", lambda *_: None)
    told = [*_through("start", "ama", "end", tmp_path)]

    assert "tags: 3 not the same, 0 listed" in unlisted(held("start"), held("end"), told)
