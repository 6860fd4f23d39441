"""Small neural networks, run on this machine through ONNX: embedders and cross-encoders."""
