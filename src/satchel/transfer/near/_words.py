"""Words by which two texts that sound alike are told apart, in the languages of most banks.

As they are folded: lower case, accents as they are written.
"""

_NEGATIONS = (
    "no not nor never none nobody nothing nowhere neither without cannot cant dont doesnt "
    "didnt wont isnt arent wasnt werent hasnt havent hadnt wouldnt couldnt shouldnt mustnt "
    "hardly barely nicht nie niemals nichts niemand kein keine keinen keinem keiner keines "
    "ohne weder noch ne pas jamais rien personne aucun aucune sans ni nunca jamás nada nadie "
    "ningún ninguno ninguna sin tampoco non mai niente nulla nessuno nessuna senza né não nem "
    "ninguém nenhum nenhuma sem niet nooit niets geen zonder nigdy nic nikt bez ani не нет ни "
    "никогда ничего никто без inte aldrig ingen inget inga utan ikke aldri uten ei"
)
NEGATIONS = frozenset(_NEGATIONS.split())
"""Turn what is said into its opposite, or mean something else in another of the languages."""

_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy "
    "eighty ninety hundred thousand million billion dozen half quarter double triple once "
    "twice thrice first second third fourth fifth sixth seventh eighth ninth tenth last null "
    "eins ein eine einen zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert "
    "tausend halb erste zweite dritte un une deux trois quatre cinq sept huit neuf dix onze "
    "douze vingt cent mille premier uno una dos tres cuatro cinco seis siete ocho nueve diez "
    "cien mil primero segundo tercero due tre quattro cinque sei sette otto nove dieci cento"
)
NUMBERS = frozenset(_NUMBERS.split())
"""Numbers in letters."""

_OPPOSITES = (
    "like likes liked love loves loved adore adores enjoy enjoys enjoyed hate hates hated "
    "dislike dislikes disliked avoid avoids avoided prefer prefers preferred refuse refuses "
    "refused more less most least before after until since above below over under up down in "
    "out on off left right north south east west true false yes always rarely often seldom "
    "sometimes allow allows allowed deny denies denied forbid forbids forbidden enable enabled "
    "enables disable disabled disables accept accepts accepted reject rejects rejected start "
    "starts started stop stops stopped begin begins began quit quits open opens opened close "
    "closes closed win wins won lose loses lost buy buys bought sell sells sold lend lends "
    "borrow borrows increase increased increases decrease decreased decreases add added remove "
    "removed alive dead married divorced single pass passed fail failed failing monday tuesday "
    "wednesday thursday friday saturday sunday january february march april june july august "
    "september october november december today tomorrow yesterday morning noon afternoon "
    "evening night week month year weekly monthly yearly daily hourly next mother father "
    "sister brother son daughter wife husband aunt uncle"
)
OPPOSITES = frozenset(_OPPOSITES.split())
"""Words that stand where another one would change all: likings, directions, days, relations."""

_PERSONS = (
    "i me my mine myself we us our ours you your yours he him his she her hers it its they "
    "them their theirs who whom whose ich mich mir mein du dich dein er ihn sein sie ihr wir "
    "uns je tu il elle nous vous ils elles yo tú él ella nosotros"
)
PERSONS = frozenset(_PERSONS.split())
"""Words that stand for somebody."""

_BEGINNINGS = (
    "the a an this that these those there here and but or so if when while because as at by "
    "for from of to with about user users is are was were be been being do does did has have "
    "had can could will would should may might must please also some any all each every both "
    "what where why how der die das ein eine und aber le la les un une et el los las il lo gli"
)
BEGINNINGS = frozenset(_BEGINNINGS.split())
"""Words that begin sentences, with a capital, and are no names."""
