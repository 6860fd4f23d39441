"""A password that stands in an address is nowhere shown, in whatever form it stands there."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.cli.main import run
from satchel.config.settings import load_settings
from satchel.errors import ConfigError, StoreError, shown_address, shown_host, shown_text

SECRET = "HUNTER" + "TWO"
FORMS = (
    "postgresql://u:{}@host/db",
    "postgresql://u:{}@host:5432/db?sslmode=require",
    "postgresql://u:{}/PW@host/db",
    "postgresql://u:12/{}@host/db",
    "postgresql://u:a?{}@host/db",
    "postgresql://u:a#{}@host/db",
    "postgresql://u:a@{}@host/db",
    "postgresql://u:a@b/{}@host/db",
    "postgresql://u:a:{}@host/db",
    "postgresql://u:[{}@host/db",
    "postgresql://u:{}]@host/db",
    "postgresql://u:%zz{}@host/db",
    "postgresql://u%3A{}@host/db",
    "postgresql://:{}@host/db",
    "postgresql://u:{}@[::1]:5432/db",
    "postgresql://u:{}@[::zz/db",
    "postgresql://h1,h2:{}@host/db",
    "postgresql://host/db?user=u&password={}",
    "postgresql://host/db?user=u&password=a@{}&x=1",
    "postgresql://host/db?PASSWORD={}",
    "postgresql://host/db?user=u;password={}",
    "postgresql://host/db?options=-c%20a={}",
    "postgresql://host/db?sslpassword={}",
    "postgresql://host:{}/db",
    "postgresql:u:{}@host/db",
    "postgresql:/u:{}@host/db",
    "postgresql:\\\\u:{}@host/db",
    "POSTGRESQL://u:{}@host/db",
    "postgres+x://u:{}@host/db?a={}",
    "mysql://host/{}",
    "jdbc:postgresql://u:{}@host/db",
    "//u:{}@host/db",
    "u:{}@host",
    "host=h user=u password={}",
    "host=h password='{}'",
    "sqlite:///a.db?key={}",
    "sqlite://u:{}@host/db",
    "sqlite://u:a/{}@host/db",
    "s3://KEY:{}@bucket/prefix",
    "s3://KEY:a/{}@bucket/prefix",
    "s3://bucket/prefix?aws_secret_access_key={}",
    "qdrant://host:6333/c?api_key={}",
    "http://u:{}@host/",
    "https://{}@host/x",
    "https://{}/with/slash@host/x",
    "https://host/x?key={}",
    "https://host/x?sig={}&code={}",
    "https://host/x?{}",
    "https://host/x#{}",
    "redis://:{}@host",
    "file://u:{}@host/x",
)
TEXTS = (
    "not a store address: {}",
    "cannot connect to {}, which is down",
    "see <{}> and {}",
    'it said "{}"',
)


@pytest.mark.parametrize("form", FORMS)
def test_attack_no_form_of_an_address_shows_what_may_be_a_password(form: str) -> None:
    """Alone, as a host, and in the middle of a sentence; showing it twice changes nothing."""
    address = form.replace("{}", SECRET)
    shown = shown_address(address)
    assert SECRET not in shown
    assert shown_address(shown) == shown
    assert SECRET not in shown_host(address)
    if "://" in address:
        for text in TEXTS:
            assert SECRET not in shown_text(text.replace("{}", address))
            assert SECRET not in str(StoreError(text.replace("{}", address), file=address))


@pytest.mark.parametrize(
    "form", [one for one in FORMS if "://" in one and any(sign in one for sign in "@?#")]
)
def test_attack_an_address_that_was_taken_for_a_path_shows_no_password(form: str) -> None:
    """A path has one slash where the address had two; it may have been made absolute."""
    path = Path(form.replace("{}", SECRET))
    assert SECRET in str(path)
    assert SECRET not in str(StoreError("cannot read", file=str(path)))
    assert SECRET not in str(StoreError("cannot read", file=str(path.absolute())))


@pytest.mark.parametrize(
    "path", ["C:/ada/notes.md", "/data/a@b/notes: one.md", "export.zip:users/a@b.json"]
)
def test_the_name_of_a_file_is_shown_as_it_is(path: str) -> None:
    """Though it has signs that addresses have."""
    assert StoreError("cannot read", file=path).file == path


@pytest.mark.parametrize("space", [" ", "'", '"', "<"])
def test_attack_a_password_with_a_space_in_it_is_not_shown_in_a_sentence(space: str) -> None:
    """Nobody can tell where such an address ends: too much is hidden rather than too little."""
    said = f"cannot connect to postgresql://u:one{space}{SECRET}@host/db, which is down"
    assert SECRET not in shown_text(said)


@given(secret=st.text(st.characters(exclude_categories=["C", "Z"]), min_size=4, max_size=20))
def test_no_password_is_shown_whatever_signs_it_has(secret: str) -> None:
    """As anybody types it, without escaping anything."""
    for form in ("postgresql://user:{}@host/db", "https://user:{}@host/", "x://user:{}@host"):
        shown = shown_address(form.format(f"{SECRET}{secret}{SECRET}"))
        assert SECRET not in shown


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///data/satchel.db",
        "sqlite:////var/lib/satchel.db",
        "ladybug:///folder",
        "postgresql://ada@host:5432/db?schema=memory&sslmode=require",
        "postgresql://host/db",
        "s3://bucket/prefix/of@something",
        "https://example.org:8443/v1/models",
        "http://[::1]:8000/v1",
        "memory://name",
        "data/satchel.db",
        "/data/a b/satchel.db",
        "qdrant://host:6333/collection",
    ],
)
def test_what_holds_no_secret_is_shown_as_it_is(address: str) -> None:
    """So that a person can see what was meant."""
    assert shown_address(address) == address
    if " " not in address:
        assert shown_text(f"it is {address}, there") == f"it is {address}, there"


@pytest.mark.parametrize("form", [one for one in FORMS if one[0].isalpha() and one[1] != ":"])
def test_attack_no_command_prints_a_password(
    form: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether the address is that of a store, or of anything at all; as text and as JSON."""
    del own_home
    address = form.replace("{}", SECRET)
    for words in (
        ("config", "show"),
        ("list",),
        ("doctor",),
        ("sink", "run", address),
        ("backup", "list", "--destination", address),
        ("import", address),
        ("export", "--output", address),
        ("verify", address),
    ):
        for more in ((), ("--json",)):
            run([*(("--store", address) if address not in words else ()), *words, *more])
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err


def test_attack_what_a_webhook_is_called_by_is_not_shown(
    own_home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its path and its query are often the secret; the host tells which it is."""
    del own_home
    config = tmp_path / "satchel.toml"
    hooks = (
        '[hooks]\non_remember = [{ webhook = "https://hooks.example.org/HUNTERTWO?k=HUNTERTWO" }]'
    )
    config.write_text(f'{hooks}\n[inference]\nbase_url = "http://127.0.0.1:9/v1?key=HUNTERTWO"\n')
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    for more in ((), ("--json",)):
        assert run(["config", "show", *more]) == 0
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "https://hooks.example.org" in said.out
    assert "http://127.0.0.1:9/v1" in said.out


@pytest.mark.parametrize(
    ("webhook", "says"),
    [
        ("http://user:HUNTERTWO@host/", "a user or password"),
        ("http://HUNTERTWO@host/", "a user or password"),
        ("http:///HUNTERTWO", "must be a URL"),
        ("https://host:HUNTERTWO/", "is not a valid URL"),
        ("https://host/HUNTER TWO", "a space"),
        ("ftp://host/HUNTERTWO", "must be a URL"),
        ("https://[HUNTERTWO/", "is not a valid URL"),
    ],
)
def test_a_webhook_that_could_never_be_called_is_refused(
    webhook: str, says: str, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the configuration is read, with what is wrong, and without what may be a secret."""
    del own_home
    config = tmp_path / "satchel.toml"
    config.write_text(f"[hooks]\non_remember = [{{ webhook = {json.dumps(webhook)} }}]\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    with pytest.raises(ConfigError, match=says) as caught:
        load_settings()
    assert SECRET not in str(caught.value)
    assert "hooks.on_remember" in str(caught.value)
