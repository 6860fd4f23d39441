"""Models: embedders, rerankers, extractors, distillers, tokenizers."""
