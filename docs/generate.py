"""Writes the reference pages that are made from the program itself.

``python -m docs.generate`` writes them; with ``--check`` it only says whether they are current.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from docs import interfaces, python_reference
from satchel import errors
from satchel.artifact.body import ORDER, TYPED_SECTIONS
from satchel.artifact.verification import STEPS, Outcome
from satchel.cli.main import INDEX, index, made_index
from satchel.config.settings import sections
from satchel.config.tables import BankSettings, ConfigTables, HookSettings, HookTable
from satchel.crypto.canonical import Limits
from satchel.ports.format import formats
from satchel.ports.store import StoreTraits
from satchel.screening.secrets import KINDS

ROOT = Path(__file__).parent
_NOT_OF_A_PROFILE = ("profiles.NAME", "profile")
REFERENCE = ROOT / "reference"
LOSSES = ROOT / "explanation" / "losses.md"
DEFECTS = "tests/data/pam_sdk_defects.json"
MUTATIONS = "tests/data/mutations.json"
EDITS_OF_A_PART = 2_000  # as in tests/hostile/test_mutations.py, which a test compares
MADE = "<!-- Made by docs/generate.py; do not edit. -->"


def main() -> None:
    """Write the pages, or compare them."""
    written = {INDEX: made_index(), formats.index: formats.made_index()}
    if "--check" not in sys.argv:
        INDEX.write_text(written[INDEX], "utf-8")  # the page of commands is made from it
    pages = {
        "commands.md": commands(),
        "formats.md": format_table(),
        "errors.md": error_table(),
        "limits.md": limit_table(),
        "configuration.md": configuration_table(),
        "verification.md": verification_table(),
        "secrets.md": secret_table(),
        "stores.md": store_tables(),
        "operations.md": "\n".join([MADE, "# Operations", "", *interfaces.table()]).rstrip() + "\n",
        "pam-sdk-defects.md": defect_table(),
    }
    pages |= {name: f"{MADE}\n{text}" for name, text in python_reference.pages().items()}
    written |= {REFERENCE / name: text for name, text in pages.items()}
    written[LOSSES] = losses()
    stale = []
    for path, text in written.items():
        if "--check" in sys.argv:
            if not path.exists() or path.read_text("utf-8") != text:
                stale.append(path.name)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")
    if stale:
        sys.exit(f"made files are not current: {', '.join(stale)}; run make docs-write")


def commands() -> str:
    """Help texts, as the program prints them."""
    parts = [MADE, "# Commands", ""]
    for words in ((), *(tuple(each.split()) for each in index())):
        parts += [f"## `satchel {' '.join(words)}`".replace(" `", "`").replace("##`", "## `")]
        parts += ["", "```text", help_of(words), "```", ""]
    return "\n".join(parts)


def help_of(words: tuple[str, ...]) -> str:
    """Return the help of one command, plain and 100 wide."""
    os.environ.update(COLUMNS="100", TERMINAL_WIDTH="100", NO_COLOR="1", TERM="dumb")
    from satchel.cli.main import run

    held = io.StringIO()
    with contextlib.redirect_stdout(held):
        run([*words, "--help"])
    return "\n".join(line.rstrip() for line in held.getvalue().strip().splitlines())


def format_table() -> str:
    """One row a format."""
    rows = [MADE, "# Formats", ""]
    rows += [
        "*holds*: types of memory. *writes*: Satchel can write it. *streams*: the first memory is",
        "available before the whole file was read. *lossless*: it can hold everything. *exact*:",
        "reading a file and writing it again restores equal values, unknown fields included.",
        "",
    ]
    head = "| name | what it is | ends in | holds | writes | streams | lossless | exact | source |"
    rows += [head, "|" + "---|" * 9]
    for name, adapter in formats.items():
        info = adapter.info
        held = ", ".join(sorted(info.traits.components))
        rows.append(
            f"| `{name}` | {info.title} | {' '.join(f'`{s}`' for s in info.suffixes)} | {held} "
            f"| {yes(info.traits.writes)} | {yes(info.traits.streams)} "
            f"| {yes(info.traits.writes and not info.lost_on_writing)} | {yes(info.traits.exact)} "
            f"| {info.spec}, compared {info.checked} |"
        )
    rows += ["", "What is lost on writing:", ""]
    rows += [
        f"- `{name}`: {adapter.info.lost_on_writing or 'nothing.'}"
        for name, adapter in formats.items()
        if adapter.info.traits.writes
    ]
    return "\n".join(rows) + "\n"


LOSSES_HEAD = """# What other systems cannot hold

A memory in Satchel has a type, times, an owner, a source, links and more. Few other products can
hold all of that. This page lists, for each format that Satchel writes, what the format cannot hold.

None of it is lost without notice: an export counts each value that is lost, names it in its
[receipt](receipts.md), and exits with status 1 unless you accepted the loss with `--accept-loss`.
With `--sidecar`, what the format cannot hold is written to a second file, and read from there by an
import.

| written as | cannot hold |
|---|---|"""


def losses() -> str:
    """Return the page of what is lost on writing, by format."""
    writing = {name: each.info for name, each in formats.items() if each.info.traits.writes}
    lines = [MADE, *LOSSES_HEAD.splitlines()]
    lines += [
        f"| {info.title} (`{name}`) | {info.lost_on_writing.replace('|', chr(92) + '|')} |"
        for name, info in sorted(writing.items(), key=lambda each: each[1].title.lower())
        if info.lost_on_writing
    ]
    whole = [
        f"{info.title} (`{name}`)" for name, info in writing.items() if not info.lost_on_writing
    ]
    reading = [name for name in formats if name not in writing]
    lines += ["", "Written without loss:", "", *(f"- {each}" for each in sorted(whole)), ""]
    lines += [f"Only read, never written: {', '.join(f'`{name}`' for name in sorted(reading))}."]
    return "\n".join(lines) + "\n"


def error_table() -> str:
    """One row an error class."""
    rows = [MADE, "# Errors", "", "| code | exit | HTTP | meaning |", "|---|---|---|---|"]
    for cls in sorted(classes(errors.SatchelError), key=lambda found: found.code):
        meaning = (cls.__doc__ or "").strip().splitlines()[0]
        rows.append(f"| `{cls.code}` | {cls.exit_status} | {cls.http_status} | {meaning} |")
    return "\n".join(rows) + "\n"


def classes(top: type[errors.SatchelError]) -> Iterator[type[errors.SatchelError]]:
    """Yield a class and all below it."""
    yield top
    for cls in top.__subclasses__():
        yield from classes(cls)


def store_tables() -> str:
    """Return the table of the traits of each store, and of the checks that it skips."""
    from satchel.conformance.stores.traits import needs
    from satchel.stores.ladybug import LadybugStore
    from satchel.stores.memory import InMemoryStore
    from satchel.stores.postgres import PostgresStore
    from satchel.stores.sqlite import SqliteStore

    claimed = {
        "memory": InMemoryStore.traits,
        "sqlite": SqliteStore.traits,
        "ladybug": LadybugStore.traits,
        "postgresql": PostgresStore.traits,
    }
    checks, traits = needs(), StoreTraits.__dataclass_fields__
    rows = [MADE, "# Stores", ""]
    rows += [
        f"The same suite of {len(checks)} checks (`satchel.conformance.stores`) runs against every",
        "store. A check is skipped only if the store does not have the trait that the check needs.",
        "",
        f"| trait | checks that need it | {' | '.join(claimed)} |",
        "|---" * (len(claimed) + 2) + "|",
    ]
    for trait in traits:
        needed_by = sum(trait in required for required in checks.values())
        has = " | ".join(
            yes(getattr(traits_of_store, trait)) for traits_of_store in claimed.values()
        )
        rows.append(f"| `{trait}` | {needed_by} | {has} |")
    rows += ["", "Skipped checks:", "", "| check | needs | skipped for |", "|---|---|---|"]
    for promise, required in checks.items():
        without = [
            name
            for name, traits_of_store in claimed.items()
            if not all(getattr(traits_of_store, trait) for trait in required)
        ]
        if without:
            check = promise.removeprefix("test_").replace("_", " ")
            rows.append(f"| {check} | {code(required)} | {code(without)} |")
    return "\n".join(rows) + "\n"


def code(names: Iterable[str]) -> str:
    """Return names as they stand in a table."""
    return ", ".join(f"`{name}`" for name in sorted(names))


def limit_table() -> str:
    """One row a limit."""
    head = "Sizes are in bytes. Set them in `[limits]` of the [configuration](configuration.md)."
    rows = [MADE, "# Limits", "", head, ""]
    rows += ["| limit | default |", "|---|---|"]
    for name, value in msgspec.to_builtins(Limits()).items():
        rows.append(f"| `{name}` | {value:,} |")
    return "\n".join(rows) + "\n"


def configuration_table() -> str:
    """One row a setting."""
    rows = [MADE, "# Configuration", ""]
    rows += [
        "Flags override environment variables, which override the file (TOML or YAML), which",
        "overrides the defaults. `satchel config show` prints the origin of each value.",
        "[Configuration](../guides/configuration.md) explains the tables of the file.",
        "",
        "| setting | default | environment |",
        "|---|---|---|",
        "| home (keys, trust) | the platform's data folder | `SATCHEL_HOME` |",
        "| witness (heads seen before) | the platform's state folder | `SATCHEL_WITNESS` |",
        "| the file itself | the platform's configuration folder | `SATCHEL_CONFIG` |",
        "| passphrase of a key | prompted for | `SATCHEL_PASSPHRASE` |",
        "| signing key, 32 bytes in base64 | a key file | `SATCHEL_SIGNING_KEY` |",
    ]
    for section, fields in sections().items():
        for name, value in fields.items():
            variable = f"SATCHEL_{section}_{name}".upper()
            rows.append(
                f"| `{section}.{name}` | `{msgspec.json.encode(value).decode()}` | `{variable}` |"
            )
    for name in ("provider", "provider_tier", "provider_config", "profile"):
        value = msgspec.json.encode(getattr(ConfigTables(), name)).decode()
        rows.append(f"| `{name}` | `{value}` | `SATCHEL_{name.upper()}` |")
    rows += ["", "In the file only (see [Configuration](../guides/configuration.md)):", ""]
    rows += ["| table | its keys |", "|---|---|"]
    tables = {"banks.NAME": BankSettings, "profiles.NAME": BankSettings, "hooks": HookTable}
    for name, model in {**tables, "hooks.EVENT (a list)": HookSettings}.items():
        keys = [each for each in model.__struct_fields__ if (name, each) != _NOT_OF_A_PROFILE]
        rows.append(f"| `{name}` | {', '.join(f'`{each}`' for each in keys)} |")
    rows += ["", "The whole file as a JSON Schema: `schemas/configuration.json`."]
    return "\n".join(rows) + "\n"


def verification_table() -> str:
    """Steps, outcomes and sections."""
    rows = [MADE, "# Verification", "", "| step | checks |", "|---|---|"]
    rows += [f"| {number} | {name} |" for number, name in STEPS.items()]
    rows += ["", "Outcomes, worst first:", ""]
    rows += [f"{place}. `{outcome}`" for place, outcome in enumerate(Outcome, start=1)]
    rows += ["", "Sections of the body, in order, and the record type each holds:", ""]
    rows += [f"- `{name}`: {TYPED_SECTIONS.get(name, 'objects')}" for name in ORDER]
    return "\n".join(rows) + "\n"


def defect_table() -> str:
    """Defects of the published SDK, what Satchel does instead, and the tests that show it."""
    rows = [MADE, "# Defects of the published SDK", ""]
    rows += ["Each defect was reproduced with the SDK (version 1.0) and has a passing test here."]
    part = ""
    for defect in msgspec.json.decode((ROOT.parent / DEFECTS).read_bytes()):
        if defect["part"] != part:
            part = defect["part"]
            rows += ["", f"## {part}", ""]
            rows += ["| ID | input | the SDK | Satchel | tests |", "|---|---|---|---|---|"]
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in defect["tests"])
        cells = (defect["id"], defect["input"], defect["sdk"], defect["satchel"], tests)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, *mutation_rows()]) + "\n"


def mutation_rows() -> list[str]:
    """How many random edits are detected, compared with the published SDK."""
    rows = ["", "## Random edits", ""]
    rows += [
        "One value is changed in a signed file. For half of the edits the IDs and hashes are then",
        "recomputed, as an attacker without the key can. About one edit in twenty has no effect,",
        "such as replacing a character with itself, and is not counted. `make check` tries a few",
        "hundred edits, `make prove` all. Each byte flipped and each truncation:",
        "`hostile/test_corruption.py`.",
        "",
    ]
    rows += ["| edited part | edits | detected by Satchel | detected by the SDK | tests |"]
    rows += ["|---|---|---|---|---|"]
    for one in msgspec.json.decode((ROOT.parent / MUTATIONS).read_bytes()):
        tests = ", ".join(f"`{test.removeprefix('tests/')}`" for test in one["tests"])
        edits = f"{EDITS_OF_A_PART * len(one['parts']):,}"
        rows.append(f"| {one['what']} | {edits} | all | {one['sdk']} | {tests} |")
    return rows


def secret_table() -> str:
    """One row a kind of secret."""
    rows = [MADE, "# Secrets that are recognized", ""]
    rows += ["The most certain kinds come first. See [Secrets](../guides/secrets.md).", ""]
    rows += ["| kind | what it is |", "|---|---|"]
    rows += [f"| `{kind}` | {title} |" for kind, title in KINDS.items()]
    return "\n".join(rows) + "\n"


def yes(value: bool) -> str:  # noqa: FBT001
    """Return yes or no."""
    return "yes" if value else "no"


if __name__ == "__main__":
    main()
