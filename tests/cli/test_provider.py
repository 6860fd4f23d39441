"""Export, import and migrate with a product as the provider: a local Mem0."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel import Satchel, aio
from satchel.errors import UnknownBankError

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_memories_are_migrated_to_a_product_and_back(satchel: Run, tmp_path: Path) -> None:
    """Two users, each a bank; a second run adds nothing."""
    first, live, back = (tmp_path / name for name in ("first.toml", "live.yaml", "back.toml"))
    first.write_text(f'store.address = "{tmp_path / "first.db"}"')
    live.write_text(
        f"provider: mem0\nprovider_tier: engine\nprovider_config: {{path: {tmp_path / 'm'}}}"
    )
    back.write_text(f'store.address = "{tmp_path / "back.db"}"')
    for user in ("ada", "bob"):
        assert satchel("--config", first, "bank", "create", user).status == 0
        for number in range(3):
            words = ["remember", f"fact {number} of {user}", "--bank", user, "--user", user]
            assert satchel("--config", first, *words).status == 0

    there = satchel("migrate", "--from-config", first, "--to-config", live, "--no-switch", "--json")
    assert (there.status, [one["verified"] for one in there.json["banks"]]) == (0, [True, True])
    for carried in (6, 0):
        ran = satchel(
            "migrate", "--from-config", live, "--to-config", back, "--no-switch", "--json"
        )
        assert (ran.status, sum(one.get("carried", 0) for one in ran.json["banks"])) == (0, carried)
    listed = satchel("--config", back, "list", "--bank", "ada", "--json").json["memories"]
    assert sorted(one["text"] for one in listed) == [f"fact {number} of ada" for number in range(3)]

    out = tmp_path / "out.json"
    words = ["export", "--bank", "ada", "--to", "mem0", "--output", str(out)]
    assert satchel("--config", live, *words).status == 0
    assert len(json.loads(out.read_bytes())["results"]) == 3
    file = tmp_path / "more.json"
    file.write_text(json.dumps([{"id": "x", "memory": "likes cola", "user_id": "cy"}]))
    assert satchel("--config", live, "import", file).status in (0, 1)
    ran = satchel("migrate", "--from-config", live, "--to-config", back, "--no-switch", "--json")
    assert [one["name"] for one in ran.json["banks"] if one.get("carried")] == ["cy"]


class Provider:
    """A store with one bank, and a configuration whose provider is a local Mem0."""

    def __init__(self, folder: Path) -> None:
        self.store, self.live = folder / "store.toml", folder / "live.toml"
        self.product = folder / "m"
        self.store.write_text(f'store.address = "{folder / "store.db"}"')
        config = f'provider_config = {{path = "{self.product}"}}'
        self.live.write_text(f'provider = "mem0"\nprovider_tier = "engine"\n{config}')


@pytest.fixture
def provider(satchel: Run, tmp_path: Path) -> Provider:
    """Two memories of Ada, one with a tag, which Mem0 cannot store."""
    found = Provider(tmp_path)
    words = ["--config", found.store, "remember", "--user", "ada", "--bank", "ada"]
    assert satchel("--config", found.store, "bank", "create", "ada").status == 0
    assert satchel(*words, "likes tea", "--tag", "x").status == 0
    assert satchel(*words, "lives in Lisbon").status == 0
    return found


def mem0_file(folder: Path, **more: object) -> Path:
    """Write a Mem0 file with one memory of the user cy."""
    path = folder / "cy.json"
    path.write_text(json.dumps([{"id": "7", "memory": "likes cola", "user_id": "cy", **more}]))
    return path


def receipts(satchel: Run) -> list[tuple[str, str, str]]:
    """Return kind, input and output of the receipts on this machine, newest first."""
    found = satchel("receipt", "list", "--json").json["receipts"]
    lines = found if isinstance(found, list) else found["receipts"]
    return [(one["kind"], one["input"], one["output"]) for one in lines]


def test_migrate_does_not_switch_on_loss_unless_accepted(
    satchel: Run, provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 1, and a receipt that names the field."""
    active = tmp_path / "satchel.toml"
    active.write_bytes(provider.store.read_bytes())
    monkeypatch.setenv("SATCHEL_CONFIG", str(active))
    words = ["migrate", "--from-config", provider.store, "--to-config", provider.live]

    lost = satchel(*words, "--json")
    assert lost.status == 1
    assert active.read_bytes() == provider.store.read_bytes()
    (bank,) = lost.json["banks"]
    account = bank["account"]
    assert (account["kind"], account["read_back"]) == ("migrate", "differs")
    assert [one["field"] for one in account["lost"]] == ["tags"]
    assert account["counts"]["semantic"] == {
        "read": 2,
        "planned": 2,
        "written": 2,
        "read_back": 2,
    }
    assert account["input"]["store"].endswith("store.db")
    assert account["input"]["root"].startswith("blake3:")

    done = satchel(*words, "--accept-loss", "tags", "--json")
    assert done.status == 0
    assert active.read_bytes() == provider.live.read_bytes()
    (bank,) = done.json["banks"]
    assert bank["account"]["lost"][0]["accepted"] is True
    shown = satchel("receipt", "show", bank["receipt"], "--json").json
    receipt = shown[0] if isinstance(shown, list) else shown
    assert receipt["outcome"] == "good"
    assert [one[0] for one in receipts(satchel)] == ["migrate", "migrate"]


def test_migrate_from_a_product_writes_a_receipt_with_the_new_head(
    satchel: Run, provider: Provider, tmp_path: Path
) -> None:
    """One for each bank, with the product's address."""
    assert satchel("--config", provider.live, "import", mem0_file(tmp_path)).status == 0
    words = [
        "migrate",
        "--from-config",
        provider.live,
        "--to-config",
        provider.store,
        "--no-switch",
    ]

    (bank,) = satchel(*words, "--json").json["banks"]

    assert bank["verified"]
    account = bank["account"]
    assert (account["kind"], account["input"]["name"]) == (
        "migrate",
        str(Path(f"mem0:///{provider.product}")),
    )
    assert account["output"]["name"] == "cy"
    assert account["output"]["size"] > 0
    assert account["counts"]["semantic"]["read_back"] == 1
    assert receipts(satchel)[0][0] == "migrate"
    page = satchel("receipt", "show", bank["receipt"]).out
    assert "RECEIPT OF A MIGRATION" in page
    assert account["output"]["root"] in page


def test_import_into_a_product_writes_one_receipt(
    satchel: Run, provider: Provider, tmp_path: Path
) -> None:
    """It names file and product, not the temporary store; the loss is named once."""
    file, copy = mem0_file(tmp_path, categories=["x"]), tmp_path / "r.json"

    plan = satchel("--config", provider.live, "import", file, "--dry-run", "--json").json["plan"]
    assert [one["field"] for one in plan["cannot_hold"]] == ["tags"]
    assert (plan["kind"], plan["read"], plan["targets"][0]["created"]) == (
        "import",
        {"semantic": 1},
        1,
    )
    assert not provider.product.exists()
    ran = satchel("--config", provider.live, "import", file, "--receipt", copy, "--json")

    assert ran.status == 1
    (account,) = ran.json["accounts"]
    assert account["counts"] == {
        "semantic": {"read": 1, "planned": 1, "written": 1, "read_back": 1}
    }
    assert [(one["field"], one["count"]) for one in account["lost"]] == [("tags", 1)]
    assert account["input"]["digest"].startswith("blake3:")
    assert receipts(satchel) == [("import", str(file), str(Path(f"mem0:///{provider.product}")))]
    assert len(copy.read_bytes().splitlines()) == 1
    again = satchel("--config", provider.live, "import", file, "--accept-loss", "tags", "--json")
    assert again.status == 0
    assert again.json["accounts"][0]["done"] == {"written": 0, "known": 1}


def test_export_from_a_product_writes_one_receipt(
    satchel: Run, provider: Provider, tmp_path: Path
) -> None:
    """With the user, and the digest of the file."""
    assert satchel("--config", provider.live, "import", mem0_file(tmp_path)).status == 0
    out, copy = tmp_path / "out.json", tmp_path / "r.json"
    words = ["export", "--bank", "cy", "--to", "mem0", "--output", out]

    dry = satchel("--config", provider.live, *words, "--dry-run", "--json").json
    assert dry["plan"]["input"]["name"].endswith(" of cy")
    ran = satchel("--config", provider.live, *words, "--receipt", copy, "--json")

    assert (ran.status, len(receipts(satchel))) == (0, 2)
    kind, source, target = receipts(satchel)[0]
    assert (kind, source, target) == (
        "export",
        str(Path(f"mem0:///{provider.product}")) + " of cy",
        str(out),
    )
    account = ran.json["account"]
    assert account["output"]["digest"] == ran.json["output_digest"]
    assert account["counts"]["semantic"]["read_back"] == 1
    assert len(copy.read_bytes().splitlines()) == 1


@pytest.mark.usefixtures("provider")
def test_migrate_between_stores_writes_a_receipt_for_each_bank(
    satchel: Run, tmp_path: Path
) -> None:
    """Both stores, head, root, and each type; a second one is marked unchanged."""
    there = f"sqlite:///{tmp_path / 'new.db'}"
    words = ["migrate", tmp_path / "store.db", there]

    assert satchel(*words, "--dry-run", "--json").json["banks"][0].get("receipt") is None
    ran = satchel(*words, "--json")
    (bank,) = ran.json["banks"]

    account = bank["account"]
    assert account["input"]["store"].endswith("store.db")
    assert account["output"]["store"] == there
    assert account["input"]["root"] == account["output"]["root"] == bank["root"]
    assert account["read_back"] == "equal"
    assert {name: one["read_back"] for name, one in account["counts"].items()} == bank["read_back"]
    assert account["done"]["carried"] == bank["size"]
    assert satchel("receipt", "verify", bank["receipt"]).status == 0
    (again,) = satchel(*words, "--json").json["banks"]
    assert again["account"]["unchanged"]
    assert "satchel receipt show" in satchel(*words).err
    assert len(receipts(satchel)) == 3


@pytest.mark.usefixtures("provider")
def test_a_failed_bank_has_a_receipt_with_the_reason(satchel: Run, tmp_path: Path) -> None:
    """Marked as incomplete."""
    there = tmp_path / "new.db"
    words = ["migrate", tmp_path / "store.db", there, "--json"]
    assert satchel(*words).status == 0
    assert satchel("--store", there, "remember", "more", "--bank", "ada").status == 0

    ran = satchel(*words)

    (bank,) = ran.json["banks"]
    assert (ran.status != 0, bank["account"]["lost"][0]["field"]) == (True, "record")
    assert "INCOMPLETE: " in satchel("receipt", "show", bank["receipt"]).out


def test_python_uses_the_provider_as_the_command_does(provider: Provider, tmp_path: Path) -> None:
    """Whole banks by the name of the user; the store stays unchanged."""
    out = tmp_path / "out.json"
    with Satchel.open(tmp_path / "other.db", config=provider.live) as store:
        done = store.import_bank("cy", mem0_file(tmp_path), allow_uncontained=True)
        assert done.accounts[0].output.format == "mem0-local"
        assert store.list_banks() == []
        exported = store.export_bank("cy", out, to="mem0", allow_uncontained=True)
        assert exported.account is not None
        assert exported.account.input.name.endswith(" of cy")
        with pytest.raises(UnknownBankError):
            store.export_bank("nobody", tmp_path / "n.json", to="mem0", allow_uncontained=True)
        bank = store.create_bank("cy")
        bank.import_(mem0_file(tmp_path, run_id="r"))
        assert bank.list().memories == []
        bank.export(tmp_path / "b.json", to="mem0")
    for path in (out, tmp_path / "b.json"):
        assert [one["memory"] for one in json.loads(path.read_bytes())["results"]] == ["likes cola"]


@pytest.mark.usefixtures("provider")
def test_migrate_can_be_awaited(tmp_path: Path) -> None:
    """The same result, with receipts."""
    there = f"sqlite:///{tmp_path / 'new.db'}"
    calling = aio.migrate(from_store=str(tmp_path / "store.db"), to_store=there)

    found = asyncio.run(calling)

    assert [(one.name, one.verified, one.receipt is not None) for one in found.banks] == [
        ("ada", True, True)
    ]


def test_import_into_a_product_applies_on_conflict(
    provider: Provider, satchel: Run, tmp_path: Path
) -> None:
    """Skipped by default, or overwritten; an unsupported policy is refused."""
    name = "5f0c1d2e-0000-4000-8000-000000000001"

    def file(text: str) -> Path:
        path = tmp_path / f"{len(text)}.json"
        path.write_text(json.dumps([{"id": name, "memory": text, "user_id": "ada"}]))
        return path

    def there() -> list[str]:
        out = tmp_path / "out.json"
        words = ["export", "--bank", "ada", "--to", "mem0", "--output", str(out), "--overwrite"]
        satchel("--config", provider.live, *words)
        return [one["memory"] for one in json.loads(out.read_bytes())["results"]]

    assert satchel("--config", provider.live, "import", file("likes tea")).status == 0
    skipped = satchel("--config", provider.live, "import", file("likes coffee"))
    assert (skipped.status, there()) == (1, ["likes tea"])
    words = ["import", str(file("likes coffee")), "--on-conflict"]
    assert satchel("--config", provider.live, *words, "rename").status == 2
    assert satchel("--config", provider.live, *words, "overwrite").status == 0
    assert there() == ["likes coffee"]
