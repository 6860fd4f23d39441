"""One function for each thing a person can ask; every door calls these and nothing below."""
