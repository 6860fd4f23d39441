"""Exporting and importing whole agents, and listing them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack

from satchel.actions.agents import exporting, importing
from satchel.actions.agents.agents import AgentLine, list_agents
from satchel.actions.agents.exporting import AgentExported, AgentExportOptions
from satchel.actions.agents.importing import AgentImported, AgentImportOptions, OnAgent
from satchel.actions.agents.workspace import WorkspaceRules
from satchel.actions.config import Settings, load_settings
from satchel.actions.importing.imported import ImportOptions
from satchel.actions.inferring.duplicates import NearDuplicates
from satchel.actions.moving.exported import ExportOptions, is_signed
from satchel.actions.signing import signing_key


class AgentExportArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.export_agent``."""

    home: str | Path | None
    """Where keys and trust are; ``SATCHEL_HOME`` or the platform's folder when not given."""

    config: str | Path | None
    format: str | None
    """``aletheia``, ``pam``, ``pam_jsonl`` or ``pam_cbor``; from the name when not given."""

    full: bool
    """All conversations with all messages."""

    include_binary: bool
    include_secrets: bool
    overwrite: bool
    sign: bool
    """False writes an artifact unsigned."""

    key_name: str | None
    passphrase: str | None
    accept_loss: Sequence[str]
    dry_run: bool


class AgentImportArguments(TypedDict, total=False):
    """Optional arguments of ``satchel.import_agent``."""

    home: str | Path | None
    config: str | Path | None
    name: str | None
    """Its id here; as the file says when not given."""

    on_conflict: str
    """``rename``, ``overwrite``, ``merge`` or ``fail``, which it is when not given."""

    workspace: str | Path | None
    near_duplicates: str | None
    embed: bool
    passphrase: str | None
    accept_loss: Sequence[str]
    trusted_keys: Sequence[str]
    dry_run: bool


def agents(*, home: str | Path | None = None, config: str | Path | None = None) -> list[AgentLine]:
    """Return the agents that the configuration names."""
    return list_agents(_settings(home, config))


def export_agent(
    agent: str, output: str | Path, **said: Unpack[AgentExportArguments]
) -> AgentExported:
    """Write all of an agent to one file; see ``satchel agent export``.

    Args:
        agent: Its id.
        output: The file; its name says the format, and whether it is compressed.
        **said: See ``AgentExportArguments``.

    Raises:
        UnknownAgentError: If there is no such agent.
        SatchelError: As ``Bank.export``.
    """
    settings = _settings(said.get("home"), said.get("config"))
    dry_run, path = said.get("dry_run", False), Path(output)
    key = None
    if is_signed(path, said.get("format")) and said.get("sign", True) and not dry_run:
        key = signing_key(settings, said.get("key_name"), passphrase=said.get("passphrase"))[0]
    options = AgentExportOptions(
        export=ExportOptions(
            format=said.get("format"),
            key=key,
            overwrite=said.get("overwrite", False),
            accept_loss=tuple(said.get("accept_loss", ())),
            dry_run=dry_run,
        ),
        full=said.get("full", False),
        rules=WorkspaceRules(
            binary=said.get("include_binary", False), secrets=said.get("include_secrets", False)
        ),
    )
    try:
        return exporting.export_agent(settings, agent, path, options)
    finally:
        settings.hooks.finish()


def import_agent(source: str | Path, **said: Unpack[AgentImportArguments]) -> AgentImported:
    """Make an agent of a file; see ``satchel agent import``.

    Args:
        source: An agent file, or a sealed artifact of an agent.
        **said: See ``AgentImportArguments``.

    Raises:
        AgentExistsError: If there is such an agent, and nobody said what to do.
        SatchelError: As ``Bank.import_``; nothing is changed then.
    """
    settings = _settings(said.get("home"), said.get("config"))
    workspace, near = said.get("workspace"), said.get("near_duplicates")
    options = AgentImportOptions(
        name=said.get("name"),
        on_conflict=OnAgent(said.get("on_conflict", "fail")),
        workspace=None if workspace is None else Path(workspace),
        near_duplicates=None if near is None else NearDuplicates(near),
        embed=said.get("embed", True),
        dry_run=said.get("dry_run", False),
        memory=ImportOptions(
            accept_loss=tuple(said.get("accept_loss", ())),
            trusted_keys=tuple(said.get("trusted_keys", ())),
        ),
    )
    passphrase = said.get("passphrase")
    try:
        return importing.import_agent(
            settings,
            Path(source),
            lambda: signing_key(settings, passphrase=passphrase)[0],
            options,
        )
    finally:
        settings.hooks.finish()


def _settings(home: str | Path | None, config: str | Path | None) -> Settings:
    return load_settings(
        home=None if home is None else Path(home), config=None if config is None else Path(config)
    )
