"""Seal a Mem0 export, verify it, import it into two stores, and recall from it.

``make demo`` runs this. Every step is a command; the first one with an unexpected result ends it.
Keys and files are written to ``demo-out``; your own are not touched.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import satchel as library

HERE = Path(os.path.relpath(Path(__file__).parent))
OUT = Path("demo-out")
SAMPLE = HERE / "mem0_export.json"


def main() -> None:
    """Run the steps."""
    os.environ.update(surroundings())
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    title("Inspect the export")
    satchel("inspect", SAMPLE)

    title("Convert it to a sealed file: every memory hashed, all of them signed")
    sealed = OUT / "memory.pam.jsonl"
    satchel("convert", SAMPLE, sealed)

    title("Verify it: signature, trust, body, then every record")
    satchel("verify", sealed, "--deep")

    title("Convert it to two other encodings: the signature stays the same")
    for name in ("memory.pam", "memory.pam.cbor"):
        satchel("convert", sealed, OUT / name)
    names = ("memory.pam.jsonl", "memory.pam", "memory.pam.cbor")
    statements = {proof(OUT / name) for name in names}
    print(f"three files, {len(statements)} statement and signature")
    if len(statements) != 1:
        sys.exit("the signature changed")

    title("Change one word: verification fails")
    text = sealed.read_text("utf-8")
    changed = OUT / "changed.pam.jsonl"
    changed.write_text(text.replace("allergic to hazelnuts", "fond of hazelnuts"), "utf-8")
    satchel("verify", changed, expect=3)

    title("Convert it back to Mem0's format")
    again = OUT / "mem0_again.json"
    satchel("convert", OUT / "memory.pam.cbor", again, "--to", "mem0")
    before, after = (json.loads(path.read_text("utf-8")) for path in (SAMPLE, again))
    if before != after:
        sys.exit("a memory changed")
    print(f"{len(after['results'])} memories: every field equals the original")

    move(before)


def move(before: dict[str, Any]) -> None:
    """Move the export through two stores, and recall from the second."""
    title("Import it into a bank, and recall: each result is verified")
    first, second = ("--store", str(OUT / "one.db")), ("--store", str(OUT / "two.db"))
    satchel(*first, "import", SAMPLE, "--bank", "assistant")
    satchel(*first, "recall", "is she vegetarian?", "--budget", "60")

    title("Move the bank to a second store, and compare")
    exported = OUT / "bank.pam.jsonl"
    satchel(*first, "export", "--output", exported)
    satchel(*second, "import", exported, "--bank", "copy")
    out = OUT / "two.pam.jsonl"
    satchel(*second, "export", "--output", out)
    satchel("diff", exported, out)
    satchel(*second, "export", "--output", OUT / "mem0_twice.json", "--to", "mem0")
    twice = json.loads((OUT / "mem0_twice.json").read_text("utf-8"))
    if [row["memory"] for row in twice["results"]] != [row["memory"] for row in before["results"]]:
        sys.exit("a memory changed between the two stores")
    print("the memories of both stores are the same, in the same order")

    title("Recall from Python, within a token budget")
    with library.Satchel.open(OUT / "two.db", home=OUT / "home") as here:
        for memory in here.bank("copy").recall("release notes and allergies", budget=80).memories:
            print(f"{memory.tokens:>4} tokens  {memory.text}")

    title("Verify and show the receipt of an import")
    receipt = OUT / "import.receipt.json"
    satchel(*second, "import", SAMPLE, "--bank", "again", "--receipt", receipt)
    satchel("receipt", "verify", receipt)
    satchel("receipt", "show", receipt)


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def satchel(*arguments: str | Path, expect: int = 0) -> None:
    """Print a command, run it, and require its exit status."""
    words = [str(argument) for argument in arguments]
    print(f"$ satchel {' '.join(words)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "satchel", *words], env=surroundings(), check=False
    )
    if done.returncode != expect:
        sys.exit(f"exit status {done.returncode}, expected {expect}")


def proof(path: Path) -> str:
    """Return the statement and signatures of a file as text."""
    done = subprocess.run(
        [sys.executable, "-m", "satchel", "verify", str(path), "--json"],
        env=surroundings(),
        check=True,
        capture_output=True,
    )
    found = json.loads(done.stdout)
    signatures = [(signer["key"], signer["valid"]) for signer in found["signers"]]
    return json.dumps([found["outcome"], found["statement"], signatures], sort_keys=True)


def surroundings() -> dict[str, str]:
    """Return the environment, with keys and state in the demo's folder."""
    return {
        **os.environ,
        "SATCHEL_HOME": str(OUT / "home"),
        "SATCHEL_WITNESS": str(OUT / "witness"),
    }


if __name__ == "__main__":
    main()
