"""An address that is written almost as it should be names no other place."""

from pathlib import Path

import pytest

from satchel.cli.main import run


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this test's own."""
    monkeypatch.chdir(tmp_path)
    assert run(["remember", "something"]) == 0
    return tmp_path


@pytest.mark.parametrize("scheme", ["qdrant", "mem0", "chroma", "memfs"])
@pytest.mark.parametrize("rest", ["./folder", "folder", "../folder", "~/folder"])
def test_two_slashes_are_no_folder_at_the_root(
    scheme: str, rest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attack: of `qdrant://./folder` a path leaves `/folder`, and the export was written there."""
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
def test_what_is_no_address_is_no_file_of_that_name(
    here: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attack: a connection string as a file name shows its password wherever files are named."""
    before = sorted(here.iterdir())
    for arguments in (["init"], ["list"], ["remember", "x"]):
        capsys.readouterr()
        assert run(["--store", address, *arguments]) == 2
        said = capsys.readouterr()
        assert "not a store address" in said.err
        assert "hunter2" not in said.out + said.err
    assert sorted(here.iterdir()) == before
