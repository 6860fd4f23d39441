"""``config show`` and ``doctor``: origins of settings, and problems of an installation."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from satchel.bank import checks

if TYPE_CHECKING:
    from tests.cli.conftest import Run


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
def test_an_unreadable_configuration_is_refused(
    satchel: Run, config: Path, kind: str
) -> None:
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


def states(satchel: Run) -> tuple[dict[str, str], int]:
    """Return the state of each check of ``doctor``, and its exit status."""
    ran = satchel("doctor", "--json")
    return {found["name"]: found["state"] for found in ran.json["checks"]}, ran.status


def test_doctor_reports_no_problem_for_a_valid_installation(satchel: Run, sealed: Path) -> None:
    """Exit status 0, before and after keys exist."""
    assert sealed.exists()
    found, status = states(satchel)
    assert "problem" not in found.values()
    assert status == 0
    assert satchel("doctor").status == 0


@pytest.mark.parametrize(
    ("inside", "mode", "name"),
    [
        ("keys/default.key", 0o644, "key default"),
        ("keys/default.key", 0o640, "key default"),
        (".", 0o755, "home"),
        ("keys", 0o777, "key folder"),
    ],
)
def test_doctor_reports_files_that_other_users_can_open(
    satchel: Run, sealed: Path, own_home: Path, inside: str, mode: int, name: str
) -> None:
    """Attack: other users of the machine read or replace keys."""
    assert sealed.exists()
    (own_home / inside).chmod(mode)
    found, status = states(satchel)
    assert (found.get(name), status) == ("problem", 1)
    assert "chmod" in satchel("doctor").err
    assert (own_home / inside).stat().st_mode & 0o777 == mode, "doctor changes nothing"


def test_a_key_that_other_users_can_read_does_not_sign(
    satchel: Run, sealed: Path, own_home: Path
) -> None:
    """It is refused until its mode is 0600."""
    (own_home / "keys" / "default.key").chmod(0o644)
    target = sealed.with_name("b.pam")
    ran = satchel("convert", sealed.with_name("mem0.json"), target)
    assert (ran.status, target.exists()) == (3, False)
    assert "chmod 600" in ran.err


@pytest.mark.parametrize(
    ("inside", "content", "name"),
    [
        ("keys/default.key", b"{}", "key default"),
        ("keys/default.key", b"", "key default"),
        ("trust.json", b"{}", "trust"),
        ("trust.json", b"\xff", "trust"),
    ],
)
def test_doctor_reports_damaged_key_and_trust_files(
    satchel: Run, sealed: Path, own_home: Path, inside: str, content: bytes, name: str
) -> None:
    """Every command reports the file; none treats it as empty or overwrites it."""
    (own_home / inside).write_bytes(content)
    found, status = states(satchel)
    assert (found[name], status) == ("problem", 1)
    ran = satchel("convert", sealed.with_name("mem0.json"), sealed.with_name("b.pam"))
    assert ran.status in (3, 4)
    assert (own_home / inside).read_bytes() == content


def test_doctor_reports_a_home_that_is_a_link(satchel: Run, sealed: Path, own_home: Path) -> None:
    """Attack: the home directory links to another folder."""
    elsewhere = sealed.with_name("elsewhere")
    own_home.rename(elsewhere)
    own_home.symlink_to(elsewhere)
    found, status = states(satchel)
    assert (found["home"], status) == ("problem", 1)


def test_doctor_notes_a_missing_extra_with_its_install_command(
    satchel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is optional, so the exit status is 0."""
    there = metadata.version

    def version(package: str) -> str:
        if package == "onnxruntime":
            raise metadata.PackageNotFoundError(package)
        return there(package)

    monkeypatch.setattr(checks, "version", version)
    ran = satchel("doctor", "--json")
    found = {one["name"]: one for one in ran.json["checks"]}
    assert ran.status == 0
    assert found["onnxruntime"]["state"] == "note"
    assert "satchel[models]" in found["onnxruntime"]["hint"]
