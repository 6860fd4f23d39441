"""How a timer for the system is printed."""

from satchel.cli._console import message, print_text, state
from satchel.config.settings import Timer


def show_timer(timer: Timer) -> None:
    """Print a timer, and what it cannot hold."""
    print_text(timer.text)
    for name in timer.missing:
        message(f"{name} holds a secret and is not included: set it in {state.settings.file}")
