"""Keys: their text form, their files, and secrets that are never printed."""

import base64
import json
import os
import traceback
from pathlib import Path
from typing import Any

import pytest
from nacl import bindings, pwhash

from satchel.crypto import key_files
from satchel.crypto.canonical import canonical
from satchel.crypto.key_files import KeyRing, key_from_text, revocation, succession
from satchel.crypto.keys import (
    PayloadType,
    Signature,
    SigningKey,
    check,
    check_point,
    did_key,
    pae,
    parse_signatures,
    public_key,
    sign,
)
from satchel.errors import MalformedError, SatchelError, SigningKeyError, TargetExistsError

SEED = bytes(range(32))
SECRET = base64.b64encode(SEED).decode()


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeyRing:
    """An empty key ring with a quick key derivation."""
    monkeypatch.setattr(key_files, "_OPS", 1)
    monkeypatch.setattr(key_files, "_MEMORY", 8192)
    return KeyRing(tmp_path / "keys")


def edit_key_file(ring: KeyRing, name: str, **members: Any) -> Path:
    """Change members of a key file; None removes one."""
    path = ring.folder / f"{name}.key"
    value = json.loads(path.read_text()) | members
    path.write_bytes(canonical({k: v for k, v in value.items() if v is not None}) + b"\n")
    return path


def test_a_key_has_exactly_one_text_form(key: SigningKey) -> None:
    """The did:key names the 32 bytes, and no other text does."""
    public = public_key(key.did)
    assert did_key(public) == key.did
    assert len(key.did) == 56
    for wrong in (
        key.did + "\n",
        key.did.upper(),
        key.did.replace(":z", ":z1"),
        key.did[:-1],
        key.did + "#" + key.did[8:],
        "did:web:example.org",
        "did:key:z" + "1" * 47,
        "did:key:z" + "z" * 10_000,
        "",
    ):
        with pytest.raises(MalformedError):
            public_key(wrong)


ORDER_8 = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"


@pytest.mark.parametrize(
    "point",
    [
        "01" + "00" * 31,  # the identity: any message verifies under it
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  # order 2
        "00" * 32,  # order 4
        ORDER_8,
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  # identity again
        "ff" * 32,
        "02" + "00" * 31,  # not on the curve
    ],
)
def test_identity_and_small_order_keys_are_refused(point: str) -> None:
    """A signature of such a key is valid for every message."""
    raw = bytes.fromhex(point)
    with pytest.raises(MalformedError):
        check_point(raw)
    with pytest.raises(MalformedError):
        did_key(raw)


def test_a_mixed_order_key_is_refused(key: SigningKey) -> None:
    """A valid key plus a point of order 8 is accepted by some implementations only."""
    mixed = bindings.crypto_core_ed25519_add(public_key(key.did), bytes.fromhex(ORDER_8))
    with pytest.raises(MalformedError):
        did_key(mixed)


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    """An empty key file made the reference accept everything."""
    with pytest.raises(MalformedError):
        check_point(bytes(length))
    with pytest.raises((ValueError, SatchelError)):
        SigningKey.from_seed(bytes(length))


def test_a_signature_is_valid_only_for_its_payload_type_and_key(key: SigningKey) -> None:
    """A change of any of the three, or of a bit of the signature, invalidates it."""
    payload = {"a": 1, "b": "\u00e9"}
    (good,) = sign(PayloadType.ARTIFACT, payload, [key])
    assert check(PayloadType.ARTIFACT, payload, [good])[0].valid
    other = SigningKey.generate().did
    raw = base64.b64decode(good.sig)
    wrong = [
        (PayloadType.HEAD, payload, good),
        (PayloadType.ARTIFACT, {**payload, "a": 2}, good),
        (PayloadType.ARTIFACT, payload, Signature(key=other, sig=good.sig)),
        (PayloadType.ARTIFACT, payload, Signature(key="x", sig=good.sig)),
        (PayloadType.ARTIFACT, payload, Signature(key=good.key, sig="")),
        (PayloadType.ARTIFACT, payload, Signature(key=good.key, sig=good.sig + "\n")),
        (PayloadType.ARTIFACT, payload, Signature(key=good.key, sig=good.sig.rstrip("="))),
        (PayloadType.ARTIFACT, payload, Signature(key=good.key, sig=raw.hex())),
        (PayloadType.ARTIFACT, payload, Signature(key=good.key, sig="\u00e9")),
    ]
    for place in (0, 31, 32, 63):
        bent = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        sig = base64.b64encode(bent).decode()
        wrong.append((PayloadType.ARTIFACT, payload, Signature(key=good.key, sig=sig)))
    for kind, value, signature in wrong:
        (found,) = check(kind, value, [signature])
        assert not found.valid
        assert found.problem


def test_signatures_cover_the_pre_authentication_encoding(key: SigningKey) -> None:
    """DSSE: type and payload with their lengths in bytes, so neither runs into the other."""
    message = pae(PayloadType.HEAD, b'{"a":"\xc3\xa9"}')
    assert message == b'DSSEv1 36 application/vnd.satchel.head.v1+json 10 {"a":"\xc3\xa9"}'
    assert bindings.crypto_sign_open(key.sign(message) + message, public_key(key.did)) == message


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "x",
        [{}],
        [{"key": "k"}],
        [{"key": "k", "sig": "s", "note": "x"}],
        [{"key": 1, "sig": "s"}],
        [{"key": "k", "sig": "s"}, {"key": "k", "sig": "t"}],
        [{"key": str(number), "sig": "s"} for number in range(17)],
    ],
    ids=range(9),
)
def test_signatures_of_another_shape_are_malformed(value: Any) -> None:
    """Exactly key and sig, each key once, sixteen at most."""
    with pytest.raises(MalformedError):
        parse_signatures(value, 16)


def test_a_key_file_is_private_under_every_umask(ring: KeyRing) -> None:
    """Mode 0600 in a folder of mode 0700 from the first moment."""
    old = os.umask(0)
    try:
        made = ring.create("mine")
    finally:
        os.umask(old)
    assert (ring.folder / "mine.key").stat().st_mode & 0o777 == 0o600
    assert ring.folder.stat().st_mode & 0o777 == 0o700
    assert ring.load("mine").did == made.did
    assert ring.names() == ["mine"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666, 0o644])
def test_a_key_file_open_to_others_is_refused(ring: KeyRing, mode: int) -> None:
    """Other users may have copied it; the hint says how to close it."""
    ring.create("mine")
    (ring.folder / "mine.key").chmod(mode)
    with pytest.raises(SigningKeyError, match="others") as caught:
        ring.load("mine")
    assert "chmod 600" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "name",
    ["../x", "..", ".", "", "a/b", "/etc/x", ".hidden", "-x", "x\0", "x\n", "a" * 65, "é", "a b"],
)
def test_a_key_name_that_leaves_the_folder_is_refused(ring: KeyRing, name: str) -> None:
    """A name is not a path, in every function that takes one."""
    for attempt in (ring.create, ring.read, ring.load, ring.set_aside):
        with pytest.raises(SigningKeyError, match="name"):
            attempt(name)
    assert not ring.folder.exists()


def test_a_key_is_never_overwritten(ring: KeyRing) -> None:
    """Creating a key of an existing name is refused."""
    first = ring.create("mine")
    with pytest.raises(TargetExistsError, match="mine"):
        ring.create("mine")
    assert ring.load("mine").did == first.did
    retired = ring.set_aside("mine")
    assert ring.set_aside("mine") == retired  # again, where it was cut short
    second = ring.create("mine", replace=True)
    assert ring.load(retired).did == first.did
    assert ring.load("mine").did == second.did


def test_the_error_for_a_missing_key_says_how_to_create_it(ring: KeyRing) -> None:
    """The most common mistake."""
    with pytest.raises(SigningKeyError, match="no key named") as caught:
        ring.load("mine")
    assert "satchel key create mine" in str(caught.value)
    assert ring.names() == []


def test_only_the_right_passphrase_opens_a_key(ring: KeyRing) -> None:
    """Argon2id and an authenticated box: a wrong passphrase never gives another key."""
    made = ring.create("mine", passphrase="correct horse \u00e9")  # noqa: S106 - of a test
    assert ring.read("mine").protected
    assert base64.b64encode(made.seed) not in (ring.folder / "mine.key").read_bytes()
    assert ring.load("mine", passphrase="correct horse \u00e9").did == made.did  # noqa: S106
    for wrong in ("", "correct horse", "correct horse e\u0301", "x" * 10_000):
        with pytest.raises(SigningKeyError, match="wrong"):
            ring.load("mine", passphrase=wrong)
    with pytest.raises(SigningKeyError, match="protected"):
        ring.load("mine")


def test_a_wrapped_secret_is_bound_to_its_public_key(ring: KeyRing) -> None:
    """Under another public key it does not open."""
    ring.create("mine", passphrase="p")  # noqa: S106 - of a test
    edit_key_file(ring, "mine", key=SigningKey.generate().did)
    with pytest.raises(SigningKeyError):
        ring.load("mine", passphrase="p")  # noqa: S106 - of a test


def test_a_secret_under_another_public_key_is_refused(ring: KeyRing) -> None:
    """A file must not name one key and sign with another."""
    ring.create("mine")
    edit_key_file(ring, "mine", key=SigningKey.generate().did)
    with pytest.raises(SigningKeyError, match="does not belong"):
        ring.load("mine")


@pytest.mark.parametrize(
    "members",
    [
        {"ops": 17},
        {"ops": 0},
        {"ops": 2**40},
        {"memory_bytes": 2**30 + 1},
        {"memory_bytes": 2**50},
        {"memory_bytes": 1},
        {"kdf": "none"},
        {"note": "x"},
    ],
    ids=str,
)
def test_excessive_passphrase_work_in_a_key_file_is_refused(
    ring: KeyRing, monkeypatch: pytest.MonkeyPatch, members: dict[str, Any]
) -> None:
    """The cost is checked before anything is computed."""
    ring.create("mine", passphrase="p")  # noqa: S106 - of a test
    wrapped = json.loads((ring.folder / "mine.key").read_text())["wrapped"]
    edit_key_file(ring, "mine", wrapped=wrapped | members)

    def refuse(*_: Any) -> bytes:
        raise AssertionError("computed")

    monkeypatch.setattr(pwhash.argon2id, "kdf", refuse)
    with pytest.raises(MalformedError):
        ring.load("mine", passphrase="p")  # noqa: S106 - of a test


@pytest.mark.parametrize(
    "members",
    [
        {"salt": ""},
        {"salt": "AAAA"},
        {"nonce": "AAAA"},
        {"box": ""},
        {"box": "AAAA"},
        {"salt": "!"},
    ],
    ids=str,
)
def test_a_malformed_wrapping_is_a_typed_error(ring: KeyRing, members: dict[str, Any]) -> None:
    """No other error is raised for any fault inside."""
    ring.create("mine", passphrase="p")  # noqa: S106 - of a test
    wrapped = json.loads((ring.folder / "mine.key").read_text())["wrapped"]
    edit_key_file(ring, "mine", wrapped=wrapped | members)
    with pytest.raises(SigningKeyError):
        ring.load("mine", passphrase="p")  # noqa: S106 - of a test


@pytest.mark.parametrize(
    "members",
    [
        {"format": "satchel-key/2"},
        {"role": "root"},
        {"note": "x"},
        {"key": None},
        {"seed": 5},
    ],
    ids=str,
)
def test_a_key_file_of_another_shape_is_malformed(ring: KeyRing, members: dict[str, Any]) -> None:
    """A later version, or a mistake, is not guessed at."""
    ring.create("mine")
    edit_key_file(ring, "mine", **members)
    with pytest.raises(MalformedError):
        ring.load("mine")


@pytest.mark.parametrize("seed", ["", "AAAA", "not base64!", SECRET[:-4], None])
def test_a_key_file_with_a_wrong_secret_is_refused(ring: KeyRing, seed: str | None) -> None:
    """Empty, short, not base64, missing."""
    ring.create("mine", key=SigningKey.from_seed(SEED))
    edit_key_file(ring, "mine", seed=seed)
    with pytest.raises(SigningKeyError):
        ring.load("mine")


def printed_error(error: BaseException) -> str:
    """Return everything an error could print, including its causes."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


def test_secrets_are_never_printed(ring: KeyRing) -> None:
    """Not in a repr, an error or its cause, for any fault."""
    key = ring.create("mine", key=SigningKey.from_seed(SEED))
    held = ring.read("mine")
    secrets = [SECRET, SEED.hex(), repr(SEED)[2:-1]]
    for text in (repr(key), str(key), repr(held), str(held), f"{[held]}"):
        assert not any(secret in text for secret in secrets)
    assert held.seed == SECRET
    errors = []
    for text in (SECRET[:-4], SECRET + "AAAA", SECRET[:-1] + "!", "x" + SECRET):
        with pytest.raises(SigningKeyError) as caught:
            key_from_text(text)
        errors.append(printed_error(caught.value).replace(repr(text), ""))
        assert SECRET[:30] not in str(caught.value)
        assert SECRET[:30] not in repr(vars(caught.value))
    edit_key_file(ring, "mine", role="root")
    with pytest.raises(MalformedError) as malformed:
        ring.load("mine")
    assert SECRET not in printed_error(malformed.value)


def test_a_key_from_the_environment_is_base64_of_a_seed(key: SigningKey) -> None:
    """A final newline, as editors write it, is accepted."""
    assert key_from_text(SECRET).did == key_from_text(f" {SECRET}\n").did == key.did


def test_a_succession_is_signed_by_both_keys(key: SigningKey) -> None:
    """The old key and the new key both sign; one alone is not enough."""
    new = SigningKey.generate()
    value = succession(key, new)
    assert value["signed"]["payload"] == {"old": key.did, "new": new.did}
    signatures = parse_signatures(value["signatures"], 16)
    assert {signature.key for signature in signatures} == {key.did, new.did}
    found = check(PayloadType.CONFIG, value["signed"], signatures)
    assert all(one.valid for one in found)
    changed = {**value["signed"], "payload": {"old": key.did, "new": key.did}}
    assert not any(one.valid for one in check(PayloadType.CONFIG, changed, signatures))
    assert succession(key, new)["signed"]["nonce"] != value["signed"]["nonce"]


def test_a_revocation_is_signed(key: SigningKey) -> None:
    """It names the keys and, if given, the reason."""
    value = revocation(key, ["did:key:a", "did:key:b"], "stolen")
    assert value["signed"]["payload"] == {"keys": ["did:key:a", "did:key:b"], "reason": "stolen"}
    (found,) = check(PayloadType.CONFIG, value["signed"], parse_signatures(value["signatures"], 16))
    assert found.valid
    assert "reason" not in revocation(key, [], None)["signed"]["payload"]
