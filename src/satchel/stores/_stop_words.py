"""Words that say nothing alone: left out of a query, never of the index.

English, and the articles, pronouns and prepositions of a few languages more. A word that means
something in another of them is not here (German "war", French "son"): a bank is in several
languages, and who asks for it alone would not find it. All are as the index folds them: lower
case, without accents.
"""
# ruff: noqa: RUF001 - Cyrillic it is

_WORDS = (
    # English, with what an apostrophe leaves behind.
    "a about after all also am an and any are as at be because been before being both but by can "
    "could did do does doing during each few for from further had has have having he her here hers "
    "herself him himself his how i if in into is it its itself just ll me more most my myself no "
    "nor not of off on once only or other our ours ourselves out over own re s same she should so "
    "some such t than that the their theirs them themselves then there these they this those "
    "through to too under until up ve very was we were what when where which while who whom why "
    "will with would you your yours yourself yourselves "
    # French
    "au aux avec ce ces cette dans de des du elle en est et il ils je la le les leur lui ne nous "
    "ou par pas pour qu que qui sa ses sur tu un une vous "
    # Spanish, Portuguese, Italian
    "al como con da dei del della di e el ele em esta gli lo los las mas na nao nel no o os para "
    "per por se su uma una uno y "
    # German, Dutch
    "aber aus bei das dass dem der ein eine einem einen einer es het ich ik ist mit nach nicht "
    "niet oder sich sie sind uber und van von voor wie wir zu zum zur "
    # Russian
    "а в во вы да для до ее же за и из или их к как ко мы на не но о об он она "
    "они от по с со та то ты у что это я"
)
STOP_WORDS = frozenset(_WORDS.split())
"""Whole words as ``_terms`` folds them."""

_DENIED = (
    "ain aren can couldn didn doesn don hadn hasn haven isn mustn shan shouldn wasn weren won "
    "wouldn"
)
DENIED = frozenset(_DENIED.split())
"""What stands before the apostrophe and the t of don't; words of their own where it does not."""
