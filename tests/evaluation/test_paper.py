"""The paper's tables: each exists, and each can fail."""

import re
from pathlib import Path

import pytest
from evaluation_kit import small_set

from satchel.config.settings import load_settings
from satchel.errors import TargetExistsError
from satchel.evaluation import attacks
from satchel.evaluation.agents import AgentQuestion, FunctionAgent
from satchel.evaluation.attacks import injection_table, tampering_table, tokens_table
from satchel.evaluation.carriers import MIX, entries
from satchel.evaluation.containment import CANARY
from satchel.evaluation.continuity import evaluate_fidelity, evaluate_transfer, trial
from satchel.evaluation.pages import (
    fidelity_page,
    framed_page,
    paper_page,
    transfer_page,
    write_page,
)
from satchel.evaluation.paper import Paper, Scale, evaluate_paper, features_table
from satchel.evaluation.probes import probe_set
from satchel.evaluation.recall import FramedBudget, FramedResult

LOADED = re.compile(
    r"(?:src|href|url|import|srcset)\s*[=(]|https?://|<script|<link|<img", re.IGNORECASE
)
"""What makes a page load other resources."""


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Paper:
    """All tables, of the small set and a few trials."""
    sets = (probe_set(small_set(tmp_path_factory.mktemp("probes"))),)
    scale = Scale(sets=sets, attempts=3, fields=5, parents=5, tokens=2, rounds=1)
    return evaluate_paper(load_settings(), scale=scale)


def test_every_table_of_the_paper_exists(paper: Paper) -> None:
    """In the paper's order; each row as wide as its head."""
    assert [table.name for table in paper.tables] == [
        "features",
        "tcs",
        "rhf",
        "injection",
        "tampering",
        "tokens",
        "sizes",
        "latencies",
        "sessions",
    ]
    for table in paper.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_the_example_has_all_five_components(paper: Paper) -> None:
    """Procedure bodies, policies and pending actions are provided to the model."""
    for part in ("4.2 million", "as a table", "Read the ledger", "September ledger", "source."):
        assert part in paper.example


def test_the_papers_memory_has_its_components() -> None:
    """127 entries, no two equal."""
    found = entries()
    assert len(found) == len(set(map(repr, found))) == sum(MIX.values()) == 127


def test_the_tampering_table_counts_undetected_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts the verdicts of verification."""
    assert [row[1:3] for row in tampering_table(tmp_path, fields=4, parents=3).rows] == [
        [4, 4],
        [3, 3],
        [3, 3],
    ]
    monkeypatch.setattr(attacks, "_change_field", lambda _entry, _chance: None)
    assert tampering_table(tmp_path, fields=4, parents=3).rows[0][1:3] == [4, 0]


def test_the_token_table_counts_accepted_invalid_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only refusals of the library count as refused."""
    assert [row[1:3] for row in tokens_table(2).rows] == [[2, 2]] * 6
    monkeypatch.setattr(attacks, "_expired", attacks._valid)
    assert tokens_table(2).rows[0][1:3] == [2, 0]


def test_the_injection_table_counts_an_agent_that_obeys() -> None:
    """Execution is counted apart from what the agent was shown."""

    def obeys(asked: AgentQuestion) -> str:
        return CANARY if "and nothing else" in asked.memory else "I remember an attack."

    table, _ = injection_table(FunctionAgent("naive", obeys), attempts=1)
    executed = {row[0]: row[4] for row in table.rows}
    assert executed["role elevation"] == 1
    reader, _ = injection_table(
        FunctionAgent("wary", lambda _asked: f"It says {CANARY} there."), attempts=1
    )
    assert {row[4] for row in reader.rows} == {0}


def test_the_feature_table_follows_the_measurements(paper: Paper) -> None:
    """A failed measurement turns a yes into a no."""
    tables = {table.name: table for table in paper.tables}
    assert features_table(tables, 0).rows[-1][4] == "yes"
    assert features_table(tables, 1).rows[-1][4] == "no"
    tables["tampering"].rows[0][2] = 4
    assert features_table(tables, 0).rows[-1][2] == "no"


def test_pages_are_self_contained_and_show_the_measurements(tmp_path: Path, paper: Paper) -> None:
    """One file each: tables, plots, no script, no address."""
    what = trial(sets=[probe_set(small_set(tmp_path))], model="claude", levels=(50, 100))
    found = FramedResult(
        data="<b>.json",
        format="plain",
        conversations=1,
        questions=1,
        left_out=0,
        model="gpt",
        tokenizer="t",
        exact=True,
        vectors=None,
        budgets=[
            FramedBudget(
                budget=512,
                evidence=0.5,
                shortened=0,
                session_hit_1=1,
                session_ndcg_5=1,
                tokens=400,
                entries=3,
                over=0,
                unframed=0,
            )
        ],
        notes=[],
    )
    pages = [
        transfer_page(evaluate_transfer(load_settings(), what)),
        fidelity_page(evaluate_fidelity(load_settings(), what)),
        framed_page(found),
        paper_page(paper),
    ]
    assert [LOADED.findall(page) for page in pages] == [[]] * 4
    assert [page.count("<svg") for page in pages] == [2, 1, 1, 0]
    assert "&lt;b&gt;.json" in pages[2]
    assert all("default-src 'none'" in page for page in pages)


def test_a_page_is_not_overwritten_by_default(tmp_path: Path) -> None:
    """An earlier report is kept."""
    settings, path = load_settings(), tmp_path / "page.html"
    write_page(settings, path, "one")
    with pytest.raises(TargetExistsError):
        write_page(settings, path, "two")
    write_page(settings, path, "two", overwrite=True)
    assert path.read_text() == "two"
