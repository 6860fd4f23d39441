"""The rules of the specification have unique IDs, and references to them resolve."""

import re
from pathlib import Path

_SPEC = Path(__file__).parent.parent.parent / "docs" / "spec"
_TEXTS = {path.name: path.read_text("utf-8") for path in sorted(_SPEC.glob("*.md"))}


def test_each_id_belongs_to_one_rule_in_the_file_of_its_number() -> None:
    """As the specification promises: an ID is never reused."""
    given = [
        (rule, name)
        for name, text in _TEXTS.items()
        for rule in re.findall(r"\*\*SEAL-(\d+\.\d+)\*\*", text)
    ]
    rules = [rule for rule, _ in given]
    assert sorted({rule for rule in rules if rules.count(rule) > 1}) == []
    wrong = [
        rule
        for rule, name in given
        if rule.split(".")[0] != ("0" if name == "README.md" else name.split("-")[0])
    ]
    assert wrong == []


def test_every_referenced_rule_exists() -> None:
    """In the specification, and in the code and its tests."""
    rules = set(re.findall(r"\*\*SEAL-(\d+\.\d+)\*\*", "".join(_TEXTS.values())))
    root = _SPEC.parent.parent
    files = [*root.glob("src/**/*.py"), *root.glob("docs/**/*.md")]
    named = {
        rule for path in files for rule in re.findall(r"SEAL-(\d+\.\d+)", path.read_text("utf-8"))
    }
    assert sorted(named - rules) == []


def test_the_specification_announces_no_existing_feature() -> None:
    """Stores, tokens and encryption exist."""
    stale = re.compile(
        r"not yet implemented in|tokens are not yet|comes? (?:in|with) (?:a )?later version"
    )
    assert [name for name, text in _TEXTS.items() if stale.search(text)] == []
