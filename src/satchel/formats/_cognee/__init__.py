"""What is in a COGX archive of Cognee: its files, and their rows as records and back."""
