"""The settings of a server over HTTP: for the operator only, without secrets, and read-only."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from http_kit import ELSEWHERE, ServedGateway, running_gateway

from satchel.bank.machine_keys import create_identity, lock_for
from satchel.config.settings import load_settings
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import SigningKey
from satchel.http.guard import ServerLimits
from satchel.replication.store_operations import rekey_store

SETTINGS = "/v1/settings"


def _configured(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    config = folder / "satchel.toml"
    config.write_text(text)
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    return config


def test_settings_have_store_embedder_access_limits_and_origins(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each value with its origin; the limits are those of this server."""
    config = _configured(tmp_path, "[limits]\ntags = 7\n[backup]\nkeep_last = 3\n", monkeypatch)
    monkeypatch.setenv("SATCHEL_BACKUP_RETENTION", "14")
    with running_gateway(bounds=ServerLimits(at_once=5)) as served:
        found = served.client().get(SETTINGS).json()
    assert (found["file"], found["file_exists"]) == (str(config), True)
    assert found["store"] == {
        "kind": "sqlite",
        "address": f"{own_home}/satchel.db",
        "chosen_by": "default",
        "is_encrypted": False,
        "requires_encryption": False,
    }
    assert (found["embedder"]["name"], found["embedder"]["state"]) == ("static-idf", "ready")
    assert found["access"]["operator_token"] is False
    origins = {one["name"]: (one["value"], one["origin"]) for one in found["values"]}
    assert origins["limits.tags"] == (7, "file")
    assert origins["backup.keep_last"] == (3, "file")
    assert origins["backup.retention"] == (14, "SATCHEL_BACKUP_RETENTION")
    assert origins["backup.keep_daily"] == (0, "default")
    assert found["requests"]["at_once"] == 5


def test_settings_report_an_encrypted_store(own_home: Path) -> None:
    """By ``is_encrypted``."""
    del own_home
    settings = load_settings()
    create_identity(settings, "of-the-store")
    rekey_store(settings, lock_for(settings, ["of-the-store"]))
    with running_gateway() as served:
        assert served.client().get(SETTINGS).json()["store"]["is_encrypted"] is True


@pytest.mark.parametrize(
    ("lines", "state", "server"),
    [
        ('embedder = "ollama:nomic"', "configured", "http://127.0.0.1:11434"),
        ('embedder = "openai:m@http://127.0.0.1:9/v1"', "configured", "http://127.0.0.1:9"),
        (
            'embedder = "openai:m@http://u:hidden@127.0.0.1:9/v1"',
            "not available",
            "http://127.0.0.1:9",
        ),
        ('embedder = "openai"', "not available", None),
        ('embedder = "onnx:/nowhere"', "not available", None),
        ('embedder = "fastembed:x"', "not available", None),
    ],
)
def test_the_state_of_the_embedder_is_reported(
    own_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: str,
    state: str,
    server: str | None,
) -> None:
    """A remote embedder is not called; an unusable one has a reason."""
    del own_home
    _configured(tmp_path, f"[inference]\n{lines}\n", monkeypatch)
    with running_gateway() as served:
        answer = served.client().get(SETTINGS)
    found = answer.json()["embedder"]
    assert (found["state"], found.get("server")) == (state, server)
    assert bool(found.get("problem")) == (state == "not available")
    assert "hidden" not in answer.text


def test_settings_contain_no_secret(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of addresses, hooks, the provider's configuration, or the operator's token."""
    del own_home
    monkeypatch.setenv("SATCHEL_PASSPHRASE", "hidden passphrase")
    monkeypatch.setenv("API_KEY", "hidden key")
    _configured(
        tmp_path,
        '[inference]\nbase_url = "http://u:hidden@127.0.0.1:9/v1"\nkey_variable = "API_KEY"\n'
        '[files]\nstorage_root = "s3://u:hidden@bucket/prefix"\n'
        '[[hooks.on_remember]]\ncommand = ["echo", "hidden argument"]\n'
        '[agents.one]\nconfig = { setting = "hidden" }\n',
        monkeypatch,
    )
    with running_gateway("hidden operator token") as served:
        said = {"Authorization": "Bearer hidden operator token"}
        answer = served.client(ELSEWHERE).get(SETTINGS, headers=said)
    assert answer.status_code == 200
    assert answer.json()["access"]["operator_token"] is True
    assert "hidden" not in answer.text


def test_settings_are_refused_to_token_holders_and_read_only(
    served: ServedGateway, client: TestClient
) -> None:
    """And to remote clients without the operator's token."""
    client.post("/v1/banks", json={"name": "assistant"})
    key = SigningKey.from_seed(bytes(range(32)))
    said = {"audience": key.did, "permissions": ["read"], "everything": True, "expires": "1h"}
    token = client.post("/v1/banks/assistant/tokens", json=said).json()["token"]
    holder = served.holder(canonical(token).decode(), key)
    assert holder.get(SETTINGS).status_code == 403
    assert served.client(ELSEWHERE).get(SETTINGS).status_code == 403
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client.request(method, SETTINGS).status_code == 405


def test_applications_of_one_process_share_only_their_routes(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each serves its own store, within its own limits."""
    with running_gateway(bounds=ServerLimits(small_bytes=100)) as one:
        monkeypatch.setenv("SATCHEL_HOME", f"{own_home}-other")
        with running_gateway() as other:
            large = {"name": "x" * 200}
            assert one.client().post("/v1/banks", json=large).status_code == 413
            assert other.client().post("/v1/banks", json=large).status_code == 201
            assert one.client().get("/v1/banks").json()["banks"] == []
            assert len(other.client().get("/v1/banks").json()["banks"]) == 1
            assert {*map(id, one.app.routes)} == {*map(id, other.app.routes)}
