"""The digits that scores are told in."""

PLACES = 1e6


def told(score: float) -> float:
    """Return a score with six digits behind the point.

    Stores and ways of reckoning add up in an order of their own; what is behind is noise. Not
    ``round(score, 6)``, which works the digits out as text: a question rounds a thousand scores.
    """
    return round(score * PLACES) / PLACES
