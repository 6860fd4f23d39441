"""Ranks texts for questions with bm25s: JSON on standard input, positions on standard output."""

import json
import sys

import bm25s  # type: ignore[import-not-found]

MOST = 300


def main() -> None:
    """Index the texts, and print for each question the places of the best, best first."""
    request = json.load(sys.stdin)
    index = bm25s.BM25()
    index.index(bm25s.tokenize(request["texts"], show_progress=False), show_progress=False)
    k = min(MOST, len(request["texts"]))
    rankings = []
    for question in request["questions"]:
        tokens = bm25s.tokenize([question], show_progress=False)
        places, scores = index.retrieve(tokens, k=k, show_progress=False)
        pairs = zip(places[0].tolist(), scores[0].tolist(), strict=True)
        rankings.append([place for place, score in pairs if score > 0])
    json.dump(rankings, sys.stdout)


main()
