"""``satchel token``: capability tokens of a bank."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from satchel.bank import token_operations, tokens
from satchel.bank.tokens import TokenChain, TokenVerdict
from satchel.cli._console import line, message, print_facts, print_text, short, short_time, table
from satchel.cli._operations import command, open_to_read, open_to_write
from satchel.cli._options import NAME
from satchel.cli._tree import Group
from satchel.ports.operations import Option, Options, PathText
from satchel.runtime.files import open_input

token = Group(help="Manage capability tokens: what others may do with a bank.")


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.add(token, name="token")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesFile(Options):
    """Source of the IDs of entries."""

    entries_from: Annotated[
        PathText | None,
        Option("Only the memories listed in this file, one ID per line.", values="file"),
    ] = None


def _add_entries(values: dict[str, Any], source: EntriesFile) -> None:
    if source.entries_from is None:
        return
    with open_input(Path(source.entries_from)) as stream:
        ids = token_operations.ids_in(stream.read(token_operations.MOST_LIST_BYTES + 1))
    values["entries"] = (*values.get("entries", ()), *ids)


def _show_made(token: TokenChain, _: object = None) -> None:
    if token.output is None:
        print_text(token.text + "\n")
        return
    line(token.id)
    if token.output != NAME:
        message(f"written to {token.output}: give it to its holder only")


def _show_chain(chain: TokenChain) -> None:
    for number, each in enumerate(chain.tokens, 1):
        rows: list[tuple[str, object]] = [
            (f"token {number}" if len(chain.tokens) > 1 else "token", each.id),
            ("bank", each.bank),
            ("issuer", each.issuer),
            ("audience", each.audience or "bearer"),
            ("may", ", ".join(each.permissions)),
            ("scope", "; ".join(each.scope)),
            ("valid from", each.not_before),
            ("expires", each.expires_at),
        ]
        if each.root_hash:
            rows.append(("artifact", each.root_hash))
        print_facts(rows)


def _show_verdict(verdict: TokenVerdict) -> None:
    line("valid" if verdict else "not valid: ", verdict.problem or "")
    _show_chain(verdict.chain)
    for note in verdict.notes:
        message("note: ", note)


def _show_revoked(revoked: token_operations.TokenRevocation) -> None:
    line("revoked " if revoked.is_new else "already revoked: ", revoked.id)


def _show_list(listed: token_operations.TokenList) -> None:
    if not listed.tokens:
        message("No active tokens. To include expired and revoked ones: --all")
        return
    rows: list[list[object]] = [
        [
            short(each.id),
            each.state,
            short_time(each.expires_at),
            ",".join(each.permissions),
            "; ".join(each.scope),
            each.audience or "bearer",
        ]
        for each in listed.tokens
    ]
    table(["token", "state", "expires", "may", "scope", "audience"], rows)


def _show_revocations(written: token_operations.RevocationFile) -> None:
    line(f"{written.output}  number {written.number}, {written.tokens} revoked")


command(
    token,
    token_operations.issue_token,
    _show_made,
    bank=open_to_write,
    extra=EntriesFile,
    prepare=_add_entries,
)
command(
    token, token_operations.attenuate_token, _show_made, extra=EntriesFile, prepare=_add_entries
)
command(token, tokens.inspect_token, _show_chain)
command(token, tokens.verify_token, _show_verdict, status=lambda verdict: verdict.exit_status)
command(token, token_operations.revoke_token, _show_revoked, bank=open_to_write)
command(token, token_operations.list_tokens, _show_list, bank=open_to_read)
command(token, token_operations.write_revocations, _show_revocations, bank=open_to_read)
