"""Encrypted files: age's own format, in streams, whole or not at all, within bounds of work."""

import base64
import io
import os
import tracemalloc
from pathlib import Path

import pyrage
import pytest

from satchel.crypto import encryption, key_files
from satchel.crypto.canonical import canonical
from satchel.crypto.encryption import (
    EncryptedOutlet,
    IdentityFile,
    Lock,
    Unlocker,
    decrypt,
    encrypt,
    identity_value,
    new_identity,
    parse_identity_file,
    plain_file,
    unwrap_identity,
)
from satchel.errors import (
    EncryptionError,
    LimitError,
    MalformedError,
    MissingExtraError,
    SatchelError,
    TargetError,
    UsageError,
)
from satchel.runtime.files import OpenFile
from satchel.runtime.output import Outlet

pytestmark = pytest.mark.usefixtures("private_umask")

_THEIRS = (
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IHNjcnlwdCBnZXFuc2hjeG9aTmtkTkNBOGdiR01BIDE3CnJPRCtnYmtwYXhy"
    "YTBqQzN1eitEUHV6ZFdMdjExK1RFY2ZQUk1QOTdYV3MKLS0tIFNLUWlSckRRMVNDK0IyNTRqODhjM1BFdFBJUFFyak9Q"
    "K244cUQ0SS9ucDgKSp3v9sEBHndTL6WXhLQUJ+1H7Gi44fyR47VrmB14O8wu/2/u5mk="
)
"""The text `memory`, encrypted by age itself under `correct horse`, with 2^17 steps of scrypt."""

CHUNK = 65_536
"""Plain bytes of one chunk of age; 16 more when encrypted."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a passphrase cost little here."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 2**16)


@pytest.fixture(scope="module")
def pair() -> tuple[str, str]:
    """An identity and its recipient."""
    return new_identity()


@pytest.fixture
def unlocking(pair: tuple[str, str], tmp_path: Path) -> Unlocker:
    """What opens files for that recipient."""
    path = tmp_path / "id.txt"
    path.write_text(f"# created: some day\n# public key: {pair[1]}\n{pair[0]}\n")
    return Unlocker(files=(path,))


def sealed(data: bytes, *recipients: str, passphrase: str | None = None) -> bytes:
    """Return data encrypted."""
    sink = io.BytesIO()
    encrypt(io.BytesIO(data), sink, Lock(recipients=recipients, passphrase=passphrase))
    return sink.getvalue()


def opened(data: bytes, unlocking: Unlocker) -> bytes:
    """Return data decrypted."""
    sink = io.BytesIO()
    decrypt(io.BytesIO(data), sink, unlocking)
    return sink.getvalue()


def says(passphrase: str) -> Unlocker:
    """Return what opens files under a passphrase."""
    return Unlocker(passphrase=lambda: passphrase)


# -- the format ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_what_is_encrypted_here_is_age_and_what_age_encrypts_is_read(
    size: int, pair: tuple[str, str], unlocking: Unlocker
) -> None:
    """Both ways, around the edges of its chunks."""
    data = bytes(range(251)) * (size // 251) + b"e" * (size % 251)
    identity = pyrage.x25519.Identity.from_str(pair[0])
    assert pyrage.decrypt(sealed(data, pair[1]), [identity]) == data
    recipient = pyrage.x25519.Recipient.from_str(pair[1])
    for armored in (False, True):
        assert opened(pyrage.encrypt(data, [recipient], armored=armored), unlocking) == data


def test_a_passphrase_of_ages_own_is_read(unlocking: Unlocker) -> None:
    """As `age -p` writes it; nothing else opens it."""
    theirs = base64.b64decode(_THEIRS)
    assert opened(theirs, says("correct horse")) == b"memory"
    with pytest.raises(EncryptionError):
        opened(theirs, says("wrong"))
    with pytest.raises(EncryptionError, match="passphrase"):
        opened(theirs, Unlocker(files=unlocking.files, passphrase=lambda: None))


def test_under_a_passphrase_the_rest_of_the_file_is_plain_age() -> None:
    """The line before it holds a fresh identity; without it age itself decrypts."""
    data = os.urandom(2 * CHUNK)
    made = sealed(data, passphrase="correct horse")  # noqa: S106 - of nobody
    assert opened(made, says("correct horse")) == data
    line, _, rest = made.partition(b"\n")
    held = parse_identity_file(line)
    assert held.wrapped is not None
    secret = unwrap_identity(held.wrapped, held.recipient, "correct horse")
    assert pyrage.decrypt(rest, [pyrage.x25519.Identity.from_str(secret)]) == data
    assert b"correct horse" not in made
    assert secret.encode() not in made
    with pytest.raises(EncryptionError):
        opened(made, says("wrong"))


def test_any_of_several_recipients_opens_it_and_nobody_else(tmp_path: Path) -> None:
    """Who is not named learns that no identity here decrypts it, and what to do."""
    pairs = [new_identity() for _ in range(3)]
    made = sealed(b"memory", pairs[0][1], pairs[1][1])
    for number, (identity, _) in enumerate(pairs):
        path = tmp_path / f"{number}.txt"
        path.write_text(identity)
        path.chmod(0o600)
        if number < 2:
            assert opened(made, Unlocker(files=(path,))) == b"memory"
        else:
            with pytest.raises(EncryptionError, match="no identity here decrypts") as caught:
                opened(made, Unlocker(files=(path,)))
            assert "--identity" in (caught.value.hint or "")


# -- cut, altered, reordered ---------------------------------------------------------------------


def _pieces(made: bytes) -> tuple[bytes, list[bytes]]:
    """Return the header of age data with its nonce, and its chunks."""
    end = made.index(b"\n--- ")
    start = made.index(b"\n", end + 1) + 1 + 16
    return made[:start], [made[at : at + CHUNK + 16] for at in range(start, len(made), CHUNK + 16)]


@pytest.mark.parametrize(
    "order",
    [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3], [0, 1, 2], [0, 0, 1, 2, 3], [0, 1, 2, 3, 3], [3], []],
    ids=lambda order: "".join(map(str, order)) or "none",
)
def test_chunks_that_are_moved_omitted_or_repeated_are_refused(
    order: list[int], pair: tuple[str, str], unlocking: Unlocker
) -> None:
    """Each chunk is bound to its place, and the last one to the end."""
    head, chunks = _pieces(sealed(os.urandom(3 * CHUNK + 100), pair[1]))
    assert len(chunks) == 4
    with pytest.raises(EncryptionError):
        opened(head + b"".join(chunks[place] for place in order), unlocking)


def test_every_byte_flipped_and_every_cut_is_refused(
    pair: tuple[str, str], unlocking: Unlocker
) -> None:
    """Of a small file: nothing is read from it that was not written."""
    made = sealed(b"likes tea", pair[1])
    for place in range(len(made)):
        altered = bytearray(made)
        altered[place] ^= 1
        with pytest.raises((EncryptionError, MalformedError)):
            opened(bytes(altered), unlocking)
        with pytest.raises((EncryptionError, MalformedError)):
            opened(made[:place], unlocking)
    with pytest.raises(EncryptionError):
        opened(made + b"\0", unlocking)


def test_nothing_of_a_file_that_does_not_verify_is_returned(
    pair: tuple[str, str], unlocking: Unlocker, tmp_path: Path
) -> None:
    """Its first chunks decrypt well, and are not used."""
    made = sealed(os.urandom(4 * CHUNK), pair[1])
    path = tmp_path / "cut.age"
    path.write_bytes(made[:-1])
    with (
        OpenFile.named(path) as file,
        pytest.raises(EncryptionError, match="truncated or altered"),
        plain_file(file, unlocking),
    ):
        pytest.fail("nothing of it is given")


# -- hostile --------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [19, 23, 30, 63, 999_999_999])
@pytest.mark.parametrize("armor", ["plain", "armored"])
def test_a_file_that_asks_for_too_much_scrypt_is_refused_before_any_is_done(
    work: int, armor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2^23 would take 8 GB and 42 seconds; nobody is even asked for the passphrase."""
    salt, body, mac = (base64.b64encode(b"x" * size).rstrip(b"=") for size in (16, 32, 32))
    made = (
        encryption.MAGIC + b"-> scrypt %b %d\n%b\n--- %b\n" % (salt, work, body, mac) + b"\0" * 48
    )
    if armor == "armored":
        text = base64.encodebytes(made).rstrip(b"\n")
        made = encryption.ARMOR + b"\n" + text + b"\n-----END AGE ENCRYPTED FILE-----\n"

    def asked() -> str:
        pytest.fail("the passphrase was asked for")

    monkeypatch.setattr(pyrage.passphrase, "decrypt", asked)
    with pytest.raises(LimitError, match="scrypt"):
        opened(made, Unlocker(passphrase=asked))


@pytest.mark.parametrize(
    "spelled", [b"018", b"+9", b"1e9", b" 5", b"-1", b"18 18", b""], ids=lambda part: part.decode()
)
def test_a_scrypt_line_in_another_spelling_is_refused(spelled: bytes) -> None:
    """What is looked at before the work has to be what the work is done by."""
    made = encryption.MAGIC + b"-> scrypt AAAAAAAAAAAAAAAAAAAAAA %b\nAAAA\n--- AAAA\n" % spelled
    with pytest.raises((MalformedError, EncryptionError)):
        opened(made + b"\0" * 32, says("x"))


def test_a_large_file_under_ages_own_passphrase_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cannot be streamed, so it has a bound."""
    monkeypatch.setattr(encryption, "MOST_WHOLE", 1000)
    theirs = base64.b64decode(_THEIRS) + b"\0" * 1000
    with pytest.raises(LimitError, match="can have at most"):
        opened(theirs, says("x"))


def test_a_header_without_end_is_refused(unlocking: Unlocker) -> None:
    """However many recipients it claims."""
    endless = encryption.MAGIC + b"-> X25519 AAAA\nBBBB\n" * 100_000
    with pytest.raises(EncryptionError, match="header"):
        opened(endless, unlocking)


def test_a_line_before_the_data_cannot_ask_for_endless_work() -> None:
    """Argon2id has bounds as well, in files of identities as in front of data."""
    identity, recipient = new_identity()
    value = identity_value(identity, recipient, "x")
    value["wrapped"] |= {"ops": 10_000_000}
    made = canonical(value) + b"\n" + sealed(b"memory", recipient)
    with pytest.raises(MalformedError, match="ops"):
        opened(made, says("x"))


def test_a_wrapped_identity_opens_beside_no_other_recipient() -> None:
    """It is bound to the recipient that stands beside it."""
    (identity, recipient), (_, other) = new_identity(), new_identity()
    value = identity_value(identity, recipient, "x") | {"recipient": other}
    with pytest.raises(EncryptionError):
        opened(canonical(value) + b"\n" + sealed(b"m", recipient), says("x"))


@pytest.mark.parametrize("text", ["", "age1", "age1qqqq", "ssh-ed25519 AAAA", "did:key:z6Mk"])
def test_what_is_no_recipient_is_refused(text: str) -> None:
    """Nothing is encrypted to nobody."""
    with pytest.raises(UsageError, match="recipient"):
        encryption.check_recipient(text)


def test_a_secret_key_as_recipient_is_not_printed(pair: tuple[str, str]) -> None:
    """Not in the message, the hint, or a repr of what holds one."""
    with pytest.raises(UsageError) as caught:
        encryption.check_recipient(pair[0])
    held = IdentityFile(
        format="satchel-identity/1", recipient=pair[1], created_at="x", identity=pair[0]
    )
    lock = Lock(passphrase="correct horse")  # noqa: S106 - of nobody
    shown = f"{caught.value} {caught.value.hint} {held!r} {lock!r} {says('correct horse')!r}"
    assert pair[0] not in shown
    assert "correct horse" not in shown


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"AGE-SECRET-KEY-1\n", b"x\n"])
def test_a_file_without_an_identity_is_refused_by_its_name(content: bytes, tmp_path: Path) -> None:
    """Its content is not repeated: it may be a secret with a slip in it."""
    path = tmp_path / "id.txt"
    path.write_bytes(content)
    made = sealed(b"m", new_identity()[1])
    with pytest.raises(SatchelError) as caught:
        opened(made, Unlocker(files=(path,)))
    assert "SECRET" not in str(caught.value)


# -- writing ---------------------------------------------------------------------------------------


def test_an_outlet_encrypts_and_reads_back_what_is_on_the_disk(
    pair: tuple[str, str], unlocking: Unlocker, tmp_path: Path
) -> None:
    """Who holds only the recipient can still compare; plain bytes are nowhere in the folder."""
    data = b"likes tea, and nobody else may know" * 4000
    with Outlet.named(tmp_path / "a.age") as inner:
        outlet = EncryptedOutlet(inner, Lock(recipients=(pair[1],)))
        with outlet.defer_publication():
            with outlet.writing(overwrite=False) as stream:
                stream.write(data)
            assert not (tmp_path / "a.age").exists()
            with outlet.written() as again, again.stream() as stream:
                assert stream.read() == data
            for path in tmp_path.iterdir():
                assert b"nobody else" not in path.read_bytes()
        with outlet.stored() as file, file.stream() as stream:
            assert stream.read(len(encryption.MAGIC)) == encryption.MAGIC
    assert opened((tmp_path / "a.age").read_bytes(), unlocking) == data
    assert (tmp_path / "a.age").stat().st_mode & 0o777 == 0o600


def test_a_disk_that_is_full_leaves_nothing(pair: tuple[str, str], tmp_path: Path) -> None:
    """Neither half an encrypted file nor a plain one."""

    def half(inner: Outlet) -> None:
        lock = Lock(recipients=(pair[1],))
        with EncryptedOutlet(inner, lock).writing(overwrite=False) as stream:
            stream.write(b"half")
            raise OSError(28, "No space left on device")

    with Outlet.named(tmp_path / "a.age") as inner, pytest.raises(TargetError):
        half(inner)
    assert list(tmp_path.iterdir()) == []


def test_large_files_pass_through_in_constant_memory(
    pair: tuple[str, str], unlocking: Unlocker, tmp_path: Path
) -> None:
    """32 MiB in less than 4 MiB of Python's memory."""
    plain, made, back = (tmp_path / name for name in ("plain", "made.age", "back"))
    with plain.open("wb") as stream:
        for _ in range(32):
            stream.write(b"x" * 2**20)
    tracemalloc.start()
    try:
        with plain.open("rb") as source, made.open("wb") as sink:
            encrypt(source, sink, Lock(recipients=(pair[1],)))
        with made.open("rb") as source, back.open("wb") as sink:
            decrypt(source, sink, unlocking)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert back.stat().st_size == plain.stat().st_size


def test_without_pyrage_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Everything else works without it."""
    monkeypatch.setitem(__import__("sys").modules, "pyrage", None)
    with pytest.raises(MissingExtraError) as caught:
        new_identity()
    assert caught.value.hint == "Reinstall satchel."
