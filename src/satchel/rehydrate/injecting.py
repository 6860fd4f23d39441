"""Stage 7, inject: the messages, with memory after the system prompt and before what a user says.

Memory is never given the role of the system: what is recalled must not outrank who asks.
"""

from typing import Any


def injected(text: str, task: str, system: str | None) -> dict[str, Any]:
    """Return messages in the shapes that three SDKs take, and as plain text.

    Args:
        text: The framed memory; empty for none.
        task: What the user says; left out when empty.
        system: The system prompt; left out when None.

    Returns:
        ``openai``: a list for ``messages``; ``anthropic``: members ``system`` and ``messages``;
        ``gemini``: members ``system_instruction`` and ``contents``; ``plain``: one text.
    """
    said = [one for one in (text, task) if one]
    return {
        "openai": [
            *([{"role": "system", "content": system}] if system else []),
            *({"role": "user", "content": one} for one in said),
        ],
        "anthropic": {
            **({"system": system} if system else {}),
            "messages": _turn("content", [{"type": "text", "text": one} for one in said]),
        },
        "gemini": {
            **({"system_instruction": {"parts": [{"text": system}]}} if system else {}),
            "contents": _turn("parts", [{"text": one} for one in said]),
        },
        "plain": "\n\n".join([*([system] if system else []), *said]),
    }


def _turn(member: str, parts: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return one turn of the user's, which both providers want whole."""
    return [{"role": "user", member: parts}] if parts else []
