"""What Google gives out of Gemini."""
