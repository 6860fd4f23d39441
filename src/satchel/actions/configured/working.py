"""The tables of what works with memory: files, and models."""

import msgspec


class FilesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[files]``."""

    storage_root: str = ""
    """Where memory files are kept: a folder, ``sqlite://FILE`` or ``s3://BUCKET/PREFIX``; empty
    for ``files`` in the home."""

    org: str = "default"
    """Part of the path of each key's files."""

    project: str = "default"
    """Likewise."""

    domain: str = "default"
    """Likewise."""


class InferenceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[inference]``."""

    embedder: str = "static-idf"
    """What makes vectors: ``static-idf`` or ``static``, which come along; ``minilm``, of the extra
    ``embed-minilm``; ``onnx``, a model in a folder; ``openai``, a server; or a model by one name:
    ``ollama:MODEL``, ``openai:MODEL``, ``sentence-transformers:MODEL``, ``fastembed:MODEL`` or
    ``onnx:FOLDER``. The name of a server's model may end with the server's address:
    ``openai:MODEL@http://127.0.0.1:8080/v1``."""

    reranker: str = ""
    """What puts the thirty best memories of an answer in order again, on this machine:
    ``lexical``, by words alone; or a cross-encoder: ``sentence-transformers:MODEL``,
    ``fastembed:MODEL`` or ``onnx:FOLDER``; empty for nothing."""

    reranker_timeout: float = 5.0
    """Seconds that a question waits for it; then the order is as it was."""

    automatic: bool = True
    """Whether imports and questions make vectors unasked, by a model on this machine: one that
    is built in, ``minilm``, or one that ``embedder`` names behind a colon."""

    folder: str = ""
    """For ``onnx``: where ``model.onnx`` and its ``tokenizer.json`` are."""

    base_url: str = ""
    """For ``openai``: what comes before ``/embeddings``, such as ``https://api.openai.com/v1``,
    which ``openai:MODEL`` asks when this is empty. For ``ollama:MODEL``: where the server is; this
    machine's port 11434 when empty."""

    model: str = ""
    """For ``openai``: the name of the model there."""

    dimensions: int = 0
    """For ``openai``: how many numbers its vectors have."""

    shorten: bool = False
    """For ``openai``: whether the server is asked to shorten them to that many."""

    chat_model: str = ""
    """The name of a model there that answers, for summaries and evaluations."""

    distiller: str = "extractive"
    """What draws memories from conversations: ``extractive``, which needs no model, or ``openai``,
    the model that ``chat_model`` names."""

    key_variable: str = ""
    """For ``openai``: the environment variable that has the key; empty for none."""

    timeout: float = 30.0
    """For ``openai``: seconds for each step of a request."""
