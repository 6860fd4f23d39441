"""``satchel rehydrate``."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from satchel.actions.waking.of_files import FromFile
from satchel.actions.waking.rehydrating import Wanted, rehydrate_bank, rehydrate_file
from satchel.errors import UsageError
from satchel.rehydrate.rehydrated import Rehydrated, Shown
from satchel.seal.verify.verification import Outcome
from satchel.surfaces.cli._console import line, message, print_json, short, state
from satchel.surfaces.cli._options import Accept, InBank, Json
from satchel.surfaces.cli._tree import Argument, Group, Option

_MOST_EXPLAINED = 200
_MOST_WITHHELD = 20


class Style(StrEnum):
    """How memory is set."""

    STRUCTURED = "structured"
    NARRATIVE = "narrative"


class Framing(StrEnum):
    """What stands around it."""

    ENCODED = "encoded"
    PAM = "pam-1.0"


class Enforced(StrEnum):
    """Whose imperatives are withheld."""

    OUTSIDE = "outside"
    ALL = "all"
    SHAPES = "shapes"
    NOTHING = "nothing"


class Similar(StrEnum):
    """What is compared with the task."""

    RECALL = "recall"
    COSINE = "cosine"


class Messages(StrEnum):
    """Shapes of messages."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    GEMINI = "gemini"


def add_to(app: Group) -> None:
    """Add the command of this module."""
    app.command("rehydrate")(rehydrate_command)


def rehydrate_command(
    file: Annotated[Path | None, Argument(help="A file of any format, in place of a bank.")] = None,
    bank: InBank = None,
    task: Annotated[str, Option(help="What the model is going to do.")] = "",
    budget: Annotated[
        int | None, Option(help="Tokens of the whole text; the model's default.")
    ] = None,
    model: Annotated[
        str | None, Option(help="The model it is for, such as gpt-4o, claude, gemini, llama.")
    ] = None,
    style: Annotated[Style | None, Option(help="Parts by their names, or sentences.")] = None,
    framing: Annotated[
        Framing | None, Option(help="Reversible and contained, or as the paper has it.")
    ] = None,
    component: Annotated[
        list[str] | None, Option(help="Only of this component; may be repeated.")
    ] = None,
    trust: Annotated[
        str | None,
        Option(help="Trusted at least as: user, agent, tool, external, imported."),
    ] = None,
    user: Annotated[str | None, Option(help="Whose memory it is.")] = None,
    agent: Annotated[str | None, Option(help="Which agent's.")] = None,
    run: Annotated[str | None, Option(help="Of which run.")] = None,
    app: Annotated[str | None, Option(help="Of which application.")] = None,
    enforce: Annotated[Enforced | None, Option(help="Whose imperatives are withheld.")] = None,
    similarity: Annotated[
        Similar, Option(help="Words and meaning, or cosines of vectors alone.")
    ] = Similar.RECALL,
    relevance: Annotated[
        float | None, Option(minimum=0, maximum=1, help="Leave out what is less relevant, 0 to 1.")
    ] = None,
    any_time: Annotated[
        bool, Option("--any-time", help="Ignore a time named in the task.")
    ] = False,
    summariser: Annotated[
        str | None, Option(help="What shortens memories: sentences, or openai.")
    ] = None,
    system: Annotated[
        str | None, Option(help="The system prompt that messages begin with.")
    ] = None,
    messages: Annotated[
        Messages | None, Option(help="Print messages for this SDK, as JSON.")
    ] = None,
    from_: Annotated[
        str | None,
        Option("--from", help="Format of the file; recognised otherwise.", values="format"),
    ] = None,
    unsafe_accept: Accept = None,
    trust_key: Annotated[
        list[str] | None,
        Option("--trust-key", help="Believe this key once, for a file. Repeatable."),
    ] = None,
    token: Annotated[
        str | None, Option("--token", help="Capability token to present: a file.")
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Say what each stage did, and why each is there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Provide a bank's memory, or a file's, as context for a model, within a token budget.

    Everything is verified first, and nothing is written. Memories are delimited and cannot break
    out. One that reads like a prompt is withheld and named: `satchel quarantine release ID` lets it
    be provided. Procedures and identity from outside need a promotion: `satchel promote`.

    Example: `satchel rehydrate --task "answer Ada's mail" --model gpt-4o --budget 2000`
    """
    if token is not None:
        state.present(token)
    wanted = Wanted(
        task=task,
        budget=budget,
        model=model,
        style=style and style.value,
        framing=framing and framing.value,
        enforce=enforce and enforce.value,
        similarity=similarity.value,
        components=component or [],
        trust=trust,
        user=user,
        agent=agent,
        run=run,
        app=app,
        relevance=relevance,
        any_time=any_time,
        system=system,
        summariser=summariser,
    )
    if file is None:
        found = rehydrate_bank(state.settings, bank, wanted)
    else:
        if bank is not None:
            raise UsageError("a file or a bank, not both", field="bank")
        accepted = frozenset(Outcome(one.value) for one in unsafe_accept or ())
        source = FromFile(format=from_, accepted=accepted, keys=tuple(trust_key or ()))
        found = rehydrate_file(state.settings, file, wanted, source)
    if as_json:
        print_json(found)
    elif messages is not None:
        print_json(found.messages[messages.value])
    else:
        _show(found, explain=explain)


def _show(found: Rehydrated, *, explain: bool) -> None:
    for row in found.text.split("\n") if found.text else []:
        line(row)
    if explain:
        for number, stage in enumerate(found.stages, 1):
            message(f"{number} {stage.name}: {stage.detail} ({stage.entries:,} left)")
        for one in found.entries[:_MOST_EXPLAINED]:
            message(_why(one))
    message(found.notice)
    for held in found.quarantined[:_MOST_WITHHELD]:
        message(f"withheld: {short(held.id)} {held.type}, {held.trust}: {'; '.join(held.reasons)}")
    for note in found.notes:
        message(note)
    if not found.complete:
        message("not everything was looked at; say more of the task, or a narrower filter")


def _why(one: Shown) -> str:
    parts = one.parts
    told = f"  {short(one.id)} {one.type} {one.score:.2f} {one.form}"
    if parts is None:
        return told
    similar = "-" if parts.similarity is None else f"{parts.similarity:.2f}"
    penalty = f" x{parts.penalty:g}" if parts.penalty < 1 else ""
    return (
        f"{told}: recency {parts.recency:.2f}, salience {parts.salience:.2f},"
        f" similarity {similar}, depth {parts.depth:.2f}{penalty}; {one.trust}, {one.tokens} tokens"
    )
