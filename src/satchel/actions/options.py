"""Options that operations of several features share."""

from collections.abc import Callable, Sequence
from typing import Annotated

from satchel.ports.operations import Absent, Option, PathText

Progress = Callable[[int, int], None]

SERVER = Absent(why="The server's operator decides which folders and addresses it uses.")
SERVER_KEYS = Absent(why="The server signs with its own keys.")
RESPONSE = Absent(why="The response has it.")
PROMPT = Absent(why="The command line asks for passphrases.")
NOT_FOR_MODELS = {"mcp": "A person decides it, not the agent whose memory it is."}
SECRETS = "It creates or shows secrets, or decides whom to trust: on the machine that has the keys."

BankName = Annotated[
    str,
    Option("Bank name, ID or unique ID prefix.", argument=True, metavar="BANK", values="bank"),
]
SigningKey = Annotated[
    str | None,
    Option(
        "Name of the owner's signing key. Default: the configured one.",
        values="key",
        http=SERVER_KEYS,
    ),
]
CoSigners = Annotated[
    str | Sequence[str],
    Option(
        "Name of another owner's key that signs too. Repeatable.",
        flag="--co-signer",
        values="key",
        http=SERVER_KEYS,
    ),
]
Passphrase = Annotated[
    str | None, Option("Passphrase of the signing keys.", cli=PROMPT, http=SERVER_KEYS)
]
Propose = Annotated[
    PathText | None,
    Option(
        "If more owners must sign, write the proposal to this file instead of failing.",
        values="file",
        http=SERVER,
        python=Absent(why="ThresholdError has the proposal; Bank.owners.propose writes it."),
    ),
]
Reason = Annotated[
    str | None,
    Option("Why, for the log.", max_length=1000, examples=["the work is done"]),
]
DryRun = Annotated[bool, Option("Report what would be done, and change nothing.")]
Yes = Annotated[
    bool,
    Option(
        "Do not ask for confirmation.",
        python=Absent(why="A program is not asked."),
        http=Absent(why="A request is not asked."),
    ),
]
Overwrite = Annotated[bool, Option("Replace the file if it exists.", http=SERVER)]
OutputFile = Annotated[
    PathText,
    Option("File to write; - for standard output.", short="-o", values="file", http=RESPONSE),
]
OptionalOutputFile = Annotated[
    PathText | None,
    Option("File to write; - for standard output.", short="-o", values="file", http=RESPONSE),
]
EncryptTo = Annotated[
    str | Sequence[str],
    Option(
        "Encrypt to this recipient: age1..., a file of recipients, or an identity stored here."
        " Repeatable.",
        http=SERVER,
    ),
]
OnProgress = Annotated[
    Progress | None,
    Option(
        "Called with the number of records done, and of all of them.",
        cli=Absent(why="The command line shows a progress bar."),
        http=Absent(why="The job reports its progress."),
    ),
]
