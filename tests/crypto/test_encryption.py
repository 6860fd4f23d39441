"""Encrypted files: age's format, streamed, complete or refused, with bounded work."""

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
def quick_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the key derivation cheap."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 2**16)


@pytest.fixture(scope="module")
def identity_pair() -> tuple[str, str]:
    """An identity and its recipient."""
    return new_identity()


@pytest.fixture
def unlocker(identity_pair: tuple[str, str], tmp_path: Path) -> Unlocker:
    """An unlocker that opens files for that recipient."""
    path = tmp_path / "id.txt"
    path.write_text(f"# created: some day\n# public key: {identity_pair[1]}\n{identity_pair[0]}\n")
    return Unlocker(files=(path,))


def encrypted(data: bytes, *recipients: str, passphrase: str | None = None) -> bytes:
    """Return data encrypted."""
    sink = io.BytesIO()
    encrypt(io.BytesIO(data), sink, Lock(recipients=recipients, passphrase=passphrase))
    return sink.getvalue()


def decrypted(data: bytes, unlocker: Unlocker) -> bytes:
    """Return data decrypted."""
    sink = io.BytesIO()
    decrypt(io.BytesIO(data), sink, unlocker)
    return sink.getvalue()


def unlocker_of(passphrase: str) -> Unlocker:
    """Return an unlocker with a passphrase."""
    return Unlocker(passphrase=lambda: passphrase)


# -- the format ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
def test_files_are_exchanged_with_age_in_both_directions(
    size: int, identity_pair: tuple[str, str], unlocker: Unlocker
) -> None:
    """Around the edges of its chunks."""
    data = bytes(range(251)) * (size // 251) + b"e" * (size % 251)
    identity = pyrage.x25519.Identity.from_str(identity_pair[0])
    assert pyrage.decrypt(encrypted(data, identity_pair[1]), [identity]) == data
    recipient = pyrage.x25519.Recipient.from_str(identity_pair[1])
    for armored in (False, True):
        assert decrypted(pyrage.encrypt(data, [recipient], armored=armored), unlocker) == data


def test_a_file_that_age_encrypted_with_a_passphrase_is_read(unlocker: Unlocker) -> None:
    """As ``age -p`` writes it; no other passphrase opens it."""
    theirs = base64.b64decode(_THEIRS)
    assert decrypted(theirs, unlocker_of("correct horse")) == b"memory"
    with pytest.raises(EncryptionError):
        decrypted(theirs, unlocker_of("wrong"))
    with pytest.raises(EncryptionError, match="passphrase"):
        decrypted(theirs, Unlocker(files=unlocker.files, passphrase=lambda: None))


def test_a_file_with_a_passphrase_is_an_age_file_after_its_first_line() -> None:
    """The first line contains a new identity; without that line age itself decrypts the file."""
    data = os.urandom(2 * CHUNK)
    made = encrypted(data, passphrase="correct horse")  # noqa: S106 - of a test
    assert decrypted(made, unlocker_of("correct horse")) == data
    line, _, rest = made.partition(b"\n")
    held = parse_identity_file(line)
    assert held.wrapped is not None
    secret = unwrap_identity(held.wrapped, held.recipient, "correct horse")
    assert pyrage.decrypt(rest, [pyrage.x25519.Identity.from_str(secret)]) == data
    assert b"correct horse" not in made
    assert secret.encode() not in made
    with pytest.raises(EncryptionError):
        decrypted(made, unlocker_of("wrong"))


def test_each_recipient_opens_the_file_and_no_one_else_does(tmp_path: Path) -> None:
    """For others the error says that no identity decrypts it, and what to do."""
    pairs = [new_identity() for _ in range(3)]
    made = encrypted(b"memory", pairs[0][1], pairs[1][1])
    for number, (identity, _) in enumerate(pairs):
        path = tmp_path / f"{number}.txt"
        path.write_text(identity)
        path.chmod(0o600)
        if number < 2:
            assert decrypted(made, Unlocker(files=(path,))) == b"memory"
        else:
            with pytest.raises(EncryptionError, match="no identity here decrypts") as caught:
                decrypted(made, Unlocker(files=(path,)))
            assert "--identity" in (caught.value.hint or "")


# -- truncated, changed, reordered ---------------------------------------------------------------


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
    order: list[int], identity_pair: tuple[str, str], unlocker: Unlocker
) -> None:
    """Each chunk is bound to its position, and the last one to the end."""
    head, chunks = _pieces(encrypted(os.urandom(3 * CHUNK + 100), identity_pair[1]))
    assert len(chunks) == 4
    with pytest.raises(EncryptionError):
        decrypted(head + b"".join(chunks[place] for place in order), unlocker)


def test_every_flipped_byte_and_every_truncation_is_refused(
    identity_pair: tuple[str, str], unlocker: Unlocker
) -> None:
    """Of a small file; nothing is read from it that was not written."""
    made = encrypted(b"likes tea", identity_pair[1])
    for place in range(len(made)):
        altered = bytearray(made)
        altered[place] ^= 1
        with pytest.raises((EncryptionError, MalformedError)):
            decrypted(bytes(altered), unlocker)
        with pytest.raises((EncryptionError, MalformedError)):
            decrypted(made[:place], unlocker)
    with pytest.raises(EncryptionError):
        decrypted(made + b"\0", unlocker)


def test_a_file_that_does_not_verify_returns_no_data(
    identity_pair: tuple[str, str], unlocker: Unlocker, tmp_path: Path
) -> None:
    """Its first chunks decrypt, and are not used."""
    made = encrypted(os.urandom(4 * CHUNK), identity_pair[1])
    path = tmp_path / "cut.age"
    path.write_bytes(made[:-1])
    with (
        OpenFile.named(path) as file,
        pytest.raises(EncryptionError, match="truncated or altered"),
        plain_file(file, unlocker),
    ):
        pytest.fail("the block must not run")


# -- hostile input --------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [19, 23, 30, 63, 999_999_999])
@pytest.mark.parametrize("armor", ["plain", "armored"])
def test_excessive_scrypt_work_is_refused_before_it_starts(
    work: int, armor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2^23 would take 8 GB and 42 seconds; the passphrase is not even asked for."""
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
        decrypted(made, Unlocker(passphrase=asked))


@pytest.mark.parametrize(
    "spelled", [b"018", b"+9", b"1e9", b" 5", b"-1", b"18 18", b""], ids=lambda part: part.decode()
)
def test_a_scrypt_line_in_another_spelling_is_refused(spelled: bytes) -> None:
    """The checked parameters have to be the ones that are used."""
    made = encryption.MAGIC + b"-> scrypt AAAAAAAAAAAAAAAAAAAAAA %b\nAAAA\n--- AAAA\n" % spelled
    with pytest.raises((MalformedError, EncryptionError)):
        decrypted(made + b"\0" * 32, unlocker_of("x"))


def test_a_large_file_with_an_age_passphrase_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It cannot be streamed, so its size is limited."""
    monkeypatch.setattr(encryption, "MOST_WHOLE", 1000)
    theirs = base64.b64decode(_THEIRS) + b"\0" * 1000
    with pytest.raises(LimitError, match="can have at most"):
        decrypted(theirs, unlocker_of("x"))


def test_an_endless_header_is_refused(unlocker: Unlocker) -> None:
    """Whatever number of recipients it claims."""
    endless = encryption.MAGIC + b"-> X25519 AAAA\nBBBB\n" * 100_000
    with pytest.raises(EncryptionError, match="header"):
        decrypted(endless, unlocker)


def test_excessive_argon2_work_is_refused() -> None:
    """In files of identities and in the line in front of the data."""
    identity, recipient = new_identity()
    value = identity_value(identity, recipient, "x")
    value["wrapped"] |= {"ops": 10_000_000}
    made = canonical(value) + b"\n" + encrypted(b"memory", recipient)
    with pytest.raises(MalformedError, match="ops"):
        decrypted(made, unlocker_of("x"))


def test_a_wrapped_identity_is_bound_to_its_recipient() -> None:
    """It does not open next to another recipient."""
    (identity, recipient), (_, other) = new_identity(), new_identity()
    value = identity_value(identity, recipient, "x") | {"recipient": other}
    with pytest.raises(EncryptionError):
        decrypted(canonical(value) + b"\n" + encrypted(b"m", recipient), unlocker_of("x"))


@pytest.mark.parametrize("text", ["", "age1", "age1qqqq", "ssh-ed25519 AAAA", "did:key:z6Mk"])
def test_an_invalid_recipient_is_refused(text: str) -> None:
    """No file is encrypted for an unknown recipient."""
    with pytest.raises(UsageError, match="recipient"):
        encryption.check_recipient(text)


def test_a_secret_key_as_recipient_is_not_printed(identity_pair: tuple[str, str]) -> None:
    """Not in the message, the hint, or the repr of an object that contains one."""
    with pytest.raises(UsageError) as caught:
        encryption.check_recipient(identity_pair[0])
    held = IdentityFile(
        format="satchel-identity/1",
        recipient=identity_pair[1],
        created_at="x",
        identity=identity_pair[0],
    )
    lock = Lock(passphrase="correct horse")  # noqa: S106 - of a test
    shown = f"{caught.value} {caught.value.hint} {held!r} {lock!r} {unlocker_of('correct horse')!r}"
    assert identity_pair[0] not in shown
    assert "correct horse" not in shown


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"AGE-SECRET-KEY-1\n", b"x\n"])
def test_a_file_without_an_identity_is_refused_without_printing_its_content(
    content: bytes, tmp_path: Path
) -> None:
    """The error names the file: the content may be a secret with a typo in it."""
    path = tmp_path / "id.txt"
    path.write_bytes(content)
    made = encrypted(b"m", new_identity()[1])
    with pytest.raises(SatchelError) as caught:
        decrypted(made, Unlocker(files=(path,)))
    assert "SECRET" not in str(caught.value)


# -- writing ---------------------------------------------------------------------------------------


def test_an_outlet_encrypts_and_compares_what_is_on_disk(
    identity_pair: tuple[str, str], unlocker: Unlocker, tmp_path: Path
) -> None:
    """The recipient is enough to compare; the folder contains no plain bytes."""
    data = b"likes tea, and nobody else may know" * 4000
    with Outlet.named(tmp_path / "a.age") as inner:
        outlet = EncryptedOutlet(inner, Lock(recipients=(identity_pair[1],)))
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
    assert decrypted((tmp_path / "a.age").read_bytes(), unlocker) == data
    assert (tmp_path / "a.age").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_leaves_no_partial_file(identity_pair: tuple[str, str], tmp_path: Path) -> None:
    """Neither half of an encrypted file nor a plain one."""

    def half(inner: Outlet) -> None:
        lock = Lock(recipients=(identity_pair[1],))
        with EncryptedOutlet(inner, lock).writing(overwrite=False) as stream:
            stream.write(b"half")
            raise OSError(28, "No space left on device")

    with Outlet.named(tmp_path / "a.age") as inner, pytest.raises(TargetError):
        half(inner)
    assert list(tmp_path.iterdir()) == []


def test_large_files_are_encrypted_in_constant_memory(
    identity_pair: tuple[str, str], unlocker: Unlocker, tmp_path: Path
) -> None:
    """32 MiB in less than 4 MiB of Python's memory."""
    plain, made, back = (tmp_path / name for name in ("plain", "made.age", "back"))
    with plain.open("wb") as stream:
        for _ in range(32):
            stream.write(b"x" * 2**20)
    tracemalloc.start()
    try:
        with plain.open("rb") as source, made.open("wb") as sink:
            encrypt(source, sink, Lock(recipients=(identity_pair[1],)))
        with made.open("rb") as source, back.open("wb") as sink:
            decrypt(source, sink, unlocker)
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
