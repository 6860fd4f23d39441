"""``satchel token``: what others may do with the memory of a bank."""

from pathlib import Path
from typing import Annotated

import msgspec

from satchel.actions.opened import opened_bank
from satchel.actions.tokens import issuing, judging, revoking
from satchel.actions.tokens.issuing import TokenAsked
from satchel.actions.tokens.told import ChainTold
from satchel.errors import UsageError
from satchel.surfaces.cli._console import (
    facts,
    line,
    message,
    print_json,
    print_text,
    short,
    state,
    table,
)
from satchel.surfaces.cli._options import Force, InBank, Json, Owner, owner_key
from satchel.surfaces.cli._stdout import NAME, file_or_none, output_file
from satchel.surfaces.cli._tree import Argument, Group, Option

token = Group(help="What others may do with the memory of a bank.")

_File = Annotated[str, Argument(metavar="TOKEN", help="The token: a file, or its JSON.")]
_Audience = Annotated[
    str | None,
    Option("--audience", help="Whose it is to be: a did:key, a key's name here, or a file."),
]
_Allow = Annotated[
    str,
    Option("--allow", help="Of read, write, derive, redact, export, rehydrate; joined by commas."),
]
_Entry = Annotated[list[str] | None, Option("--entry", help="Only this entry. Repeatable.")]
_EntriesFrom = Annotated[
    Path | None, Option("--entries-from", help="Only the entries of this file, an id a line.")
]
_Component = Annotated[
    list[str] | None, Option("--component", help="Only this component. Repeatable.")
]
_AnyTag = Annotated[
    list[str] | None, Option("--any-tag", help="Only with one of these tags. Repeatable.")
]
_AllTags = Annotated[
    list[str] | None, Option("--tag", help="Only with all of these tags. Repeatable.")
]
_NoTag = Annotated[
    list[str] | None, Option("--no-tag", help="Only without these tags. Repeatable.")
]
_Everything = Annotated[
    bool,
    Option("--everything", help="No bounds; of a part: those that the token has itself."),
]
_Expires = Annotated[
    str | None,
    Option("--expires", help="Its end: a moment, or 30m, 12h, 7d, 2w from now."),
]
_NotBefore = Annotated[
    str | None, Option("--not-before", help="Its beginning, likewise; at once otherwise.")
]
_Output = Annotated[Path | None, Option("--output", "-o", help="File for it; on stdout otherwise.")]
_Artifact = Annotated[
    str | None,
    Option("--artifact", help="Root hash of the one artifact that it is for, not the bank."),
]


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(token, name="token")


@token.command("issue")
def issue_command(
    audience: _Audience = None,
    bearer: Annotated[bool, Option("--bearer", help="For whoever has it; a day at most.")] = False,
    allow: _Allow = "read",
    entry: _Entry = None,
    entries_from: _EntriesFrom = None,
    component: _Component = None,
    any_tag: _AnyTag = None,
    tag: _AllTags = None,
    no_tag: _NoTag = None,
    everything: _Everything = False,
    expires: _Expires = None,
    not_before: _NotBefore = None,
    artifact: _Artifact = None,
    bank: InBank = None,
    key: Owner = None,
    output: _Output = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Let somebody do something with a part of a bank, until a moment.

    The token is signed by an owner of the bank and noted in its log, where it can be revoked.
    Several bounds hold together. Its holder presents it with `--token` or SATCHEL_TOKEN, and
    proves to be the audience by its key.

    Example: `satchel token issue --audience specialist --component procedural --allow read`
    """
    if bearer is (audience is not None):
        raise UsageError("say --audience KEY, or --bearer", field="--audience")
    asked = TokenAsked(
        audience=audience,
        permissions=_words(allow),
        entries=[*(entry or []), *_listed(entries_from)],
        components=component or (),
        any_of=any_tag or (),
        all_of=tag or (),
        none_of=no_tag or (),
        everything=everything,
        expires=expires,
        not_before=not_before,
        root_hash=artifact,
    )
    with opened_bank(state.settings, bank, writes=True) as opened:
        owner = owner_key(key)
        found = issuing.issue_token(
            opened, asked, owner, output=file_or_none(output), overwrite=force
        )
    _show_made(found, as_json=as_json)


@token.command("attenuate")
def attenuate_command(
    there: _File,
    audience: Annotated[
        str,
        Option("--audience", help="Whose the part is to be; as for `satchel token issue`."),
    ],
    allow: _Allow = "read",
    entry: _Entry = None,
    entries_from: _EntriesFrom = None,
    component: _Component = None,
    any_tag: _AnyTag = None,
    tag: _AllTags = None,
    no_tag: _NoTag = None,
    everything: _Everything = False,
    expires: _Expires = None,
    not_before: _NotBefore = None,
    artifact: _Artifact = None,
    output: _Output = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Hand a part of a token on, as its holder; it can only be narrower, and ends no later.

    That needs the holder's key, and nothing else: no store, and nobody's leave.

    Example: `satchel token attenuate my.token --audience helper --any-tag build -o helper.token`
    """
    asked = TokenAsked(
        audience=audience,
        permissions=_words(allow),
        entries=[*(entry or []), *_listed(entries_from)],
        components=component or (),
        any_of=any_tag or (),
        all_of=tag or (),
        none_of=no_tag or (),
        everything=everything,
        expires=expires,
        not_before=not_before,
        root_hash=artifact,
    )
    found = issuing.attenuate_token(
        state.settings, there, asked, output=file_or_none(output), overwrite=force
    )
    _show_made(found, as_json=as_json)


@token.command("inspect")
def inspect_command(there: _File, as_json: Json = False) -> None:
    """Show what a token says; its signatures and links are checked, and nothing else.

    Example: `satchel token inspect specialist.token`
    """
    found = judging.inspect_token(there)
    if as_json:
        print_json(found)
    else:
        _show(found)


@token.command("verify")
def verify_command(
    there: _File,
    may: Annotated[
        str, Option("--may", help="It has to allow all of these; joined by commas.")
    ] = "",
    entry: Annotated[str | None, Option("--entry", help="It has to cover this entry.")] = None,
    revocations: Annotated[
        Path | None,
        Option("--revocations", help="Signed list of revoked tokens, for another's bank."),
    ] = None,
    artifact: _Artifact = None,
    as_json: Json = False,
) -> int:
    """Tell whether a token holds now: its signatures, issuer, times, and that nobody revoked it.

    Who owns its bank, and what was revoked, is read from the bank's log where it is here; else by
    the keys that are trusted for this very bank. Exit status: 0 it holds, 3 it does not.

    Example: `satchel token verify specialist.token --may read`
    """
    asked = judging.Judging(
        permissions=_words(may), entry=entry, revocations=revocations, artifact=artifact
    )
    found = judging.verify_token(state.settings, there, asked)
    if as_json:
        print_json(found)
        return found.exit_status
    line("it holds" if found else "it does not hold: ", found.problem or "")
    _show(found.chain)
    for note in found.notes:
        message("note: ", note)
    return found.exit_status


@token.command("revoke")
def revoke_command(
    wanted: Annotated[
        str, Argument(metavar="TOKEN", help="Its id, the start of that, or its file.")
    ],
    reason: Annotated[str | None, Option(help="Why, for whoever reads the log.")] = None,
    bank: InBank = None,
    key: Owner = None,
    as_json: Json = False,
) -> None:
    """End a token, and with it all that were made from it.

    Example: `satchel token revoke specialist.token --reason "the work is done"`
    """
    with opened_bank(state.settings, bank, writes=True) as opened:
        found = revoking.revoke_token(opened, wanted, owner_key(key), reason=reason)
    if as_json:
        print_json(found)
    else:
        line("revoked " if found.is_new else "was revoked already: ", found.id)


@token.command("list")
def list_command(
    bank: InBank = None,
    everything: Annotated[
        bool, Option("--all", help="Also those that ended or were revoked.")
    ] = False,
    limit: Annotated[int, Option(help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List the tokens that were issued for a bank, the newest first.

    Example: `satchel token list --all`
    """
    with opened_bank(state.settings, bank) as opened:
        found = revoking.list_tokens(opened, everything=everything, limit=limit)
    if as_json:
        print_json(found)
        return
    if not found.tokens:
        message("No token is active. With those of the past: --all")
        return
    rows: list[list[object]] = [
        [
            short(one.id),
            one.state,
            one.expires_at[:16],
            ",".join(one.permissions),
            "; ".join(one.scope),
            one.audience or "whoever has it",
        ]
        for one in found.tokens
    ]
    table(["token", "", "ends", "may", "scope", "audience"], rows)


@token.command("revocations")
def revocations_command(
    output: Annotated[Path, Option("--output", "-o", help="File to write; - for stdout.")],
    expires: Annotated[
        str, Option(help="Until when it counts: a moment, or 12h, 7d, 2w; 90 days at most.")
    ] = "7d",
    bank: InBank = None,
    key: Owner = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a signed list of the revoked tokens of a bank, for verifiers without its log.

    Each list has a higher number than those before; who has seen a newer one refuses an older.

    Example: `satchel token revocations --output revoked.json --expires 7d`
    """
    with opened_bank(state.settings, bank) as opened, output_file(output) as path:
        found = revoking.write_revocations(
            opened, path, owner_key(key), expires=expires, overwrite=force
        )
    if path != output:
        found = msgspec.structs.replace(found, output=NAME)
    if as_json:
        print_json(found)
    else:
        line(f"{found.output}  number {found.number}, {found.tokens} revoked")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _listed(path: Path | None) -> list[str]:
    from satchel.disk.reading import reading

    if path is None:
        return []
    with reading(path) as stream:
        return issuing.ids_in(stream.read(issuing.MOST_LIST_BYTES + 1))


def _show_made(found: ChainTold, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    elif found.output is None:
        print_text(found.text + "\n")
    else:
        line(found.id)
        message(f"written to {found.output}; give it to its holder, and to nobody else")


def _show(found: ChainTold) -> None:
    for number, one in enumerate(found.tokens, 1):
        rows: list[tuple[str, object]] = [
            (f"token {number}" if len(found.tokens) > 1 else "token", one.id),
            ("bank", one.bank),
            ("issuer", one.issuer),
            ("audience", one.audience or "whoever has it"),
            ("may", ", ".join(one.permissions)),
            ("scope", "; ".join(one.scope)),
            ("from", one.not_before),
            ("until", one.expires_at),
        ]
        if one.root_hash:
            rows.append(("artifact", one.root_hash))
        facts(rows)
