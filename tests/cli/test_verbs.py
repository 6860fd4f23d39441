"""``convert``, ``inspect``, ``verify`` and ``formats`` from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from secrets_kit import Maker, card

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_one_seal_goes_through_all_encodings_and_back(
    satchel: Run, sealed: Path, mem0: Path, tmp_path: Path
) -> None:
    """The same statement and signature, and at the end the same Mem0 records."""
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


def test_an_existing_target_is_kept_unless_forced(satchel: Run, mem0: Path, sealed: Path) -> None:
    """Status 5 and advice; --overwrite replaces it."""
    before = sealed.read_bytes()
    ran = satchel("convert", mem0, sealed)
    assert ran.status == 5
    assert "--overwrite" in ran.err
    assert sealed.read_bytes() == before
    assert satchel("convert", mem0, sealed, "--overwrite").status == 0
    assert sealed.read_bytes() != before


def test_a_file_is_not_converted_onto_itself(satchel: Run, mem0: Path, tmp_path: Path) -> None:
    """Not by its own name, a link, or a hard link."""
    link, hard = tmp_path / "link.pam", tmp_path / "hard.pam"
    link.symlink_to(mem0)
    hard.hardlink_to(mem0)
    before = mem0.read_bytes()
    for target in (mem0, link, hard):
        assert satchel("convert", mem0, target, "--to", "pam", "--overwrite").status == 2
    assert mem0.read_bytes() == before


@pytest.fixture
def richer(tmp_path: Path) -> Path:
    """A sealed file with what Mem0 has no place for, signed by the default key."""
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


def test_loss_is_named_counted_and_the_exit_status(
    satchel: Run, richer: Path, tmp_path: Path
) -> None:
    """Status 1, and every kind of thing that stayed behind with its reason."""
    ran = satchel("convert", richer, tmp_path / "out.mem0.json", "--json")
    assert ran.status == 1
    names = {loss["name"] for loss in ran.json["losses"]}
    assert names >= {"episodic", "parent_ids", "salience"}
    plain = satchel("convert", richer, tmp_path / "out2.mem0.json")
    assert plain.status == 1
    assert "salience" in plain.err


def test_fail_on_loss_writes_nothing(satchel: Run, richer: Path, tmp_path: Path) -> None:
    """All or nothing, and what would be lost is named."""
    target = tmp_path / "out.mem0.json"
    ran = satchel("convert", richer, target, "--fail-on-loss", "--json")
    assert (ran.status, ran.error["code"]) == (1, "transfer.loss")
    assert "salience" in ran.error["message"]
    assert {path.name for path in tmp_path.iterdir()} <= {
        "richer.pam",
        "satchel-home",
        "satchel-witness",
    }


def test_fail_on_loss_leaves_existing_files_alone(
    satchel: Run, richer: Path, tmp_path: Path
) -> None:
    """Attack: a file or link laid where a trial would be written."""
    target, victim = tmp_path / "out.mem0.json", tmp_path / "victim"
    victim.write_text("precious")
    trap = tmp_path / f".{target.name}.trial"
    trap.symlink_to(victim)
    satchel("convert", richer, target, "--fail-on-loss")
    assert victim.read_text() == "precious"
    assert trap.is_symlink()


def test_an_unsealed_input_needs_no_unsafe_flag_but_an_unsigned_one_does(
    satchel: Run, mem0: Path, tmp_path: Path
) -> None:
    """The flag's name says what one puts up with."""
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
def test_a_tampered_input_is_refused_whatever_is_accepted(
    satchel: Run, sealed: Path, tmp_path: Path, flag: str
) -> None:
    """No flag lets changed memory in, into no format."""
    sealed.write_bytes(sealed.read_bytes().replace(b"likes tea", b"hates tea"))
    assert satchel("verify", sealed).status == 3
    for name in ("out.mem0.json", "out.pam.cbor"):
        ran = satchel("convert", sealed, tmp_path / name, "--unsafe-accept", flag)
        assert (ran.status, (tmp_path / name).exists()) == (3, False)


def test_a_malformed_artifact_is_status_4_in_every_command(
    satchel: Run, sealed: Path, tmp_path: Path
) -> None:
    """The same status for the same fault."""
    sealed.write_bytes(sealed.read_bytes()[:-5])
    assert satchel("verify", sealed).status == 4
    assert satchel("inspect", sealed).status == 4
    ran = satchel("convert", sealed, tmp_path / "out.pam")
    assert (ran.status, (tmp_path / "out.pam").exists()) == (4, False)


def test_verify_follows_one_entry_back_to_its_roots(satchel: Run, richer: Path) -> None:
    """By the whole id or its start; an unknown one is a usage error."""
    rows = json.loads(richer.read_text())["components"]
    child, root = rows["semantic"][0]["id"], rows["episodic"][0]["id"]
    for wanted in (child, child[:16], child.removeprefix("blake3:")[:8]):
        ran = satchel("verify", richer, "--entry", wanted, "--json")
        assert ran.status == 0
        assert [link["id"] for link in ran.json["chain"]] == [child, root]
    assert root in satchel("verify", richer, "--entry", child).out
    unknown = satchel("verify", richer, "--entry", "blake3:" + "0" * 64)
    assert unknown.status == 2
    for odd in ("%", "", "blake3:", "' OR 1=1 --", "_" * 8):
        assert satchel("verify", richer, "--entry", odd).status in (0, 2)


def test_inspect_describes_a_file_and_changes_nothing(satchel: Run, mem0: Path) -> None:
    """Counts by type; a second look sees the same."""
    before = mem0.read_bytes()
    assert satchel("inspect", mem0, "--json").json["records"] == {"semantic": 2}
    assert "2" in satchel("inspect", mem0).out
    assert mem0.read_bytes() == before


def test_inspect_counts_the_secrets_in_a_file_and_shows_none(satchel: Run, tmp_path: Path) -> None:
    """Of each kind how many; the values are nowhere in what is printed."""
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
    """Every name in the list can be asked for; all together with ``--long``."""
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
