"""What the formats of notes have in common: front matter, facts, indexes, bullets, blocks."""
