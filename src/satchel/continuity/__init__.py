"""Conversations in a bank's log: sessions, their messages and states, checkpoints, forks."""
