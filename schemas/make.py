"""Writes the published JSON Schemas (2020-12) from the model itself.

``python schemas/make.py`` writes them beside this file; with ``--check`` it only says whether they
are current.
"""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from satchel.artifact.body import COMPONENTS, RECORD_SECTIONS, RESERVED, Statement
from satchel.bank.open_bank import BankConfig
from satchel.config.settings import ConfigContents
from satchel.crypto.canonical import Limits
from satchel.crypto.keys import Signature
from satchel.crypto.token_chain import ProofRequest, RevocationList
from satchel.crypto.tokens import TokenPayload
from satchel.formats._aletheia.schema import AgentFile
from satchel.model.records import DIALECT, record_schemas
from satchel.receipts.receipt import ReceiptBody, TransferPlan

HERE = Path(__file__).parent
_SECTION = f"^(?!(?:{'|'.join(sorted(RESERVED))})$)[a-z][a-z0-9_]{{0,63}}$"


def schemas() -> dict[str, dict[str, Any]]:
    """Return each schema by its file name."""
    schema_files = {f"{name}.json": schema for name, schema in record_schemas().items()}
    schema_files["statement.json"] = _plain(Statement, "statement")
    schema_files["account.json"] = _plain(ReceiptBody, "account")
    schema_files["plan.json"] = _plain(TransferPlan, "plan")
    schema_files["capability_token.json"] = _plain(TokenPayload, "capability_token")
    schema_files["proof_of_possession.json"] = _plain(ProofRequest, "proof_of_possession")
    schema_files["revocations.json"] = _plain(RevocationList, "revocations")
    schema_files["pam.json"] = _document()
    schema_files["bank_config.json"] = _open(_plain(BankConfig, "bank_config"))
    schema_files["agent_file.json"] = _open(_plain(AgentFile, "agent_file"))
    schema_files["configuration.json"] = _plain(ConfigContents, "configuration")
    return schema_files


def _plain(cls: type[msgspec.Struct], title: str) -> dict[str, Any]:
    (_,), parts = msgspec.json.schema_components([cls], ref_template="#/$defs/{name}")
    own = parts.pop(cls.__name__)
    return {"$schema": DIALECT, "title": title, **own, **({"$defs": parts} if parts else {})}


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    """Allow members of later versions in a document's schema."""
    parts = [schema, *schema.get("$defs", {}).values()]
    for part in parts:
        part["additionalProperties"] = True
    return schema


def _document() -> dict[str, Any]:
    """A whole ``.pam`` file; the schemas of its records are inside, so one file is enough."""
    limits = Limits()
    defs: dict[str, Any] = {name: _bundled(schema) for name, schema in record_schemas().items()}
    defs["statement"] = _bundled(_plain(Statement, "statement"))
    defs["signature"] = _bundled(_plain(Signature, "signature"))
    sections = {
        section: _array(name)
        for name, section in RECORD_SECTIONS.items()
        if section not in COMPONENTS
    }
    return {
        "$schema": DIALECT,
        "title": "pam",
        "type": "object",
        "required": ["components", "signatures", "statement"],
        "properties": {
            "statement": {"$ref": "#/$defs/statement"},
            "signatures": {
                "type": "array",
                "items": {"$ref": "#/$defs/signature"},
                "maxItems": limits.signatures,
            },
            "components": {
                "type": "object",
                "required": list(COMPONENTS),
                "properties": {name: _array(name, least=0) for name in COMPONENTS},
                "additionalProperties": False,
            },
            **dict(sorted(sections.items())),
        },
        "patternProperties": {
            _SECTION: {"type": "array", "minItems": 1, "items": {"type": "object"}}
        },
        # What the pattern does not reach is named under "properties", or no section at all.
        "additionalProperties": False,
        "$defs": defs,
    }


def _array(name: str, least: int = 1) -> dict[str, Any]:
    return {"type": "array", "minItems": least, "items": {"$ref": f"#/$defs/{name}"}}


def _bundled(schema: dict[str, Any]) -> dict[str, Any]:
    """Set the ID of a schema, so that its references resolve inside it."""
    inside = {name: part for name, part in schema.items() if name != "$schema"}
    return {"$id": f"urn:satchel:{schema['title']}", **inside}


def main(arguments: list[str]) -> int:
    """Write or check; return the exit status."""
    stale = []
    for name, schema in schemas().items():
        text = json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        path = HERE / name
        if not path.exists() or path.read_text("utf-8") != text:
            stale.append(name)
            if "--check" not in arguments:
                path.write_text(text, "utf-8")
    for path in HERE.glob("*.json"):
        if path.name not in schemas():
            stale.append(path.name)
            if "--check" not in arguments:
                path.unlink()
    sys.stdout.writelines(f"{name}\n" for name in stale)
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
