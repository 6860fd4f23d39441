"""What models do for a bank: say what a text means in numbers, and what it is about."""
