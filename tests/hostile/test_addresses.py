"""Addresses: passwords in them are never printed, and malformed ones name no other place."""

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
def test_attack_an_address_reveals_its_password(form: str) -> None:
    """Alone, as a host, and within a sentence; masking is idempotent."""
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
def test_attack_an_address_used_as_a_path_reveals_its_password(form: str) -> None:
    """A path has one slash instead of two; it may have been made absolute."""
    path = Path(form.replace("{}", SECRET))
    assert SECRET in str(path)
    assert SECRET not in str(StoreError("cannot read", file=str(path)))
    assert SECRET not in str(StoreError("cannot read", file=str(path.absolute())))


@pytest.mark.parametrize(
    "path", ["C:/ada/notes.md", "/data/a@b/notes: one.md", "export.zip:users/a@b.json"]
)
def test_file_names_are_not_masked(path: str) -> None:
    """Even if they contain characters of addresses."""
    assert StoreError("cannot read", file=path).file == path


@pytest.mark.parametrize("space", [" ", "'", '"', "<"])
def test_attack_a_password_with_a_space_is_revealed_in_a_sentence(space: str) -> None:
    """The end of such an address is ambiguous: too much is masked rather than too little."""
    said = f"cannot connect to postgresql://u:one{space}{SECRET}@host/db, which is down"
    assert SECRET not in shown_text(said)


@given(secret=st.text(st.characters(exclude_categories=["C", "Z"]), min_size=4, max_size=20))
def test_passwords_of_any_characters_are_masked(secret: str) -> None:
    """As typed, without escaping."""
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
def test_addresses_without_a_secret_are_not_masked(address: str) -> None:
    """So that a user can recognize them."""
    assert shown_address(address) == address
    if " " not in address:
        assert shown_text(f"it is {address}, there") == f"it is {address}, there"


@pytest.mark.in_check(16)
@pytest.mark.parametrize("form", [one for one in FORMS if one[0].isalpha() and one[1] != ":"])
def test_attack_a_command_prints_the_password_of_an_address(
    form: str, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the store's address or an argument; as text and as JSON."""
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


@pytest.mark.parametrize("output", ["host=h password=HUNTERTWO", "password='HUNTERTWO' host=h"])
def test_attack_an_export_writes_a_file_named_after_a_password(
    output: str,
    own_home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection string in place of the output is refused before anything is written."""
    del own_home
    monkeypatch.chdir(tmp_path)
    assert run(["remember", "Ada drinks tea"]) == 0
    before = sorted(path.name for path in tmp_path.iterdir())
    for words in (["export", "--output", output], ["export", "--output", output, "--json"]):
        assert run(words) == 2
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_attack_config_show_prints_the_secret_of_a_webhook(
    own_home: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Path and query are often the secret; only the host is printed."""
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
def test_an_invalid_webhook_is_refused(
    webhook: str, says: str, own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the configuration is read; the error omits possible secrets."""
    del own_home
    config = tmp_path / "satchel.toml"
    config.write_text(f"[hooks]\non_remember = [{{ webhook = {json.dumps(webhook)} }}]\n")
    monkeypatch.setenv("SATCHEL_CONFIG", str(config))
    with pytest.raises(ConfigError, match=says) as caught:
        load_settings()
    assert SECRET not in str(caught.value)
    assert "hooks.on_remember" in str(caught.value)


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and a home with a memory."""
    monkeypatch.chdir(tmp_path)
    assert run(["remember", "something"]) == 0
    return tmp_path


@pytest.mark.usefixtures("working_folder")
@pytest.mark.parametrize("scheme", ["qdrant", "mem0", "chroma", "memfs"])
@pytest.mark.parametrize("rest", ["./folder", "folder", "../folder", "~/folder"])
def test_an_address_with_two_slashes_is_not_a_folder_at_the_root(
    scheme: str, rest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`qdrant://./folder` was once read as `/folder`, and an export written there."""
    address = f"{scheme}://{rest}"
    for arguments in (["export", "--output", address], ["import", address, "--bank", "b"]):
        capsys.readouterr()
        assert run(arguments) == 2
        assert f"Write {scheme}:///path/to/folder" in " ".join(capsys.readouterr().err.split())
    assert not Path("/folder").exists()


@pytest.mark.parametrize(
    "address",
    [
        *("ladybug:folder", "sqlite:file.db", "postgresql:database", "LADYBUG:folder"),
        *("host=127.0.0.1 password=hunter2", "dbname=x password = 'hunter2'"),
    ],
)
def test_a_malformed_store_address_is_not_used_as_a_file_name(
    working_folder: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file named like a connection string would show its password."""
    before = sorted(working_folder.iterdir())
    for arguments in (["init"], ["list"], ["remember", "x"]):
        capsys.readouterr()
        assert run(["--store", address, *arguments]) == 2
        said = capsys.readouterr()
        assert "not a store address" in said.err
        assert "hunter2" not in said.out + said.err
    assert sorted(working_folder.iterdir()) == before
