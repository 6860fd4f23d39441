"""Files and banks: convert, inspect, verify, formats, export, diff, pull and push."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from escapes_kit import NASTY, RAW
from ledger_kit import memories
from secrets_kit import Maker, card
from transfer_kit import append, import_into, new_bank

from satchel.crypto.sealed_records import seal
from satchel.model.records import Episodic, Semantic

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_a_seal_is_preserved_by_every_encoding(
    satchel: Run, sealed: Path, mem0: Path, tmp_path: Path
) -> None:
    """The same statement and signature, and finally the same Mem0 records."""
    first = satchel("verify", sealed, "--deep", "--json").json
    path = sealed
    for name in ("a.pam", "a.pam.cbor", "a.pam.jsonl.gz", "a.pam.gz"):
        ran = satchel("convert", path, tmp_path / name, "--json")
        assert (ran.status, ran.json["same_seal"], ran.json["read_back"]) == (0, True, "good")
        path = tmp_path / name
        found = satchel("verify", path, "--deep", "--json").json
        assert found["statement_digest"] == first["statement_digest"]
        assert found["signers"] == first["signers"]
    back = tmp_path / "back.mem0.json"
    assert satchel("convert", path, back).status == 0
    assert [row["memory"] for row in json.loads(back.read_text())] == [
        row["memory"] for row in json.loads(mem0.read_text())
    ]


def test_convert_does_not_overwrite_by_default(satchel: Run, mem0: Path, sealed: Path) -> None:
    """Exit status 5 with a hint; ``--overwrite`` replaces it."""
    before = sealed.read_bytes()
    ran = satchel("convert", mem0, sealed)
    assert ran.status == 5
    assert "--overwrite" in ran.err
    assert sealed.read_bytes() == before
    assert satchel("convert", mem0, sealed, "--overwrite").status == 0
    assert sealed.read_bytes() != before


def test_a_file_is_not_converted_onto_itself(satchel: Run, mem0: Path, tmp_path: Path) -> None:
    """Not under its own name, a link, or a hard link."""
    link, hard = tmp_path / "link.pam", tmp_path / "hard.pam"
    link.symlink_to(mem0)
    hard.hardlink_to(mem0)
    before = mem0.read_bytes()
    for target in (mem0, link, hard):
        assert satchel("convert", mem0, target, "--to", "pam", "--overwrite").status == 2
    assert mem0.read_bytes() == before


@pytest.fixture
def rich_file(tmp_path: Path) -> Path:
    """A sealed file with fields that Mem0 cannot store, signed by the default key."""
    from satchel.artifact.encodings import (
        ArtifactBuilder,
        Encoding,
        Header,
        sign_statement,
        write_artifact,
    )
    from satchel.bank.machine_keys import signing_key
    from satchel.config.settings import load_settings
    from satchel.crypto.sealed_records import seal
    from satchel.model.records import Episodic, Semantic

    path = tmp_path / "richer.pam"
    key, _ = signing_key(load_settings())
    with ArtifactBuilder() as builder:
        first = seal(Episodic(text="asked for tea"))
        builder.add(first)
        builder.add(seal(Semantic(text="likes tea", parent_ids=(first.id,), salience=0.5)))
        body, totals = builder.finish()
        statement = Header().statement(totals)
        with path.open("wb") as sink:
            write_artifact(sink, Encoding.JSON, body, statement, sign_statement(statement, [key]))
    return path


def test_convert_reports_loss_with_exit_status_1(
    satchel: Run, rich_file: Path, tmp_path: Path
) -> None:
    """Each kind of loss with its reason."""
    ran = satchel("convert", rich_file, tmp_path / "out.mem0.json", "--json")
    assert ran.status == 1
    names = {loss["name"] for loss in ran.json["losses"]}
    assert names >= {"episodic", "parent_ids", "salience"}
    plain = satchel("convert", rich_file, tmp_path / "out2.mem0.json")
    assert plain.status == 1
    assert "salience" in plain.err


def test_fail_on_loss_writes_nothing(satchel: Run, rich_file: Path, tmp_path: Path) -> None:
    """The error names the loss."""
    target = tmp_path / "out.mem0.json"
    ran = satchel("convert", rich_file, target, "--fail-on-loss", "--json")
    assert (ran.status, ran.error["code"]) == (1, "transfer.loss")
    assert "salience" in ran.error["message"]
    assert {path.name for path in tmp_path.iterdir()} <= {
        "richer.pam",
        "satchel-home",
        "satchel-witness",
    }


def test_attack_a_link_is_planted_for_a_trial_conversion(
    satchel: Run, rich_file: Path, tmp_path: Path
) -> None:
    """A file or a link exists where a trial output would be written."""
    target, victim = tmp_path / "out.mem0.json", tmp_path / "victim"
    victim.write_text("precious")
    trap = tmp_path / f".{target.name}.trial"
    trap.symlink_to(victim)
    satchel("convert", rich_file, target, "--fail-on-loss")
    assert victim.read_text() == "precious"
    assert trap.is_symlink()


def test_an_unsigned_input_requires_unsafe_accept(satchel: Run, mem0: Path, tmp_path: Path) -> None:
    """An unsealed input does not."""
    loose = tmp_path / "loose.pam"
    assert satchel("convert", mem0, loose, "--unsigned").status == 0
    assert satchel("verify", loose).status == 3
    out = tmp_path / "out.mem0.json"
    refused = satchel("convert", loose, out)
    assert (refused.status, out.exists()) == (3, False)
    assert "--unsafe-accept unsigned" in refused.err
    assert satchel("convert", loose, out, "--unsafe-accept", "untrusted").status == 3
    assert satchel("convert", loose, out, "--unsafe-accept", "unsigned").status == 0


@pytest.mark.parametrize("flag", ["unsigned", "untrusted", "entries-only", "incomplete"])
def test_a_tampered_input_is_refused_with_any_flag(
    satchel: Run, sealed: Path, tmp_path: Path, flag: str
) -> None:
    """For every output format."""
    sealed.write_bytes(sealed.read_bytes().replace(b"likes tea", b"hates tea"))
    assert satchel("verify", sealed).status == 3
    for name in ("out.mem0.json", "out.pam.cbor"):
        ran = satchel("convert", sealed, tmp_path / name, "--unsafe-accept", flag)
        assert (ran.status, (tmp_path / name).exists()) == (3, False)


def test_a_malformed_artifact_is_exit_status_4(satchel: Run, sealed: Path, tmp_path: Path) -> None:
    """In verify, inspect and convert."""
    sealed.write_bytes(sealed.read_bytes()[:-5])
    assert satchel("verify", sealed).status == 4
    assert satchel("inspect", sealed).status == 4
    ran = satchel("convert", sealed, tmp_path / "out.pam")
    assert (ran.status, (tmp_path / "out.pam").exists()) == (4, False)


def test_verify_prints_the_derivation_chain_of_an_entry(satchel: Run, rich_file: Path) -> None:
    """By ID or prefix; an unknown one is a usage error."""
    rows = json.loads(rich_file.read_text())["components"]
    child, root = rows["semantic"][0]["id"], rows["episodic"][0]["id"]
    for wanted in (child, child[:16], child.removeprefix("blake3:")[:8]):
        ran = satchel("verify", rich_file, "--entry", wanted, "--json")
        assert ran.status == 0
        assert [link["id"] for link in ran.json["chain"]] == [child, root]
    assert root in satchel("verify", rich_file, "--entry", child).out
    unknown = satchel("verify", rich_file, "--entry", "blake3:" + "0" * 64)
    assert unknown.status == 2
    for odd in ("%", "", "blake3:", "' OR 1=1 --", "_" * 8):
        assert satchel("verify", rich_file, "--entry", odd).status in (0, 2)


def test_inspect_counts_records_and_changes_nothing(satchel: Run, mem0: Path) -> None:
    """By type."""
    before = mem0.read_bytes()
    assert satchel("inspect", mem0, "--json").json["records"] == {"semantic": 2}
    assert "2" in satchel("inspect", mem0).out
    assert mem0.read_bytes() == before


def test_inspect_counts_secrets_without_printing_them(satchel: Run, tmp_path: Path) -> None:
    """By kind."""
    token, other = (Maker(seed).make("github-token")[1] for seed in (1, 2))
    path = tmp_path / "mem0.json"
    rows = [
        {"id": "1", "memory": f"the key is {token}", "metadata": {"note": other}},
        {"id": "2", "memory": "likes tea"},
        {"id": "3", "memory": f"pays with {card()}"},
    ]
    path.write_text(json.dumps(rows))

    ran = satchel("inspect", path)
    found = satchel("inspect", path, "--json")
    assert found.json["secrets"] == {"github-token": 2, "card-number": 1}
    assert "github-token 2, card-number 1" in ran.out
    for secret in (token, other, card()):
        assert secret not in ran.out + ran.err + found.out + found.err
    rows[0], rows[2] = {"id": "1", "memory": "has a cat"}, {"id": "3", "memory": "rides"}
    path.write_text(json.dumps(rows))
    assert "secrets" not in satchel("inspect", path, "--json").json


def test_formats_are_listed_and_shown_one_by_one(satchel: Run) -> None:
    """Every listed name is accepted; ``--long`` prints all."""
    rows = {row.split()[0]: row for row in satchel("formats").out.splitlines()[1:]}
    assert [row for row in rows.values() if not re.search(r"\d{4}-\d\d-\d\d", row)] == []
    assert re.search("read, write +yes +2026", rows["mem0"])
    assert re.search("read, write +yes +2026", rows["pam"])
    assert satchel("formats", "--long").out.count("lost on writing") > 10
    names = [found["name"] for found in satchel("formats", "--json").json["formats"]]
    assert {"mem0", "pam", "pam_jsonl", "pam_cbor", "pam_sdk"} <= set(names)
    for name in names:
        assert satchel("formats", name).out.startswith(f"{name}: ")
        [found] = satchel("formats", name, "--json").json["formats"]
        assert found["name"] == name


@pytest.fixture
def imported_bank(mem0: Path) -> str:
    """A bank with the memories of a file."""
    found = new_bank()
    import_into(found, mem0)
    return found


def test_a_bank_is_exported_verified_and_compared(
    satchel: Run, imported_bank: str, mem0: Path, tmp_path: Path
) -> None:
    """The file is signed by an own key, so it is good."""
    ran = satchel("export", "--output", tmp_path / "a.pam.jsonl")
    assert (ran.status, "2 memories" in ran.out, "good" in ran.out) == (0, True, True)
    assert satchel("verify", tmp_path / "a.pam.jsonl", "--deep").status == 0
    for other in (tmp_path / "a.pam.jsonl", mem0):
        ran = satchel("diff", "assistant", other)
        assert (ran.status, ran.out.startswith("no differences: 2 the same")) == (0, True)
    append(imported_bank, [seal(Semantic(text="new"))])
    ran = satchel("diff", mem0, "assistant")
    assert (ran.status, ran.out.startswith("different: 2 the same, 0 only in A, 1 only")) == (
        1,
        True,
    )
    assert "+ " in ran.out
    assert satchel("diff", mem0, "assistant", "--limit", "0", "--json").json["only_b"] == 1


def test_export_reports_loss_with_exit_status_1(
    satchel: Run, imported_bank: str, tmp_path: Path
) -> None:
    """Also in a dry run; ``--fail-on-loss`` writes nothing."""
    append(imported_bank, [seal(Episodic(observation="it rained"))])
    out = tmp_path / "a.mem0.json"
    for more in (["--dry-run"], []):
        ran = satchel("export", "--output", out, *more)
        assert (ran.status, "1 x episodic" in ran.err) == (1, True)
        assert out.exists() is not bool(more)
    refused = satchel("export", "--output", tmp_path / "b.mem0.json", "--fail-on-loss", "--json")
    assert (refused.status, refused.error["code"]) == (1, "transfer.loss")
    assert satchel("export", "--output", out, "--json").error["code"] == "target.exists"
    assert satchel("export", "--output", out, "--overwrite", "--type", "semantic").status == 0


def test_push_and_pull_synchronize_two_stores(
    satchel: Run, imported_bank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New, same, ahead, diverged and merged, each with its message and status."""
    other = tmp_path / "other.db"
    assert "would be copied" in satchel("push", other, "--dry-run").out
    assert not other.exists()
    assert "copied, 7 records" in satchel("push", other).out
    assert "the copies are the same" in satchel("push", other).out
    append(imported_bank, memories(1))
    assert "nothing new there; 1 record only here" in satchel("pull", other).out
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "another-machine"))
    append(imported_bank, memories(2, start=5), store=str(other))
    monkeypatch.setenv("SATCHEL_WITNESS", str(tmp_path / "satchel-witness"))
    ran = satchel("pull", other)
    assert (ran.status, "--merge" in ran.err) == (1, True)
    assert ran.out.startswith(
        "assistant: diverged at 7: 1 record only here, 2 only there; 2 of them not merged"
    )
    ran = satchel("pull", other, "--merge")
    assert (ran.status, "2 semantic" in ran.out) == (0, True)
    assert satchel("pull", other).status == 0
    assert satchel("push", other).status == 1
    assert satchel("push", other, "--merge").status == 0
    assert satchel("push", other).status == 0


def test_escapes_in_banks_and_files_do_not_reach_the_terminal(satchel: Run, tmp_path: Path) -> None:
    """Attack: escapes in names of banks and files, in texts and origins."""
    imported_bank = new_bank(NASTY)
    append(imported_bank, [seal(Semantic(text=NASTY, kind=NASTY))])
    odd = tmp_path / ("odd" + NASTY.replace("/", ""))
    empty = tmp_path / "list.json"
    empty.write_text('[{"id": "\\u001b[2J", "memory": "\\u001b[2J"}]')
    runs = [
        satchel("export", "--output", odd),
        satchel("export", "--output", odd),
        satchel("diff", imported_bank, empty),
        satchel("diff", odd, empty),
        satchel("push", tmp_path / "other.db"),
        satchel("pull", os.fspath(odd)),
    ]
    assert [ran.status for ran in runs[:5]] == [0, 5, 1, 1, 0]
    assert runs[5].status > 1
    assert [ran for ran in runs if RAW.search(ran.out + ran.err)] == []
