"""The real astrocyte 0.22.0, in an environment of its own: it reads ours, and we read its files."""

import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ama_kit import Row, archive, lines, memory
from import_kit import bring

from benchmarks import data, peers
from satchel import Satchel
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.model.records import Procedural
from satchel.transfer.export_records import ExportOptions
from satchel.transfer.exports import export

pytestmark = [pytest.mark.prove, pytest.mark.timeout(900)]

_PEER = Path(__file__).parent.parent.parent / "benchmarks" / "peers" / "astrocyte_bank.py"


def _astrocyte(*arguments: str | Path) -> Any:
    python = peers.environment("astrocyte") / "python"
    command = [python, _PEER, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, timeout=600)
    return json.loads(done.stdout)


def _out(path: Path, bank: str = "b") -> list[Row]:
    with open_bank(load_settings(), bank) as found:
        export(found, path, ExportOptions(embeddings=True))
    return lines(path)


def test_astrocyte_imports_all_that_it_keeps_of_ours(tmp_path: Path) -> None:
    """Texts, tags, metadata and event times of memories of every kind arrive as they were."""
    records = [{**row, "text": f"{place * 7919} {row['text']}"} for place, row in _some()]
    bring(archive(tmp_path / "in.ama.jsonl", *records))
    with Satchel.open(bank="b") as store:
        store.bank().remember(Procedural(name="harvest", body="Smoke first, then lift the frames."))
    rows = _out(tmp_path / "out.ama.jsonl")[1:]
    done = _astrocyte("import", tmp_path / "out.ama.jsonl", tmp_path / "a.db")
    assert (done["imported"], done["skipped"], done["errors"]) == (len(rows), 0, 0)
    arrived = {one["text"]: one for one in done["memories"]}
    for row in rows:
        found = arrived.pop(row["text"])
        metadata = {k: v for k, v in found["metadata"].items() if not k.startswith("_")}
        assert found["tags"] == row.get("tags", found["tags"])
        assert metadata == row.get("metadata", {})
        assert _moment(found["occurred_at"]) == _moment(row.get("occurred_at"))
    assert arrived == {}


def _some() -> list[tuple[int, Row]]:
    return list(enumerate(data.ama_records(20)))


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def test_what_astrocyte_exports_is_read_and_written_back_without_loss(tmp_path: Path) -> None:
    """Through a bank: every line equal, and in their order."""
    rows = [row for _, row in _some()]
    rows.append(memory("big", "A number beyond 64 bits.", metadata={"n": 2**70, "none": None}))
    _astrocyte("import", archive(tmp_path / "in.ama.jsonl", *rows), tmp_path / "a.db")
    _astrocyte("export", tmp_path / "a.db", tmp_path / "theirs.ama.jsonl")
    theirs = lines(tmp_path / "theirs.ama.jsonl")
    done = bring(tmp_path / "theirs.ama.jsonl")
    assert (done.banks[0].done.added, done.losses) == (len(theirs) - 1, [])
    assert _out(tmp_path / "ours.ama.jsonl")[1:] == theirs[1:]
