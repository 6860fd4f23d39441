"""What is in a graph of Graphiti: its rows as records and back."""
