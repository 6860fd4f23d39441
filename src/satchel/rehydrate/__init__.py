"""Memory as context for a model: ranking, compression, frames, quarantine."""
