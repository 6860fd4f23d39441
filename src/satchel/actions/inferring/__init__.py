"""What models are for: vectors of a bank's memories, near-duplicates, entities."""
