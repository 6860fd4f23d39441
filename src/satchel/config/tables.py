"""Per-bank settings, profiles, the provider and event hooks, as typed values."""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from satchel.errors import ConfigError

EVENTS = (
    "on_remember",
    "on_update",
    "on_forget",
    "on_restore",
    "on_recall",
    "on_import",
    "on_undo",
    "on_export",
    "on_migrate",
    "on_backup",
    "on_backup_failed",
)
"""The events that hooks can listen to."""

LONGEST_WAIT = 300.0
"""Seconds that a hook may take at most."""

MOST_RETRIES = 10

Tier = Literal["", "storage", "engine"]
"""``storage``: Satchel keeps the memory there; ``engine``: a product that is talked to."""

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f-\uffff]")


class BankProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for banks of a sort; an absent member says nothing."""

    description: str | None = None
    """For people."""

    scrub_secrets: bool | None = None
    """Whether keys, tokens, passwords and cards are replaced when something is remembered,
    imported, or exported to what is not sealed."""

    on_conflict: Literal["skip", "overwrite", "rename", "error"] | None = None
    """What an import does with another version of what the bank has, when it is not told."""

    recall_limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """How many memories are recalled at most, when nobody says."""

    recall_budget: Annotated[int, Meta(ge=1)] | None = None
    """How many tokens they may take together, when nobody says."""

    recall_trust: Literal["user", "agent", "tool", "external", "imported"] | None = None
    """The lowest trust that is recalled, when nobody says."""

    metadata: dict[str, Any] = {}
    """The operator's own."""


class BankSettings(BankProfile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What holds for one bank; it wins over its profile."""

    profile: str | None = None
    """Name of the profile that says the rest."""


class RehydrateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[rehydrate]``: how memory is put in front of a model, when nobody says."""

    model: str = ""
    """The model it is for, such as ``gpt-4o`` or ``claude``; plain text when empty."""

    style: Literal["structured", "narrative"] = "structured"
    """Parts by their names, or sentences."""

    framing: Literal["encoded", "pam-1.0"] = "encoded"
    """Reversible and contained, or as the PAM specification has it."""

    enforce: Literal["outside", "all", "shapes", "nothing"] = "outside"
    """Whose imperatives are held back: what is from outside, from anybody, or nobody's; shapes of
    prompts are in each case but ``nothing``."""

    verbatim: Annotated[float, Meta(ge=0, le=1)] = 0.7
    """Relevance from which on a memory is given word for word."""

    summarised: Annotated[float, Meta(ge=0, le=1)] = 0.3
    """Relevance from which on it is given at all."""

    max_age: Annotated[float, Meta(gt=0)] = 1825.0
    """Days after which a memory is as old as can be."""

    weight_recency: Annotated[float, Meta(ge=0)] = 0.2
    """What being new weighs in relevance."""

    weight_salience: Annotated[float, Meta(ge=0)] = 0.3
    """What mattering weighs."""

    weight_similarity: Annotated[float, Meta(ge=0)] = 0.4
    """What going with the task weighs."""

    weight_depth: Annotated[float, Meta(ge=0)] = 0.1
    """What being near to the roots of the provenance weighs."""

    salience_identity: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """How much identity matters that does not say so itself."""

    salience_working: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Likewise, working memory."""

    salience_procedural: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Likewise, procedures; what one was used a hundred times counts as 1."""

    salience_semantic: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Likewise, facts without a confidence."""

    salience_episodic: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Likewise, what happened."""

    salience_outside: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """What a memory from outside can claim to matter at most."""

    budget_claude: Annotated[int, Meta(ge=1)] = 8192
    """Tokens of a text for Claude."""

    budget_gpt: Annotated[int, Meta(ge=1)] = 8192
    """Likewise, for GPT."""

    budget_gemini: Annotated[int, Meta(ge=1)] = 8192
    """Likewise, for Gemini."""

    budget_llama: Annotated[int, Meta(ge=1)] = 4096
    """Likewise, for Llama and its like."""

    budget_plain: Annotated[int, Meta(ge=1)] = 4096
    """Likewise, for any other model."""

    summariser: str = "sentences"
    """What shortens memories: ``sentences`` of them, or ``openai``, the model that
    ``inference.chat_model`` names."""


class HookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One listener: a function, a command or a webhook."""

    function: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None
    """``module:name`` of a Python function that takes the event."""

    command: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    """A program and its arguments, run without a shell; the event is JSON on its input."""

    webhook: str | None = None
    """An address that the event is sent to, as JSON in a POST."""

    timeout: Annotated[float, Meta(gt=0, le=LONGEST_WAIT)] = 10.0
    """Seconds that it may take."""

    retries: Annotated[int, Meta(ge=0, le=MOST_RETRIES)] = 2
    """How often a webhook that failed is tried again."""

    secret_env: str | None = None
    """The environment variable with the secret that signs what a webhook gets."""

    environment: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Further variables that a command gets, by name; usually it gets none that may be a secret."""

    include_content: bool = False
    """Whether memories themselves go along; otherwise only ids and counts."""

    def __post_init__(self) -> None:
        given = [name for name in ("function", "command", "webhook") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("a hook needs exactly one of `function`, `command` and `webhook`")
        if self.webhook:
            _require_webhook(self.webhook)


Listeners = tuple[HookSettings, ...]


def _require_webhook(address: str) -> None:
    """Require an address that an event can be sent to; what is said of it holds no part of it."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValueError("`webhook` is not a valid URL") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError("`webhook` must be a URL that starts with https:// or http://")
    if "@" in parts.netloc:
        raise ValueError(
            "`webhook` must not contain a user or password; sign requests with `secret_env` instead"
        )
    if _UNSENDABLE.search(address):
        raise ValueError("`webhook` contains a space or a character that is invalid in a URL")


class HookTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[hooks]``: who is told of what."""

    on_remember: Listeners = ()
    on_update: Listeners = ()
    """Also of corrections."""

    on_forget: Listeners = ()
    on_restore: Listeners = ()
    on_recall: Listeners = ()
    on_import: Listeners = ()
    on_undo: Listeners = ()
    """An import was taken back."""

    on_export: Listeners = ()
    on_migrate: Listeners = ()
    """A bank was brought to another store."""

    on_backup: Listeners = ()
    """A backup was made, and read again."""

    on_backup_failed: Listeners = ()
    """One could not be made, or does not hold."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent, the table ``[agents.<id>]``: what of it is not memory."""

    name: str | None = None
    """What people call it; its id where that is not said."""

    model: str | None = None
    """The model that it runs on, for whoever runs it."""

    bank: str | None = None
    """Its memory: the name or id of a bank; the bank that has its id otherwise."""

    workspace: str | None = None
    """The folder with its files, an absolute path; None for none."""

    archived: bool = False
    """Whether it is not active any more."""

    config: dict[str, Any] = {}
    """The settings of the program that runs it, as they are."""


class ConfigTables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a configuration file may hold besides plain settings."""

    provider: str = ""
    """Where memory is, when it is not in ``store.address``: ``sqlite``, ``mem0``, ..."""

    provider_tier: Tier = ""
    """Checked when it is given."""

    provider_config: dict[str, Any] = {}
    """What the provider needs to be reached, such as ``path``."""

    profile: str = ""
    """The profile of banks that name none."""

    banks: dict[str, BankSettings] = {}
    """By name or id."""

    agents: dict[str, AgentSettings] = {}
    """By id."""

    profiles: dict[str, BankProfile] = {}
    hooks: HookTable = HookTable()


class BackupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[backup]``."""

    enabled: bool = False
    """Whether backups are expected: ``backup schedule`` makes them, ``doctor`` misses them."""

    schedule: str = "0 4 * * *"
    """When, as cron has it: minute, hour, day of the month, month, day of the week; local time."""

    destination: str | tuple[str, ...] = ""
    """Where to: a folder, or the address of an object store such as ``s3://BUCKET/PREFIX``, or a
    list of these. In the environment a list is JSON."""

    retention: int = 30
    """Days for which backups are kept; 0 for no such rule."""

    keep_last: int = 0
    """So many of the newest are kept as well."""

    keep_daily: int = 0
    """Of each of the last so many days that have one the newest is kept as well."""

    keep_weekly: int = 0
    """Likewise, of weeks."""

    keep_monthly: int = 0
    """Likewise, of months."""

    keep_yearly: int = 0
    """Likewise, of years."""

    compress: Literal["gzip", "zstd", "none", "true", "false"] | bool = "gzip"
    """How what is written is compressed: ``gzip`` or ``true``, ``zstd``, ``none`` or ``false``."""

    encrypt_to: tuple[str, ...] | None = None
    """For whom what is written is encrypted: ``age1...``, files with recipients, or names of
    identities of this machine; nobody for plain. In the environment: joined by ``:``."""

    banks: tuple[str, ...] | None = None
    """Which banks, by name or id; all when not set. In the environment: joined by ``:``."""

    agents: tuple[str, ...] | None = None
    """Which agents, by the ids of ``[agents.<id>]``: their banks and files, besides ``banks``. All
    that are not archived when neither is set."""

    files: bool = True
    """Whether memory files and the files of agents are backed up as well."""

    stale_after: int = 48
    """Hours after which ``doctor`` misses a newer backup."""

    drop_erased: bool = False
    """Whether a backup that still holds what was erased since goes as soon as there is a newer
    one, whatever is kept otherwise."""

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where to, as a list.

        Raises:
            ConfigError: If what the environment says is no list.
        """
        said = self.destination
        if isinstance(said, tuple):
            return said
        if not said.startswith("["):
            return (said,) if said else ()
        try:
            return msgspec.json.decode(said, type=tuple[str, ...])
        except msgspec.DecodeError:
            raise ConfigError("not a list of destinations", field="backup.destination") from None


class FilesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[files]``."""

    storage_root: str = ""
    """Where memory files are kept: a folder, ``sqlite://FILE`` or ``s3://BUCKET/PREFIX``; empty
    for ``files`` in the home."""

    org: str = "default"
    """Part of the path of each key's files."""

    project: str = "default"
    """Likewise."""

    domain: str = "default"
    """Likewise."""


class InferenceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[inference]``."""

    embedder: str = "static-idf"
    """What makes vectors: ``static-idf`` or ``static``, which come along; ``minilm``, of the extra
    ``embed-minilm``; ``onnx``, a model in a folder; ``openai``, a server; or a model by one name:
    ``ollama:MODEL``, ``openai:MODEL``, ``sentence-transformers:MODEL``, ``fastembed:MODEL`` or
    ``onnx:FOLDER``. The name of a server's model may end with the server's address:
    ``openai:MODEL@http://127.0.0.1:8080/v1``."""

    reranker: str = ""
    """What puts the thirty best memories of an answer in order again, on this machine:
    ``lexical``, by words alone; or a cross-encoder: ``sentence-transformers:MODEL``,
    ``fastembed:MODEL`` or ``onnx:FOLDER``; empty for nothing."""

    reranker_timeout: float = 5.0
    """Seconds that a question waits for it; then the order is as it was."""

    automatic: bool = True
    """Whether imports and questions make vectors unasked, by a model on this machine: one that
    is built in, ``minilm``, or one that ``embedder`` names behind a colon."""

    folder: str = ""
    """For ``onnx``: where ``model.onnx`` and its ``tokenizer.json`` are."""

    base_url: str = ""
    """For ``openai``: what comes before ``/embeddings``, such as ``https://api.openai.com/v1``,
    which ``openai:MODEL`` asks when this is empty. For ``ollama:MODEL``: where the server is; this
    machine's port 11434 when empty."""

    model: str = ""
    """For ``openai``: the name of the model there."""

    dimensions: int = 0
    """For ``openai``: how many numbers its vectors have."""

    shorten: bool = False
    """For ``openai``: whether the server is asked to shorten them to that many."""

    chat_model: str = ""
    """The name of a model there that answers, for summaries and evaluations."""

    distiller: str = "extractive"
    """What draws memories from conversations: ``extractive``, which needs no model, or ``openai``,
    the model that ``chat_model`` names."""

    key_variable: str = ""
    """For ``openai``: the environment variable that has the key; empty for none."""

    timeout: float = 30.0
    """For ``openai``: seconds for each step of a request."""
