"""Embedders that are small neural networks, run on this machine through ONNX."""
