"""How the stores of agent frameworks and vector databases say what they keep."""
