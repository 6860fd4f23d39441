"""``satchel bank config``: settings of a bank are shown, changed, exported and applied."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from ledger_kit import OWNER, WRITER

from satchel import aio
from satchel.admin.settings import apply_config, show_config, write_config
from satchel.api.store import Satchel
from satchel.bank.open_bank import CONFIG_MARK, OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical
from satchel.errors import MalformedError, PathRefusedError
from satchel.ledger.ledger import Ledger
from satchel.stores.memory import InMemoryStore

if TYPE_CHECKING:
    from tests.cli.conftest import Run

SCHEMA = Path(__file__).parent.parent.parent / "schemas" / "bank_config.json"
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"  # noqa: S105 - of nobody

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
profiles = st.fixed_dictionaries(
    {},
    optional={
        "description": texts,
        "scrub_secrets": st.booleans(),
        "on_conflict": st.sampled_from(["skip", "overwrite", "rename", "error"]),
        "recall_limit": st.integers(1, 1000),
        "recall_trust": st.sampled_from(["user", "imported"]),
        "metadata": st.dictionaries(texts, values, min_size=1, max_size=3),
    },
)
unknown = st.dictionaries(texts.map("x_{}".format), values, max_size=2)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a document with unknown members at every level."""
    name = draw(texts)
    own = {**draw(profiles), **draw(unknown), "profile": name}
    profile = {"name": name, "settings": {**draw(profiles), **draw(unknown)}, **draw(unknown)}
    return {**draw(unknown), CONFIG_MARK: 1, "settings": own, "profile": profile}


def new_bank() -> OpenBank:
    """Return a bank in memory."""
    store = InMemoryStore()
    ledger = Ledger.create(store, owner=OWNER, writer=WRITER)
    return OpenBank(settings=load_settings(environment={}), store=store, ledger=ledger, name="ada")


@given(document=documents())
@settings(max_examples=25)
def test_a_bank_configuration_round_trips_byte_for_byte(document: dict[str, Any]) -> None:
    """With members of later versions at every level; the schema accepts it."""
    with TemporaryDirectory() as folder:
        path, again = Path(folder) / "in.json", Path(folder) / "out.json"
        path.write_bytes(canonical(document) + b"\n")
        bank = new_bank()

        assert apply_config(bank, path).is_changed
        assert not apply_config(bank, path).is_changed
        write_config(bank, again)

        assert again.read_bytes() == path.read_bytes()
        Draft202012Validator(json.loads(SCHEMA.read_bytes())).validate(document)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        f'{{"{CONFIG_MARK}": 2}}',
        f'{{"{CONFIG_MARK}": "1"}}',
        f'{{"{CONFIG_MARK}": 1, "settings": []}}',
        f'{{"{CONFIG_MARK}": 1, "settings": {{"recall_limit": 0}}}}',
        f'{{"{CONFIG_MARK}": 1, "settings": {{"recall_limit": "ten"}}}}',
        f'{{"{CONFIG_MARK}": 1, "profile": {{}}}}',
        f'{{"{CONFIG_MARK}": 1, "profile": {{"name": "x", "settings": {{"on_conflict": "no"}}}}}}',
        f'{{"{CONFIG_MARK}": 1, "{CONFIG_MARK}": 1}}',
        '{"a":' * 50_000,
        f'{{"{CONFIG_MARK}": 1}} x',
    ],
)
def test_an_invalid_bank_configuration_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the file, and nothing changes."""
    path = tmp_path / "a.json"
    path.write_text(text)
    bank = new_bank()
    with bank.ledger.reading() as view:
        before = view.head.size

    with pytest.raises(MalformedError) as caught:
        apply_config(bank, path)

    assert caught.value.file == str(path)
    with bank.ledger.reading() as view:
        assert view.head.size == before


def test_bank_settings_are_set_shown_and_removed(satchel: Run) -> None:
    """With the origin of each; an unknown setting gets a suggestion."""
    satchel("init")
    ran = satchel("bank", "config", "set", "default", "recall_limit=3", "description=mine")
    assert (ran.status, "recall_limit  3  (bank)" in ran.out) == (0, True)
    satchel("bank", "config", "set", "default", "description=")
    shown = satchel("bank", "config", "show", "default", "--json").json
    assert (shown["settings"], shown["origins"]) == ({"recall_limit": 3}, {"recall_limit": "bank"})
    ran = satchel("bank", "config", "set", "default", "recal_limit=3", "--json")
    assert (ran.status, ran.error["hint"]) == (2, "Did you mean recall_limit?")
    assert satchel("bank", "config", "set", "default", "recall_limit=many").status == 2
    assert satchel("bank", "config", "set", "default", "nothing").status == 2


def test_the_configuration_file_overrides_the_bank_and_the_bank_its_profile(
    satchel: Run, tmp_path: Path
) -> None:
    """The operator of a machine has precedence."""
    satchel("init")
    satchel("bank", "config", "set", "default", "recall_limit=3", "on_conflict=rename")
    config = tmp_path / "satchel.toml"
    config.write_text(
        "[banks.default]\nrecall_limit = 2\nprofile = 'p'\n"
        "[profiles.p]\nrecall_limit = 9\nrecall_budget = 50\non_conflict = 'error'"
    )

    shown = satchel("--config", config, "bank", "config", "show", "default", "--json").json

    wanted = {"recall_limit": 2, "on_conflict": "rename", "recall_budget": 50, "profile": "p"}
    assert shown["settings"] == wanted
    assert shown["origins"]["recall_budget"] == "profile p"


def test_commands_apply_bank_settings(satchel: Run, tmp_path: Path) -> None:
    """To recall, scrubbing, import and export; an option has precedence."""
    satchel("init")
    for number in range(4):
        satchel("remember", f"tea number {number}")
    row = {"id": "1", "memory": "one", "user_id": "u"}
    file, out = tmp_path / "mem0.json", tmp_path / "out.json"
    file.write_text(json.dumps([row]))
    satchel("import", file, "--bank", "default")
    satchel(
        *("bank", "config", "set", "default"),
        *("recall_limit=2", "scrub_secrets=true", "on_conflict=overwrite"),
    )

    assert len(satchel("recall", "tea", "--json").json["memories"]) == 2
    assert len(satchel("recall", "tea", "--limit", "3", "--json").json["memories"]) == 3
    satchel("remember", f"the key is {SECRET}")
    file.write_text(json.dumps([{**row, "memory": f"two {SECRET}"}]))
    ran = satchel("import", file, "--bank", "default", "--json")
    assert ran.json["banks"][0]["done"]["overwritten"] == 1
    assert SECRET not in satchel("list", "--json").out
    file.write_text(json.dumps([{**row, "memory": "three"}]))
    kept = satchel("import", file, "--bank", "default", "--on-conflict", "skip", "--json")
    assert kept.json["banks"][0]["done"]["skipped"] == 1
    assert satchel("export", "--to", "mem0", "--output", out).status in (0, 1)
    assert SECRET not in out.read_text()


def test_a_copy_of_a_bank_includes_its_settings(satchel: Run, tmp_path: Path) -> None:
    """They are in its log."""
    satchel("init")
    satchel("bank", "config", "set", "default", "recall_limit=3")
    other = tmp_path / "other.db"
    assert satchel("push", other).status == 0
    shown = satchel("--store", other, "bank", "config", "show", "default", "--json").json
    assert shown["settings"] == {"recall_limit": 3}


def test_python_imports_and_exports_bank_configuration(tmp_path: Path) -> None:
    """Any path without roots; a path outside the roots is refused."""
    path = tmp_path / "a.json"
    path.write_bytes(canonical({CONFIG_MARK: 1, "settings": {"recall_limit": 4}}))
    with Satchel.open(tmp_path / "a.db") as satchel:
        bank = satchel.bank()
        done = satchel.import_bank_config(bank.id, path)
        assert done.settings == {"recall_limit": 4}
    with (
        Satchel.open(tmp_path / "a.db", roots=[tmp_path / "allowed"]) as satchel,
        pytest.raises(PathRefusedError),
    ):
        satchel.import_bank_config(bank.id, path)

    async def export() -> None:
        async with aio.Satchel.open(tmp_path / "a.db") as opened:
            await opened.export_bank_config("default", tmp_path / "b.json")

    asyncio.run(export())
    assert (tmp_path / "b.json").read_bytes() == path.read_bytes() + b"\n"


def test_settings_of_later_versions_are_ignored_and_preserved(tmp_path: Path) -> None:
    """An unknown document does not make the bank unusable."""
    bank = new_bank()
    later = {CONFIG_MARK: 1, "settings": {"recall_limit": 5, "x_new": [1]}}
    (tmp_path / "a.json").write_bytes(canonical(later))
    apply_config(bank, tmp_path / "a.json")
    shown = show_config(bank)
    assert (shown.settings, shown.document) == ({"recall_limit": 5}, later)
