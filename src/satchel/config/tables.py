"""Settings for banks, profiles, the provider and event hooks, as typed values."""

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
"""Maximum seconds of a hook."""

MOST_RETRIES = 10

Tier = Literal["", "storage", "engine"]
"""``storage``: Satchel stores memory there; ``engine``: a live product."""

_UNSENDABLE = re.compile(r"[\x00-\x20\x7f-\uffff]")


class BankProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of banks that share a profile; a member that is not set has no effect."""

    description: str | None = None
    """For people."""

    scrub_secrets: bool | None = None
    """Whether to replace keys, tokens, passwords and card numbers in what is remembered, imported,
    or exported to a file that is not sealed.
    """

    on_conflict: Literal["skip", "overwrite", "rename", "error"] | None = None
    """Default of an import for other versions of existing records."""

    recall_limit: Annotated[int, Meta(ge=1, le=1000)] | None = None
    """Default maximum number of recalled memories."""

    recall_budget: Annotated[int, Meta(ge=1)] | None = None
    """Default maximum number of tokens of recalled memories."""

    recall_trust: Literal["user", "agent", "tool", "external", "imported"] | None = None
    """Default minimum trust of recalled memories."""

    metadata: dict[str, Any] = {}
    """Free for the operator."""


class BankSettings(BankProfile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of one bank; they override its profile."""

    profile: str | None = None
    """Name of its profile."""


class RehydrateSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[rehydrate]``: defaults for memory as context."""

    model: str = ""
    """The target model, such as ``gpt-4o`` or ``claude``; plain text if empty."""

    style: Literal["structured", "narrative"] = "structured"
    """Sections with names, or sentences."""

    framing: Literal["encoded", "pam-1.0"] = "encoded"
    """Reversible and delimited, or as in the PAM specification."""

    enforce: Literal["outside", "all", "shapes", "nothing"] = "outside"
    """Whose imperatives are withheld: those from outside, of anybody, or nobody's; prompt patterns
    always except with ``nothing``.
    """

    verbatim: Annotated[float, Meta(ge=0, le=1)] = 0.7
    """Relevance from which a memory is included verbatim."""

    summarized: Annotated[float, Meta(ge=0, le=1)] = 0.3
    """Relevance from which a memory is included at all."""

    max_age: Annotated[float, Meta(gt=0)] = 1825.0
    """Days after which a memory counts as oldest."""

    weight_recency: Annotated[float, Meta(ge=0)] = 0.2
    """Weight of recency in relevance."""

    weight_salience: Annotated[float, Meta(ge=0)] = 0.3
    """Weight of salience."""

    weight_similarity: Annotated[float, Meta(ge=0)] = 0.4
    """Weight of similarity to the task."""

    weight_depth: Annotated[float, Meta(ge=0)] = 0.1
    """Weight of nearness to the roots of the provenance."""

    salience_identity: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Salience of identity memories that have none."""

    salience_working: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Salience of working memories that have none."""

    salience_procedural: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Salience of procedures that have none; one that was used a hundred times counts as 1."""

    salience_semantic: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Salience of facts without a confidence."""

    salience_episodic: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Salience of episodes that have none."""

    salience_outside: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """Maximum salience of a memory from outside."""

    budget_claude: Annotated[int, Meta(ge=1)] = 8192
    """Maximum tokens of a text for Claude."""

    budget_gpt: Annotated[int, Meta(ge=1)] = 8192
    """Maximum tokens of a text for GPT."""

    budget_gemini: Annotated[int, Meta(ge=1)] = 8192
    """Maximum tokens of a text for Gemini."""

    budget_llama: Annotated[int, Meta(ge=1)] = 4096
    """Maximum tokens of a text for Llama and similar models."""

    budget_plain: Annotated[int, Meta(ge=1)] = 4096
    """Maximum tokens of a text for any other model."""

    summarizer: str = "sentences"
    """What shortens memories: ``sentences`` selects sentences; ``openai`` uses the model in
    ``inference.chat_model``.
    """


class HookSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One listener: a function, a command or a webhook."""

    function: Annotated[str, Meta(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")] | None = None
    """``module:name`` of a Python function that is called with the event."""

    command: Annotated[tuple[str, ...], Meta(min_length=1)] | None = None
    """A program and its arguments, run without a shell; the event is JSON on its input."""

    webhook: str | None = None
    """A URL that the event is sent to, as JSON in a POST."""

    timeout: Annotated[float, Meta(gt=0, le=LONGEST_WAIT)] = 10.0
    """Maximum seconds."""

    retries: Annotated[int, Meta(ge=0, le=MOST_RETRIES)] = 2
    """Maximum number of retries of a webhook."""

    secret_env: str | None = None
    """The environment variable with the secret that signs webhook requests."""

    environment: tuple[Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Further variables for a command, by name; by default it gets none that may be a secret."""

    include_content: bool = False
    """Whether to include memories; otherwise only IDs and counts."""

    def __post_init__(self) -> None:
        given = [name for name in ("function", "command", "webhook") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError("a hook needs exactly one of `function`, `command` and `webhook`")
        if self.webhook:
            _require_webhook(self.webhook)


Listeners = tuple[HookSettings, ...]


def _require_webhook(address: str) -> None:
    """Require a valid URL for events; the error contains no part of it."""
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
    """The table ``[hooks]``: the listeners of each event."""

    on_remember: Listeners = ()
    on_update: Listeners = ()
    """Also for corrections."""

    on_forget: Listeners = ()
    on_restore: Listeners = ()
    on_recall: Listeners = ()
    on_import: Listeners = ()
    on_undo: Listeners = ()
    """An import was undone."""

    on_export: Listeners = ()
    on_migrate: Listeners = ()
    """A bank was migrated to another store."""

    on_backup: Listeners = ()
    """A backup was made and verified."""

    on_backup_failed: Listeners = ()
    """A backup failed, or is damaged."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent, the table ``[agents.<id>]``: its settings, not its memory."""

    name: str | None = None
    """Its display name; its ID by default."""

    model: str | None = None
    """The model that it runs on, for the program that runs it."""

    bank: str | None = None
    """Its bank, by name or ID; by default the bank with its ID."""

    workspace: str | None = None
    """The absolute path of the folder with its files; None for none."""

    archived: bool = False
    """Whether it is archived."""

    config: dict[str, Any] = {}
    """Settings of the program that runs it, stored as they are."""


class ConfigTables(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tables of a configuration file besides plain settings."""

    provider: str = ""
    """Where memory is, if not in ``store.address``: ``sqlite``, ``mem0``, ..."""

    provider_tier: Tier = ""
    """The expected tier, verified if set."""

    provider_config: dict[str, Any] = {}
    """Connection settings of the provider, such as ``path``."""

    profile: str = ""
    """The profile of banks that name none."""

    banks: dict[str, BankSettings] = {}
    """By name or ID."""

    agents: dict[str, AgentSettings] = {}
    """By ID."""

    profiles: dict[str, BankProfile] = {}
    hooks: HookTable = HookTable()


class BackupSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[backup]``."""

    enabled: bool = False
    """Whether backups are expected: ``backup schedule`` makes them, ``doctor`` reports missing
    ones.
    """

    schedule: str = "0 4 * * *"
    """Schedule in cron's format: minute, hour, day of the month, month, day of the week; local
    time.
    """

    destination: str | tuple[str, ...] = ""
    """Destination: a folder, or the address of an object store such as ``s3://BUCKET/PREFIX``, or a
    list of these. In the environment a list is JSON.
    """

    retention: int = 30
    """Days for which backups are retained; 0 for no such rule."""

    keep_last: int = 0
    """Number of newest backups to retain as well."""

    keep_daily: int = 0
    """Retain the newest backup of each of this many last days with one."""

    keep_weekly: int = 0
    """The same for weeks."""

    keep_monthly: int = 0
    """The same for months."""

    keep_yearly: int = 0
    """The same for years."""

    compress: Literal["gzip", "zstd", "none", "true", "false"] | bool = "gzip"
    """Compression: ``gzip`` or ``true``, ``zstd``, ``none`` or ``false``."""

    encrypt_to: tuple[str, ...] | None = None
    """Recipients of the encrypted backups: ``age1...``, files with recipients, or names of
    identities of this machine; not encrypted if empty. In the environment: joined by ``:``.
    """

    banks: tuple[str, ...] | None = None
    """Banks to back up, by name or ID; all if not set. In the environment: joined by ``:``."""

    agents: tuple[str, ...] | None = None
    """Agents to back up, by the IDs of ``[agents.<id>]``: their banks and files, besides ``banks``.
    All that are not archived if neither is set.
    """

    files: bool = True
    """Whether to back up memory files and the files of agents as well."""

    stale_after: int = 48
    """Hours after which ``doctor`` reports a missing newer backup."""

    drop_erased: bool = False
    """Whether to prune a backup that contains records erased since as soon as there is a newer one,
    despite other rules.
    """

    @property
    def destinations(self) -> tuple[str, ...]:
        """The destinations as a list.

        Raises:
            ConfigError: If the environment's value is not a list.
        """
        destination = self.destination
        if isinstance(destination, tuple):
            return destination
        if not destination.startswith("["):
            return (destination,) if destination else ()
        try:
            return msgspec.json.decode(destination, type=tuple[str, ...])
        except msgspec.DecodeError:
            raise ConfigError("not a list of destinations", field="backup.destination") from None


class FilesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[files]``."""

    storage_root: str = ""
    """Location of memory files: a folder, ``sqlite://FILE`` or ``s3://BUCKET/PREFIX``; empty for
    ``files`` in the home.
    """

    org: str = "default"
    """Part of the path of each key's files."""

    project: str = "default"
    """Part of the path of each key's files."""

    domain: str = "default"
    """Part of the path of each key's files."""


class InferenceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[inference]``."""

    embedder: str = "static-idf"
    """The embedder: ``static-idf`` or ``static``, which are built in; ``minilm``, of the extra
    ``embed-minilm``; ``onnx``, a model in a folder; ``openai``, a server; or a model by name:
    ``ollama:MODEL``, ``openai:MODEL``, ``sentence-transformers:MODEL``, ``fastembed:MODEL`` or
    ``onnx:FOLDER``. The name of a server's model may end with the server's address:
    ``openai:MODEL@http://127.0.0.1:8080/v1``.
    """

    reranker: str = ""
    """The reranker of the thirty best results, on this machine: ``lexical``, by words alone; or a
    cross-encoder: ``sentence-transformers:MODEL``, ``fastembed:MODEL`` or ``onnx:FOLDER``; empty
    for none.
    """

    reranker_timeout: float = 5.0
    """Maximum seconds of the reranker; after that, results stay in their order."""

    automatic: bool = True
    """Whether imports and queries compute vectors by default, with a model on this machine: one
    that is built in, ``minilm``, or one that ``embedder`` names after a colon.
    """

    folder: str = ""
    """For ``onnx``: the folder with ``model.onnx`` and ``tokenizer.json``."""

    base_url: str = ""
    """For ``openai``: the URL before ``/embeddings``, by default ``https://api.openai.com/v1`` for
    ``openai:MODEL``. For ``ollama:MODEL``: the server; this machine's port 11434 by default.
    """

    model: str = ""
    """For ``openai``: the name of the model."""

    dimensions: int = 0
    """For ``openai``: the number of dimensions of its vectors."""

    shorten: bool = False
    """For ``openai``: whether the server shortens vectors to that number."""

    chat_model: str = ""
    """The name of the server's chat model, for summaries and evaluations."""

    distiller: str = "extractive"
    """What extracts memories from conversations: ``extractive``, without a model, or ``openai``,
    the model in ``chat_model``.
    """

    key_variable: str = ""
    """For ``openai``: the environment variable with the key; empty for none."""

    timeout: float = 30.0
    """For ``openai``: seconds for each step of a request."""
