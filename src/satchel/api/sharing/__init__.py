"""What a bank shares with others, from Python: tokens for a part of it, and proofs."""
