"""What an output's format cannot hold, in a file beside it."""
