"""The small agent of the examples."""

import subprocess
import sys
from pathlib import Path

LOOP = Path(__file__).parent.parent.parent / "examples" / "agent_loop.py"


def say(*sentences: str) -> list[str]:
    """Run the agent, and return what it answered."""
    ran = subprocess.run(
        [sys.executable, str(LOOP), *sentences], capture_output=True, text=True, check=True
    )
    return [line for line in ran.stdout.splitlines() if not line.startswith("> ")]


def test_the_agent_of_the_examples_remembers_across_runs() -> None:
    """It knows in the second run what it was told in the first."""
    assert say("what do you know?") == ["I know nothing about you yet."]
    assert say("my name is Bob", "I like tea") == ["I will remember that."] * 2
    assert say("my name is Ada", "my name is Ada.") == ["I will remember that.", "I know."]
    assert say("?") == ["The user likes tea", "The user is called Ada"]
    assert say("forget tea", "?") == ["Forgotten: The user likes tea", "The user is called Ada"]
