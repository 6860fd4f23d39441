"""With a provider set, export, import and migrate work with the product: a local Mem0."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


def test_memory_goes_to_a_product_and_back_and_the_configuration_follows(
    satchel: Run, tmp_path: Path
) -> None:
    """Two users, each a bank; read again from the product; run again, nothing is there twice."""
    first, live, back = (tmp_path / name for name in ("first.toml", "live.yaml", "back.toml"))
    first.write_text(f'store.address = "{tmp_path / "first.db"}"')
    live.write_text(
        f"provider: mem0\nprovider_tier: engine\nprovider_config: {{path: {tmp_path / 'm'}}}"
    )
    back.write_text(f'store.address = "{tmp_path / "back.db"}"')
    for user in ("ada", "bob"):
        assert satchel("--config", first, "banks", "create", user).status == 0
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
    words = ["export", "--bank", "ada", "--format", "mem0", "--output", str(out)]
    assert satchel("--config", live, *words).status == 0
    assert len(json.loads(out.read_bytes())["results"]) == 3
    file = tmp_path / "more.json"
    file.write_text(json.dumps([{"id": "x", "memory": "likes cola", "user_id": "cy"}]))
    assert satchel("--config", live, "import", file).status in (0, 1)
    ran = satchel("migrate", "--from-config", live, "--to-config", back, "--no-switch", "--json")
    assert [one["name"] for one in ran.json["banks"] if one.get("carried")] == ["cy"]
