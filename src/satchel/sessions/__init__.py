"""Conversations: messages, checkpoints, branches, distillation."""
