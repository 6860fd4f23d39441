"""The Python API: what ``import satchel`` offers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from satchel.actions.converting import Conversion
    from satchel.actions.inspecting import Overview
    from satchel.api.arguments import ConvertArguments, VerifyArguments
    from satchel.seal.verify.verification import Verification


def verify(path: str | Path, **options: Unpack[VerifyArguments]) -> Verification:
    """Verify a sealed file against the keys this machine trusts.

    Args:
        path: A ``.pam.jsonl``, ``.pam`` or ``.pam.cbor`` file, or one of these as ``.gz``.
        **options: ``deep``, ``require_fresh``, ``entry``, ``keys``, ``threshold``, ``on_progress``.

    Returns:
        A value that is truthy when the outcome is ``good``; it says what each step found.

    Raises:
        UnreadableError: If the file cannot be read.
        UnknownFormatError: If it is no sealed file.
    """
    from satchel.actions import verifying
    from satchel.actions.config import load_settings

    return verifying.verify(Path(path), load_settings(), verifying.VerifyOptions(**options))


def convert(
    source: str | Path, output: str | Path, **options: Unpack[ConvertArguments]
) -> Conversion:
    """Convert memory from one format to another.

    Args:
        source: What to read; its format is recognised.
        output: What to write; the format follows from the name, or ``to``.
        **options: ``from_``, ``to``, ``profile``, ``key_name``, ``passphrase``, ``sign``,
            ``overwrite``, ``skip_bad``, ``text_member``, ``fail_on_loss``,
            ``accept_loss``, ``sidecar``, ``ignore_sidecar``, ``receipt``,
            ``dry_run``, ``unsafe_accept``, ``trusted_keys``.

    Returns:
        What was read, written, lost, and how the output verified when it was read back.

    Raises:
        SatchelError: One of the tree in ``satchel.errors``; nothing half-written is left behind.
    """
    from satchel.actions import converting
    from satchel.actions.config import load_settings
    from satchel.actions.converting import ConvertOptions
    from satchel.actions.signing import signing_key
    from satchel.seal.verify.verification import Outcome

    settings = load_settings()
    key = None
    if options.get("sign", True) and not options.get("dry_run", False):
        key, _ = signing_key(
            settings, options.get("key_name"), passphrase=options.get("passphrase")
        )
    accepted = frozenset(Outcome(text) for text in options.get("unsafe_accept", ()))
    return converting.convert(
        Path(source),
        Path(output),
        settings,
        ConvertOptions(
            source_format=options.get("from_"),
            target_format=options.get("to"),
            profile=options.get("profile"),
            key=key,
            overwrite=options.get("overwrite", False),
            skip_bad=options.get("skip_bad", False),
            text_member=options.get("text_member"),
            fail_on_loss=options.get("fail_on_loss", False),
            accept_loss=tuple(options.get("accept_loss", ())),
            sidecar=options.get("sidecar", False),
            ignore_sidecar=options.get("ignore_sidecar", False),
            receipt=options.get("receipt"),
            dry_run=options.get("dry_run", False),
            unsafe_accept=accepted,
            trusted_keys=tuple(options.get("trusted_keys", ())),
            on_progress=options.get("on_progress"),
        ),
    )


def inspect(path: str | Path, *, from_: str | None = None) -> Overview:
    """Say what a file holds, without changing anything.

    Raises:
        InputError: If it cannot be read or is malformed.
        UnknownFormatError: If no format recognises it.
    """
    from satchel.actions import inspecting
    from satchel.actions.config import load_settings

    return inspecting.inspect(Path(path), load_settings(), from_)
