"""Conversations: recording them, looking at them, going back to a point of one."""
