"""The main job, as a person would do it: seal a Mem0 export, prove it, carry it, recall it.

Run by ``make demo``. Every step is a real command; it stops at the first that does not do what it
should. Keys and files go to ``demo-out``, so nothing of yours is touched.
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
    title("What is in the export")
    satchel("inspect", SAMPLE)

    title("Seal it: every memory hashed, the whole signed")
    sealed = OUT / "memory.pam.jsonl"
    satchel("convert", SAMPLE, sealed)

    title("Prove it: signature, trust, body, then every record")
    satchel("verify", sealed, "--deep")

    title("The same seal in two more encodings")
    for name in ("memory.pam", "memory.pam.cbor"):
        satchel("convert", sealed, OUT / name)
    names = ("memory.pam.jsonl", "memory.pam", "memory.pam.cbor")
    statements = {proof(OUT / name) for name in names}
    print(f"three files, {len(statements)} statement and signature")
    if len(statements) != 1:
        sys.exit("the seal changed on the way")

    title("Change one word, and it shows")
    text = sealed.read_text("utf-8")
    changed = OUT / "changed.pam.jsonl"
    changed.write_text(text.replace("allergic to hazelnuts", "fond of hazelnuts"), "utf-8")
    satchel("verify", changed, expect=3)

    title("Read it back as Mem0 has it")
    again = OUT / "mem0_again.json"
    satchel("convert", OUT / "memory.pam.cbor", again, "--to", "mem0")
    before, after = (json.loads(path.read_text("utf-8")) for path in (SAMPLE, again))
    if before != after:
        sys.exit("something changed on the way")
    print(f"{len(after['results'])} memories, nothing changed: every field equals the original")

    carry(before)


def carry(before: dict[str, Any]) -> None:
    """Take the export through two stores, and recall from the second."""
    title("Bring it into a bank, which proves what it gives back")
    first, second = ("--store", str(OUT / "one.db")), ("--store", str(OUT / "two.db"))
    satchel(*first, "import", SAMPLE, "--bank", "assistant")
    satchel(*first, "recall", "is she vegetarian?", "--budget", "60")

    title("Carry the bank to a second store, and compare")
    carried = OUT / "bank.pam.jsonl"
    satchel(*first, "export", "--output", carried)
    satchel(*second, "import", carried, "--bank", "copy")
    out = OUT / "two.pam.jsonl"
    satchel(*second, "export", "--output", out)
    satchel("diff", carried, out)
    satchel(*second, "export", "--output", OUT / "mem0_twice.json", "--to", "mem0")
    twice = json.loads((OUT / "mem0_twice.json").read_text("utf-8"))
    if [row["memory"] for row in twice["results"]] != [row["memory"] for row in before["results"]]:
        sys.exit("something changed on the way through two stores")
    print("the same memories, in the same order, after two stores and two files")

    title("The same from Python, into a token budget")
    with library.Satchel.open(OUT / "two.db", home=OUT / "home") as here:
        for memory in here.bank("copy").recall("release notes and allergies", budget=80).memories:
            print(f"{memory.tokens:>4} tokens  {memory.text}")

    title("The receipt: what was imported, verified and signed")
    receipt = OUT / "import.receipt.json"
    satchel(*second, "import", SAMPLE, "--bank", "again", "--receipt", receipt)
    satchel("receipt", "verify", receipt)
    satchel("receipt", "show", receipt)


def title(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def satchel(*arguments: str | Path, expect: int = 0) -> None:
    """Show a command, run it, and insist on its exit status."""
    words = [str(argument) for argument in arguments]
    print(f"$ satchel {' '.join(words)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "satchel", *words], env=surroundings(), check=False
    )
    if done.returncode != expect:
        sys.exit(f"exit status {done.returncode}, expected {expect}")


def proof(path: Path) -> str:
    """Return what a file's statement and signatures are, as one text."""
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
    """The environment, with keys and state kept inside the demo's folder."""
    return {
        **os.environ,
        "SATCHEL_HOME": str(OUT / "home"),
        "SATCHEL_WITNESS": str(OUT / "witness"),
    }


if __name__ == "__main__":
    main()
