"""The checkpoints of LangGraph: how they are packed, the messages in them, threads as sessions."""
