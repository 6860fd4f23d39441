"""``satchel.Agents``: what ``satchel agent`` does, from Python."""

from satchel.actions.agents import operations
from satchel.api.operations import method
from satchel.api.settings import SettingsCalls


class Agents(SettingsCalls):
    """The agents of the configuration: each with its memory, conversations, files and settings."""

    show = method(operations.show_agent)
    export = method(operations.export_agent)
    import_ = method(operations.import_agent)
    list = method(operations.list_agents)
