"""What is in an agent file of Letta: its rows as records and back, and its older shape."""
