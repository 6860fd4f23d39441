"""``satchel config``: the configuration file, origins of settings, and errors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.config.files import line_of, read_file, to_toml
from satchel.config.settings import load_settings
from satchel.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Run


TOML = """
provider = "sqlite"
provider_tier = "storage"
profile = "careful"

[provider_config]
path = "there.db"

[banks.ada]
recall_limit = 3

[profiles.careful]
scrub_secrets = true

[[hooks.on_import]]
command = ["true"]
"""
YAML = """
provider: sqlite
provider_tier: storage
profile: careful
provider_config: {path: there.db}
banks:
  ada:
    recall_limit: 3
profiles:
  careful: {scrub_secrets: true}
hooks:
  on_import:
    - command: ["true"]
"""
ASTROCYTE = """
provider_tier: storage
vector_store: pgvector
vector_store_config: {dsn: "postgresql://u:${PASSWORD}@h/d"}
llm_provider: openai
llm_provider_config: {api_key: "${OPENAI}"}
profile: personal
homeostasis: {rate_limits: {retain_per_minute: 60}}
barriers: {pii: {mode: regex}}
banks:
  user-123: {profile: careful, access: [], barriers: {}}
profiles:
  careful: {}
"""


def test_yaml_and_toml_give_the_same_settings(tmp_path: Path) -> None:
    """They are parsed into one model."""
    toml, yaml = tmp_path / "one.toml", tmp_path / "two.yaml"
    toml.write_text(TOML)
    yaml.write_text(YAML)

    one, two = (load_settings(config=path, environment={}) for path in (toml, yaml))

    assert one.options == two.options
    assert one.store == "sqlite:///there.db"
    assert one.options.banks["ada"].recall_limit == 3


def test_toml_round_trips(tmp_path: Path) -> None:
    """Names with dots and quotes, nested tables, lists of tables."""
    table = {
        "provider": 'say "hi"\x7f\n',
        "provider_config": {"a.b": [1, 2.5, True], "": {"deep": {"é": "東"}}, "t": [{"x": 1}]},
        "banks": {"ada@x": {"metadata": {"k": ["v"]}}},
        "hooks": {"on_import": [{"command": ["a"]}, {"webhook": "https://x"}]},
    }
    path = tmp_path / "a.toml"
    path.write_text(to_toml(table))

    assert read_file(path).table == table


def test_a_configuration_of_astrocyte_is_read_and_unknown_keys_are_reported(
    satchel: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings of its pipeline are named, not refused; secrets are not shown."""
    path = tmp_path / "astrocyte.yaml"
    path.write_text(ASTROCYTE)
    monkeypatch.setenv("PASSWORD", "hunter2")

    ran = satchel("--config", path, "config", "show")

    assert ran.status == 0
    assert "hunter2" not in ran.out + ran.err
    for name in ("llm_provider", "homeostasis", "banks.user-123.access", "profile personal"):
        assert name in ran.err
    found = load_settings(config=path)
    assert found.options.provider == "astrocyte-pgvector"
    assert found.options.provider_config["dsn"] == "postgresql://u:hunter2@h/d"


@pytest.mark.parametrize(
    ("text", "field", "line", "hint"),
    [
        ("[store]\n\nadress = 'x'", "store.adress", 3, "Did you mean address?"),
        ("provder = 'x'", "provder", 1, "Did you mean provider?"),
        ("[banks.a]\nx = 1\n[banks.b]\nprofil = 'q'", "banks.a.x", 2, "Known: "),
        ("[banks.'a b']\nprofil = 'q'", "banks.a b.profil", 2, "Did you mean profile?"),
        ("[[hooks.on_import]]\ncomand = ['x']", "hooks.on_import.comand", 2, "command"),
        ("[hooks]\non_imprt = []", "hooks.on_imprt", 2, "on_import"),
        ("[hooks]\non_import = 1", "hooks.on_import", 2, None),
        ("[[hooks.on_import]]\ntimeout = 2", "hooks.on_import", 1, None),
        ("[[hooks.on_import]]\nwebhook = 'ftp://x'", "hooks.on_import", 1, None),
        ("[[hooks.on_import]]\nfunction = 'x'", "hooks.on_import.function", 2, None),
        ("banks = 3", "banks", 1, None),
        ("[banks]\na = 3", "banks.a", 2, None),
        ("[banks.a]\nrecall_limit = 0", "banks.a.recall_limit", 2, None),
        ("[banks.a]\nprofile = 'carful'\n[profiles.careful]", "banks.a.profile", 2, "careful"),
        ("profile = 'nobody'", "profile", 1, None),
        ("provider = 3", "provider", 1, None),
        ("provider_tier = 'x'", "provider_tier", 1, None),
        ("provider_config = {a = 1}", "provider_config", 1, None),
        ("provider = 'sqlite'", "provider_config", None, "Set path"),
        ("provider = 'sqlite'\nprovider_config = {pth = 'x'}", "provider_config.pth", None, "path"),
        (
            "provider = 'sqlite'\nprovider_config = {path = 'x', uri = 'y'}",
            "provider_config",
            2,
            "",
        ),
        ("provider = 'mem0'\nprovider_tier = 'storage'", "provider_tier", 2, None),
        (
            "provider = 'sqlite'\nprovider_config = {path = 'x'}\nstore.address = 'y'",
            "store.address",
            3,
            None,
        ),
        ("provider = 'mem0'\nprovider_config = {key = '${NOPE}'}", "provider_config", 2, None),
    ],
)
def test_configuration_errors_name_the_line_and_the_nearest_key(
    satchel: Run, tmp_path: Path, text: str, field: str, line: int | None, hint: str | None
) -> None:
    """Status 2, with file, key, line and suggestion."""
    path = tmp_path / "satchel.toml"
    path.write_text(text)

    ran = satchel("--config", path, "config", "show", "--json")

    assert (ran.status, ran.error["code"], ran.out) == (2, "config.invalid", "")
    assert ran.error["file"] == str(path)
    assert (ran.error["field"], ran.error.get("line")) == (field, line)
    assert (hint or "") in ran.error.get("hint", "")


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x",
        "a: !!python/object/apply:os.system ['true']",
        "a: !!str x",
        "profile: x\nprofile: y",
        "- a",
        "<<: {profile: x}",
        "? [a]\n: b",
        "a: [" * 500 + "]" * 500,
        "banks: {" + "a: {" * 40 + "}" * 41,
        "a: '",
        "\x00",
        "--- a: 1\n--- b: 2",
        "a: 2026-13-45",
    ],
)
def test_yaml_aliases_tags_and_deep_nesting_are_refused(tmp_path: Path, text: str) -> None:
    """Attack: aliases that expand to billions of values, tags that run programs, deep nesting."""
    path = tmp_path / "satchel.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        load_settings(config=path)

    assert caught.value.file == str(path)


def test_yaml_words_like_no_and_yes_are_strings(tmp_path: Path) -> None:
    """A bank called ``no``, and a description ``yes``."""
    path = tmp_path / "satchel.yml"
    path.write_text("banks: {no: {description: yes, scrub_secrets: true}}")

    bank = load_settings(config=path).options.banks["no"]

    assert (bank.description, bank.scrub_secrets) == ("yes", True)


def test_a_configuration_of_one_gigabyte_is_not_read(tmp_path: Path) -> None:
    """Attack: a file that exhausts memory."""
    path = tmp_path / "satchel.toml"
    with path.open("wb") as stream:
        stream.truncate(2**30)

    with pytest.raises(ConfigError, match="too large"):
        load_settings(config=path)


def test_flag_and_environment_override_the_provider_of_the_file(tmp_path: Path) -> None:
    """Flag over environment over file; a provider variable overrides the file's store."""
    path = tmp_path / "satchel.toml"
    path.write_text(TOML)
    env = {"SATCHEL_STORE": "sqlite:///mine.db"}
    assert load_settings(config=path, environment=env).store == "sqlite:///mine.db"
    assert load_settings(config=path, store="flag.db", environment=env).store == "flag.db"
    path.write_text("store.address = 'here.db'")
    env = {"SATCHEL_PROVIDER": "sqlite", "SATCHEL_PROVIDER_CONFIG": '{"path": "other.db"}'}
    assert load_settings(config=path, environment=env).store == "sqlite:///other.db"
    env["SATCHEL_PROVIDER_CONFIG"] = "[]"
    with pytest.raises(ConfigError, match="not a JSON object"):
        load_settings(config=path, environment=env)


@pytest.mark.parametrize("name", ["satchel.toml", "satchel.yaml", "satchel.yml"])
def test_the_default_configuration_file_is_toml_or_yaml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """TOML has precedence."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "satchel").mkdir()
    is_toml = name.endswith("toml")
    text = '[keys]\nname = "mine"' if is_toml else "keys: {name: mine}"
    (tmp_path / "satchel" / name).write_text(text)

    found = load_settings()

    assert (found.file.name, found.options.keys.name) == (name, "mine")


def test_line_of_finds_quoted_and_dotted_keys() -> None:
    """Quoted, dotted, and in a list of tables."""
    text = '# x\n"a b".c = 1\n[t . "u"]\nv.w = 2 # [x]\n[[z]]\nq=1'

    lines = {path: line_of(text, path) for path in ("a b.c", "t.u", "t.u.v.w", "z", "z.q", "none")}

    assert lines == {"a b.c": 2, "t.u": 3, "t.u.v.w": 4, "z": 5, "z.q": 6, "none": None}


@pytest.mark.parametrize("verb", ["export", "import", "migrate"])
def test_a_missing_provider_package_is_an_error(
    satchel: Run, tmp_path: Path, mem0: Path, verb: str
) -> None:
    """The local store is neither read nor written instead."""
    path = tmp_path / "satchel.toml"
    path.write_text('provider = "nonesuch"\nprovider_config = {path = "there"}')
    assert satchel("remember", "likes tea").status == 0
    words: dict[str, list[str | Path]] = {
        "export": ["--output", tmp_path / "out.pam"],
        "import": [mem0],
        "migrate": ["--from-config", path, "--to-config", tmp_path / "none.toml"],
    }
    (tmp_path / "none.toml").write_text("")

    ran = satchel("--config", path, verb, *words[verb], "--json")

    assert (ran.status, ran.error["code"], ran.error["field"]) == (2, "config.invalid", "provider")
    assert "nonesuch" in ran.error["message"]
    assert not (tmp_path / "out.pam").exists()
    assert "likes tea" in satchel("list").out


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration file that is used."""
    path = tmp_path / "satchel.toml"
    path.write_text("[verify]\nthreshold = 2\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(path))
    return path


def origins(satchel: Run, *before: str) -> dict[str, tuple[object, str]]:
    """Return the value and the origin of every setting."""
    shown = satchel(*before, "config", "show", "--json").json["values"]
    return {found["name"]: (found["value"], found["origin"]) for found in shown}


@pytest.mark.usefixtures("config")
def test_config_show_prints_the_origin_of_each_setting(
    satchel: Run, tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flag over environment over file over default."""
    monkeypatch.setenv("SATCHEL_LIMITS_TAGS", "7")
    found = origins(satchel)
    assert found["verify.threshold"] == (2, "file")
    assert found["limits.tags"] == (7, "SATCHEL_LIMITS_TAGS")
    assert found["limits.parents"] == (1024, "default")
    assert found["home"] == (str(own_home), "SATCHEL_HOME")
    other = str(tmp_path / "other")
    assert origins(satchel, "--home", other)["home"] == (other, "flag")
    monkeypatch.setenv("SATCHEL_VERIFY_THRESHOLD", "3")
    assert origins(satchel)["verify.threshold"] == (3, "SATCHEL_VERIFY_THRESHOLD")
    assert "SATCHEL_VERIFY_THRESHOLD" in satchel("config", "show").out


def test_settings_take_effect(satchel: Run, sealed: Path, config: Path) -> None:
    """Commands obey the configured values."""
    assert satchel("verify", sealed).status == 3
    config.write_text("[keys]\nname = 'work'\n")
    assert satchel("convert", sealed.with_name("mem0.json"), sealed, "--overwrite").status == 0
    assert {key["name"] for key in satchel("key", "list", "--json").json["keys"]} == {
        "default",
        "work",
    }


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[nope]\nx = 1", "nope"),
        ("[verify]\nnope = 1", "verify.nope"),
        ("verify = 1", "verify"),
        ("[verify]\nthreshold = 'two'", None),
        ("[verify]\nthreshold = 0", "verify.threshold"),
        ("[limits]\ntags = 1.5", None),
        ("[limits]\ntags = true", None),
        ("[keys]\nname = 5", None),
        ("not toml", None),
        ("[verify]\n[verify]", None),
        ("x = '\\ud800'", None),
    ],
)
def test_an_invalid_configuration_is_refused_with_file_and_field(
    satchel: Run, config: Path, text: str, field: str | None
) -> None:
    """A misspelled setting is an error and is not ignored."""
    config.write_text(text)
    ran = satchel("doctor", "--json")
    assert (ran.status, ran.error["code"], ran.out) == (2, "config.invalid", "")
    assert ran.error.get("field") == field or field is None
    assert ran.error.get("file", str(config)) == str(config)
    assert "file" in ran.error or field


@pytest.mark.parametrize("kind", ["bytes", "folder", "missing", "fifo"])
def test_an_unreadable_configuration_is_refused(satchel: Run, config: Path, kind: str) -> None:
    """A configuration file that is named must exist and be UTF-8 text."""
    config.unlink()
    if kind == "bytes":
        config.write_bytes(b"\xff\xfe")
    elif kind == "folder":
        config.mkdir()
    elif kind == "fifo":
        os.mkfifo(config)
    ran = satchel("config", "show", "--json")
    assert (ran.status, ran.error["code"]) == (2, "config.invalid")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SATCHEL_VERIFY_THRESHOLD", "many"),
        ("SATCHEL_VERIFY_THRESHOLD", "0"),
        ("SATCHEL_VERIFY_THRESHOLD", ""),
        ("SATCHEL_VERIFY_REQUIRE_FRESH", "maybe"),
        ("SATCHEL_LIMITS_TAGS", "1.5"),
    ],
)
def test_an_invalid_environment_variable_is_refused_by_name(
    satchel: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """The error names the setting of the variable."""
    monkeypatch.setenv(variable, value)
    ran = satchel("doctor", "--json")
    assert (ran.status, ran.error["code"]) == (2, "config.invalid")
    assert ran.error["field"].upper().replace(".", "_") in variable
