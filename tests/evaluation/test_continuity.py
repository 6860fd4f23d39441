"""TCS and RHF: formulas, transfer of memory, and scores of the reader."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluation_kit import small_set

from satchel.config.settings import load_settings
from satchel.errors import InferenceError, PermissionRefusedError, UsageError
from satchel.evaluation.agents import AgentQuestion, FunctionAgent, ReaderAgent
from satchel.evaluation.carriers import Owner, dated_memories, in_full
from satchel.evaluation.continuity import (
    ProbeItem,
    Response,
    Trial,
    continuities,
    evaluate_fidelity,
    evaluate_transfer,
    likeness,
    trial,
)
from satchel.evaluation.probes import Probe, probe_set, shipped_sets
from satchel.recall.models import embedder_of

MODEL = "claude"


def answers(right: str) -> list[Response]:
    """Return answers that are right (``y``) or wrong."""
    return [Response("tea", one == "y") for one in right]


def probe_items(count: int) -> list[ProbeItem]:
    """Return probes of two categories."""
    probe = Probe(ask="a?", expect=("tea",), needs=("a",))
    return [ProbeItem("even" if at % 2 == 0 else "odd", "w", probe) for at in range(count)]


def small_trial(folder: Path, **members: object) -> Trial:
    """Return a trial of the small set."""
    return trial(sets=[probe_set(small_set(folder))], model=MODEL, **members)  # type: ignore[arg-type]


def test_tcs_is_the_ratio_of_target_to_source_successes() -> None:
    """Formula 3 of the paper, by category and overall; not capped."""
    source = answers("yyyn")
    target = answers("ynyy")
    found = {
        one.category: one
        for one in continuities(probe_items(4), source, target, answers("nnnn"), 1)
    }
    assert list(found) == ["even", "odd", "all"]
    scores = {name: one.tcs.value for name, one in found.items() if one.tcs}
    assert scores == {"even": 1.0, "odd": 1.0, "all": 1.0}
    assert found["all"].baseline_tcs is not None
    assert found["all"].baseline_tcs.value == 0
    assert (found["all"].p_source, found["even"].p_baseline) == (1.0, 0.5)


def test_a_source_without_success_has_no_tcs() -> None:
    """The ratio is undefined, which is not an error."""
    (even, odd, whole) = continuities(
        probe_items(2), answers("nn"), answers("yy"), answers("nn"), 1
    )
    assert (even.tcs, odd.tcs, whole.tcs) == (None, None, None)
    assert whole.target.count == 2


def responses(*said: str) -> list[Response]:
    """Return right answers with these texts."""
    return [Response(one, right=True) for one in said]


@pytest.mark.parametrize("with_model", [True, False], ids=["vectors", "words"])
def test_likeness_ranges_from_0_to_1(*, with_model: bool) -> None:
    """Equal answers are 1 in any script, empty ones 0; empty source answers do not count."""
    embedder = embedder_of(load_settings()) if with_model else None
    source = responses("the red van", "好 茶", "the red van", "", "the red van")
    target = responses("the red van", "好 茶", "", "anything", "a quarterly report on shipping")
    found = likeness(source, target, embedder)
    assert found[:4] == [1.0, 1.0, 0.0, None]
    assert found[4] is not None
    assert 0 <= found[4] < 0.7


def test_the_carrier_transfers_signed_memory_completely(tmp_path: Path) -> None:
    """Exported, imported elsewhere and framed, without superseded memories."""
    owner = Owner(tmp_path)
    sets = [probe_set(small_set(tmp_path))]
    owner.remember("one", dated_memories(sets))
    assert owner.carry("one", "two").read_bytes().startswith(b'{"statement"')
    with owner.framing("two") as framing:
        text = framing.everything(MODEL).text
    assert "oolong" in text
    assert "green van" in text
    assert "red van" not in text
    assert in_full(dated_memories(sets)).splitlines() == [
        "Ada drinks oolong.",
        "Bela bought a green van.",
    ]


def test_the_reader_answers_only_with_transferred_memory(tmp_path: Path) -> None:
    """On the small set: all right with memory, none without."""
    done = list[tuple[int, int]]()
    found = evaluate_transfer(load_settings(), small_trial(tmp_path), lambda *now: done.append(now))
    whole = found.scores[-1]
    assert (whole.source.count, whole.target.count, whole.baseline.count) == (2, 2, 0)
    assert (found.memories, found.sessions, found.tokenizer != "") == (3, 2, True)
    assert done[-1] == (6, 6)


def test_fidelity_falls_with_the_budget_to_0(tmp_path: Path) -> None:
    """At one percent not even the frame fits."""
    found = evaluate_fidelity(load_settings(), small_trial(tmp_path, levels=(1, 100)))
    least, most = found.levels
    assert (least.right.count, most.right.count) == (0, 2)
    assert least.rhf is not None
    assert most.rhf is not None
    assert least.rhf.value < most.rhf.value == 1.0
    assert found.left_out == 0


def test_a_measurement_is_reproducible(tmp_path: Path) -> None:
    """Random numbers are seeded, and keys and nonces have no influence."""
    settings, what = load_settings(), small_trial(tmp_path)
    assert evaluate_transfer(settings, what) == evaluate_transfer(settings, what)
    assert evaluate_fidelity(settings, what) == evaluate_fidelity(settings, what)


def test_an_agent_gets_neither_expected_answers_nor_positions(tmp_path: Path) -> None:
    """Only the question and the text a model would get; the baseline has no text."""
    seen = list[AgentQuestion]()

    def call(probe_items: AgentQuestion) -> str:
        seen.append(probe_items)
        return "no idea"

    agent = FunctionAgent("spy", call)
    evaluate_transfer(load_settings(), small_trial(tmp_path, source=ReaderAgent(), target=agent))
    assert {one.question for one in seen} == {
        "What does Ada drink?",
        "Which van did Bela buy: red, green or blue?",
    }
    assert [bool(one.memory) for one in seen] == [True, True, False, False]
    assert AgentQuestion.__struct_fields__ == ("question", "memory")


def test_a_failing_agent_ends_the_measurement(tmp_path: Path) -> None:
    """A failure is not a wrong answer."""

    def call(_asked: AgentQuestion) -> str:
        raise InferenceError("gone")

    with pytest.raises(InferenceError):
        evaluate_transfer(
            load_settings(), small_trial(tmp_path, source=FunctionAgent("gone", call))
        )


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"levels": (0,)}, {"levels": (101,)}], ids=str)
def test_an_invalid_trial_is_refused(tmp_path: Path, wrong: dict[str, Sequence[int]]) -> None:
    """Budgets are tokens, levels percentages."""
    with pytest.raises(UsageError):
        small_trial(tmp_path, **wrong)


def test_a_measurement_uses_no_bank_of_the_home(tmp_path: Path, own_home: Path) -> None:
    """Keys, banks and witness are in a temporary folder."""
    evaluate_transfer(load_settings(), small_trial(tmp_path))
    assert not own_home.exists()
    assert not (tmp_path / "satchel-witness").exists()


def test_a_token_holder_cannot_run_evaluations(tmp_path: Path) -> None:
    """Only the owner may."""
    settings = load_settings(token="{}")  # noqa: S106 - no secret
    for measure in (evaluate_transfer, evaluate_fidelity):
        with pytest.raises(PermissionRefusedError):
            measure(settings, small_trial(tmp_path))


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_reader_reaches_the_papers_scores() -> None:
    """All shipped probes: TCS, its baseline, and fidelity at a quarter of the tokens."""
    settings = load_settings()
    scores = evaluate_transfer(settings, trial(model="gpt-4o")).scores[-1]
    assert scores.tcs is not None
    assert scores.baseline_tcs is not None
    assert scores.tcs.value >= 0.83
    assert scores.baseline_tcs.value <= 0.45
    assert scores.source.rate >= 0.9
    assert scores.p_baseline < 1e-6
    levels = evaluate_fidelity(settings, trial(model="gpt-4o")).levels
    assert levels[0].share == 25
    assert all(one.rhf is not None and one.rhf.value >= 0.7 for one in levels)


def test_one_world_of_each_category_reaches_the_papers_scores() -> None:
    """The same bounds on a part that runs in seconds."""
    sets = [
        type(one)(format=one.format, category=one.category, worlds=one.worlds[:1])
        for one in shipped_sets()
    ]
    what = trial(sets=sets, model=MODEL, budget=1024, levels=(50,))
    scores = evaluate_transfer(load_settings(), what).scores[-1]
    assert scores.tcs is not None
    assert scores.baseline_tcs is not None
    assert scores.tcs.value >= 0.83
    assert scores.baseline_tcs.value <= 0.45
