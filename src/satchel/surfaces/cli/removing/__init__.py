"""What has to go: ``satchel erase``, ``prune``, ``everything``, ``redact`` and ``recover``."""
