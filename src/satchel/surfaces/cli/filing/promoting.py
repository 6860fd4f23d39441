"""``satchel file promote``: from what agents propose to what only promotion may write."""

from typing import Annotated

from satchel.actions.filing.opened import opened_files
from satchel.errors import UsageError
from satchel.surfaces.cli._console import count, line, message, print_json, state
from satchel.surfaces.cli._options import DryRun, Json
from satchel.surfaces.cli._tree import Argument, Option
from satchel.surfaces.cli.filing._options import At, ExpectedSha, Key, Reason, Root, files


@files.command("promote")
def promote_command(
    path: At,
    target: Annotated[str, Argument(help="Path in memory; with --all, a folder.")],
    by_rule: Annotated[
        bool, Option("--all", help="All that is in a folder and that the rule lets through.")
    ] = False,
    by: Annotated[
        list[str] | None, Option("--by", help="Rule: only what this actor wrote. Repeatable.")
    ] = None,
    most: Annotated[int, Option("--most-bytes", minimum=1, help="Rule: no larger.")] = 100_000,
    replace: Annotated[bool, Option("--replace", help="Rule: other text may go.")] = False,
    keep: Annotated[bool, Option("--keep", help="Leave the proposal in its place.")] = False,
    expected_sha: ExpectedSha = None,
    actor: Annotated[str, Option(help="Who reviewed it, for the audit.")] = "reviewer",
    reason: Reason = "",
    dry_run: DryRun = False,
    key: Key = None,
    root: Root = None,
    as_json: Json = False,
) -> int:
    """Make a proposal memory, also where direct writes are refused.

    With --all, each proposal of a folder is held to a rule: who wrote it, how large it is, that it
    holds no secret and no hidden signs. What it does not let through stays and is named; then the
    exit status is 1.

    Example: `satchel file promote user/proposals memory --all --by agent --dry-run`
    """
    from satchel.files.promoting import Rule, promote_all

    if not by_rule and (by or replace or dry_run):
        raise UsageError("--by, --replace and --dry-run are of a rule: add --all")
    with opened_files(state.settings, key, root) as store:
        if not by_rule:
            meta = store.promote(
                path, target, actor=actor, reason=reason, expected_sha=expected_sha, keep=keep
            )
            store.save()
            if as_json:
                print_json(vars(meta))
            else:
                line(f"{path} is {meta.path} now, version {meta.version}")
            return 0
        rule = Rule(
            staged=path, into=target, actors=frozenset(by or ()), most_bytes=most, replace=replace
        )
        done = promote_all(store, rule, actor=actor, dry_run=dry_run)
        store.save()
    stay = [one for one in done if one.reason is not None]
    if as_json:
        print_json([one._asdict() for one in done])
        return int(bool(stay))
    verb = "would be promoted" if dry_run else "promoted"
    line(f"{count(len(done) - len(stay), 'proposal')} {verb}")
    for one in stay:
        message(f"  stays: {one.proposal}: {one.reason}")
    return int(bool(stay))
