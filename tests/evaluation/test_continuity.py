"""TCS and RHF: the formulas, the way that memory is carried, and what the reader reaches."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from evaluating_kit import small_set

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
    """Return answers that are right (``y``) or not."""
    return [Response("tea", one == "y") for one in right]


def asked(count: int) -> list[ProbeItem]:
    """Return probes of two categories."""
    probe = Probe(ask="a?", expect=("tea",), needs=("a",))
    return [ProbeItem("even" if at % 2 == 0 else "odd", "w", probe) for at in range(count)]


def small(folder: Path, **members: object) -> Trial:
    """Return a trial of the small set."""
    return trial(sets=[probe_set(small_set(folder))], model=MODEL, **members)  # type: ignore[arg-type]


def test_tcs_is_the_targets_successes_by_the_sources() -> None:
    """Formula 3 of the paper, by category and over all; not capped."""
    source = answers("yyyn")
    target = answers("ynyy")
    found = {
        one.category: one for one in continuities(asked(4), source, target, answers("nnnn"), 1)
    }
    assert list(found) == ["even", "odd", "all"]
    scores = {name: one.tcs.value for name, one in found.items() if one.tcs}
    assert scores == {"even": 1.0, "odd": 1.0, "all": 1.0}
    assert found["all"].baseline_tcs is not None
    assert found["all"].baseline_tcs.value == 0
    assert (found["all"].p_source, found["even"].p_baseline) == (1.0, 0.5)


def test_a_source_without_success_has_no_tcs() -> None:
    """A ratio to nothing is none, and no error either."""
    (even, odd, whole) = continuities(asked(2), answers("nn"), answers("yy"), answers("nn"), 1)
    assert (even.tcs, odd.tcs, whole.tcs) == (None, None, None)
    assert whole.target.count == 2


def texts(*said: str) -> list[Response]:
    """Return answers of some words."""
    return [Response(one, right=True) for one in said]


@pytest.mark.parametrize("with_model", [True, False], ids=["vectors", "words"])
def test_answers_are_alike_from_nothing_to_the_same(*, with_model: bool) -> None:
    """The same is 1 in any script; nothing is 0; what the source leaves open does not count."""
    embedder = embedder_of(load_settings()) if with_model else None
    source = texts("the red van", "好 茶", "the red van", "", "the red van")
    target = texts("the red van", "好 茶", "", "anything", "a quarterly report on shipping")
    found = likeness(source, target, embedder)
    assert found[:4] == [1.0, 1.0, 0.0, None]
    assert found[4] is not None
    assert 0 <= found[4] < 0.7


def test_memory_is_carried_signed_and_arrives_whole(tmp_path: Path) -> None:
    """Exported, imported elsewhere, framed there: with what was replaced left behind."""
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


def test_the_reader_answers_with_transferred_memory_and_not_without(tmp_path: Path) -> None:
    """On the small set: all right with memory, nothing without."""
    done = list[tuple[int, int]]()
    found = evaluate_transfer(load_settings(), small(tmp_path), lambda *now: done.append(now))
    whole = found.scores[-1]
    assert (whole.source.count, whole.target.count, whole.baseline.count) == (2, 2, 0)
    assert (found.memories, found.sessions, found.tokenizer != "") == (3, 2, True)
    assert done[-1] == (6, 6)


def test_fidelity_falls_with_the_budget_and_not_below_nothing(tmp_path: Path) -> None:
    """At a percent not even the frame fits, so the target knows nothing."""
    found = evaluate_fidelity(load_settings(), small(tmp_path, levels=(1, 100)))
    least, most = found.levels
    assert (least.right.count, most.right.count) == (0, 2)
    assert least.rhf is not None
    assert most.rhf is not None
    assert least.rhf.value < most.rhf.value == 1.0
    assert found.left_out == 0


def test_a_measurement_is_the_same_again(tmp_path: Path) -> None:
    """Nothing draws without a seed, and nothing depends on keys or nonces."""
    settings, what = load_settings(), small(tmp_path)
    assert evaluate_transfer(settings, what) == evaluate_transfer(settings, what)
    assert evaluate_fidelity(settings, what) == evaluate_fidelity(settings, what)


def test_an_agent_sees_neither_what_is_expected_nor_where_it_stands(tmp_path: Path) -> None:
    """It has the question, and the text that a model would have; the baseline has no text."""
    seen = list[AgentQuestion]()

    def call(asked: AgentQuestion) -> str:
        seen.append(asked)
        return "no idea"

    agent = FunctionAgent("spy", call)
    evaluate_transfer(load_settings(), small(tmp_path, source=ReaderAgent(), target=agent))
    assert {one.question for one in seen} == {
        "What does Ada drink?",
        "Which van did Bela buy: red, green or blue?",
    }
    assert [bool(one.memory) for one in seen] == [True, True, False, False]
    assert AgentQuestion.__struct_fields__ == ("question", "memory")


def test_an_agent_that_fails_ends_the_measurement(tmp_path: Path) -> None:
    """A failure is not a wrong answer."""

    def call(_asked: AgentQuestion) -> str:
        raise InferenceError("gone")

    with pytest.raises(InferenceError):
        evaluate_transfer(load_settings(), small(tmp_path, source=FunctionAgent("gone", call)))


@pytest.mark.parametrize("wrong", [{"budget": 0}, {"levels": (0,)}, {"levels": (101,)}], ids=str)
def test_a_trial_that_cannot_be_meant_is_refused(
    tmp_path: Path, wrong: dict[str, Sequence[int]]
) -> None:
    """Budgets are tokens and percents."""
    with pytest.raises(UsageError):
        small(tmp_path, **wrong)


def test_a_measurement_touches_no_bank(tmp_path: Path, own_home: Path) -> None:
    """Keys, banks and what was seen of them are in a folder of its own, which goes again."""
    evaluate_transfer(load_settings(), small(tmp_path))
    assert not own_home.exists()
    assert not (tmp_path / "satchel-witness").exists()


def test_a_holder_measures_nothing(tmp_path: Path) -> None:
    """It is the owner's."""
    settings = load_settings(token="{}")  # noqa: S106 - no secret
    for measure in (evaluate_transfer, evaluate_fidelity):
        with pytest.raises(PermissionRefusedError):
            measure(settings, small(tmp_path))


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_the_reader_reaches_the_papers_scores() -> None:
    """All probes that come along: TCS, its baseline, and fidelity at a quarter of the tokens."""
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
    """The same bounds on a part that is asked in seconds."""
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
