"""Finding people, organizations, places, dates and products by rules.

Words with a capital are classified with their context: by lists of names, then by words that occur
only in such names (University, Street), then by the words around them (works at, lives in). Others
are skipped. The rules are for English; in languages that capitalize every noun, only listed names
are found. docs/guides/embeddings.md has measurements.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from satchel.ports.inference import EntityMention, EntityType

FILES: tuple[tuple[EntityType, str], ...] = (
    ("place", "places.txt"),
    ("organisation", "organizations.txt"),
    ("product", "products.txt"),
)
"""The lists of names; the first one that has a name decides."""

_TITLES = "mr. mrs. ms. dr. prof. st. sr. jr. rev. gen. col. capt. lt. sgt. hon. fr. frau. herr."
TITLES = frozenset(_TITLES.split())
"""Abbreviations whose full stop does not end a sentence."""

_SHORT_TITLES = "mr mrs ms dr prof"
SHORT_TITLES = frozenset(_SHORT_TITLES.split())
"""Titles that are not part of the name after them."""

_TITLES_BARE = (
    "mr mrs ms dr prof professor doctor rev reverend captain colonel general president "
    "chancellor senator judge sir madam lady lord aunt uncle grandma grandpa coach herr frau "
    "mr. mrs. ms. dr. prof."
)
TITLES_BARE = frozenset(_TITLES_BARE.split())
"""Titles before a person's name."""

_LINKS = "of de la van von der den del da di bin al for & y"
LINKS = frozenset(_LINKS.split())
"""Words inside a name, between words with capitals."""

_ORGANIZATIONS = (
    "Inc Inc. Ltd Ltd. LLC LLP Corp Corp. Corporation Company Co Co. GmbH AG SE KG SA SARL "
    "Srl BV NV PLC plc Oy AB University College School Academy Institute Institution "
    "Hospital Clinic Bank Foundation Trust Association Society Union Federation Club Team "
    "Agency Ministry Department Office Authority Commission Committee Council Court Church "
    "Museum Gallery Library Laboratory Laboratories Labs Lab Group Holdings Partners "
    "Ventures Capital Insurance Airlines Airways Motors Pharmaceuticals Pharma Systems "
    "Technologies Technology Solutions Consulting Studios Records Press Times Post Journal "
    "Orchestra Theatre Theater Restaurant Cafe Bakery Bookstore Universität Hochschule "
    "Klinikum Verein Stiftung Charity Shelter Energy Robotics Analytics Software Logistics "
    "Networks Electronics Industries Brewery Gym Pharmacy"
)
ORGANIZATIONS = frozenset(_ORGANIZATIONS.split())
"""Words at the end of the name of an organization, or before "of"."""

_PLACES = (
    "Street St. Road Avenue Ave Lane Drive Boulevard Square Place Park Garden Gardens Lake "
    "River Bay Beach Island Islands Mountain Mountains Mount Hill Hills Valley Canyon Desert "
    "Forest Falls Coast Sea Ocean Bridge Airport Station Harbor Harbour Castle Palace Tower "
    "Cathedral Village Town City County Province District Peninsula Springs Creek Reef "
    "Glacier Trail"
)
PLACES = frozenset(_PLACES.split())
"""Words at the end of the name of a place."""

_PLACES_BEFORE = "Lake Mount Mt Mt. Cape Fort Port San Santa Saint St. Isle Gulf"
PLACES_BEFORE = frozenset(_PLACES_BEFORE.split())
"""Words at the start of the name of a place."""

_MODELS = "Pro Max Ultra Plus Mini Air Lite SE XL OLED Series Model Edition"
MODELS = frozenset(_MODELS.split())
"""Words after the name of a product."""

_WORKS = (
    "work works worked working job jobs intern interned internship employed employer "
    "employee hired joined join joining joins ceo cto cfo founder founded cofounder engineer "
    "manager director analyst consultant scientist researcher developer lawyer nurse teacher "
    "professor studied studies studying study graduated degree customer contract supplier "
    "client partner offer interview interviewed promoted fired shares stock acquired merger "
    "lawsuit sued invoice payroll vendor position role"
)
WORKS = frozenset(_WORKS.split())
"""Words of work, study or trade; the name after them is an organization."""

_MOVES = (
    "move moves moved moving go goes going went gone fly flies flew flying flight flights "
    "trip trips travel travels traveled travelled travelling traveling drive drives drove "
    "driving train bus ferry road back return returned returning visit visited come comes "
    "came coming relocate relocated relocating left leave leaves leaving ticket tickets "
    "hails native originally ship shipped shipping shipment deliver delivered delivery born"
)
MOVES = frozenset(_MOVES.split())
"""Words of travel."""

_INSIDE = (
    "in near around outside inside across throughout visit visits visited visiting toward "
    "towards via north south east west"
)
INSIDE = frozenset(_INSIDE.split())
"""Words before the name of a place."""

_USES = (
    "use uses used using install installed installing bought buy buys ordered running runs "
    "upgrade upgraded deploy deployed app via plays played playing"
)
USES = frozenset(_USES.split())
"""Words before the name of a product."""

_THINGS = (
    "app software tool plugin extension library framework database laptop phone tablet "
    "camera headphones watch console subscription version update release server cluster api "
    "sdk"
)
THINGS = frozenset(_THINGS.split())
"""Words after the name of a product."""

_PEOPLE = (
    "named called friend brother sister mother father mom dad mum wife husband son daughter "
    "partner colleague boss manager neighbour neighbor roommate cousin nephew niece aunt "
    "uncle teacher doctor coach dog cat puppy kitten girlfriend boyfriend fiancé fiancée "
    "therapist patient client customer user told asked offered gave met meet thanked emailed "
    "married hey hi hello dear thanks"
)
PEOPLE = frozenset(_PEOPLE.split())
"""Words before the name of a person."""

_TOGETHER = "with and by from for"
TOGETHER = frozenset(_TOGETHER.split())
"""Words before the name of a person, if no other rule applies."""

BESIDE_PEOPLE = PEOPLE | TOGETHER

_ACTS = (
    "said says told tells asked asks thinks thought likes liked loves loved hates wants "
    "wanted needs lives lived works worked moved went goes came comes bought sold plays "
    "played enjoys enjoyed prefers preferred mentioned wrote writes called calls met visited "
    "joined started began decided planned plans hopes remembers forgot knows knew feels felt "
    "believes agreed refused reported explained suggested recommended booked cooked cooks "
    "teaches studies studied adopted invited travels drove flew runs ran has had is was will "
    "can does did and whose who"
)
ACTS = frozenset(_ACTS.split())
"""Verbs with mostly persons as subjects."""

_GERMAN = "der die das und ist nicht ein eine einen mit für auf im den dem ich wir"
GERMAN = frozenset(_GERMAN.split())
"""Words of German, which capitalizes every noun."""

_ORDINARY = (
    "a an the this that these those there here i i'm i've i'll i'd it it's he she they we "
    "you my our your his her its their me him them us what when where which who whom whose "
    "why how if whether because since while although though after before during until once "
    "as at by for from in into of off on onto out over to under up with without within about "
    "against between through and or but nor so yet not no yes yeah yep ok okay oh wow hey hi "
    "hello thanks thank please sorry well also just only even still then now later soon "
    "today tomorrow yesterday tonight maybe perhaps sure really very too quite all any both "
    "each every few many more most much other some such same own another one two three first "
    "second third next last is are was were be been being am do does did done has have had "
    "can could will would shall should may might must let lets let's don't doesn't didn't "
    "won't can't couldn't isn't aren't wasn't weren't that's there's what's who's get gets "
    "got go goes going went come comes came make makes made take takes took give gives gave "
    "see sees saw look looks looking think thinks thought know knows knew want wants need "
    "needs try tries tried use uses used work works call calls called ask asks asked tell "
    "told said say says keep keeps kept love loves like likes hope hopes feel feels felt "
    "meet meeting remember great good nice awesome amazing cool happy glad excited new old "
    "big small long high low best better bad right left wrong true false user users customer "
    "customers patient team company people person man woman kid kids mom dad mum everyone "
    "someone nobody anything something nothing everything dinner lunch breakfast order "
    "orders project projects note notes reminder meetings email emails phone bug issue task "
    "tasks file files data server set sent send check add update updated install run runs "
    "start started stop stopped open close visa target shell rust spark signal swift meta "
    "python essen mark grace dawn guy gene bill rose art max summer winter spring autumn "
    "fall monday tuesday wednesday thursday friday saturday sunday january february march "
    "april june july august september october november december english german french "
    "spanish italian japanese chinese american british european indian portuguese dutch "
    "russian korean christmas easter god internet ai api cpu gpu url pdf csv json sql html "
    "css ceo cto cfo hr pr id tv usb faq eta asap diy lgbtq covid dna"
)
ORDINARY = frozenset(_ORDINARY.split())
"""Words that start sentences, or have a capital, and are not names."""


_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|januar|februar|märz|mai|juni|juli|"
    "oktober|dezember|janvier|février|mars|avril|juin|juillet|août|septembre|octobre|novembre|"
    r"décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|"
    r"diciembre)\b\.?"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th|\.)?"
_YEAR = r"(?:1[5-9]|20|21)\d\d"
_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_SPAN = "(?:day|night|week|weekend|month|year|summer|winter|spring|autumn|fall|quarter|semester)"
_SOME = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|a few|several|\d{1,3})"

_PATTERNS = (
    rf"{_YEAR}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?",
    r"(?:0?[1-9]|[12]\d|3[01])[./](?:0?[1-9]|[12]\d|3[01])[./](?:\d{4}|\d\d)",
    rf"(?:{_WEEKDAY},?\s)?{_DAY}\s(?:of\s|de\s)?{_MONTH}(?:,?\s(?:de\s)?{_YEAR})?",
    rf"(?:{_WEEKDAY},?\s)?{_MONTH}\s{_DAY}(?!\d)(?:,?\s{_YEAR})?",
    rf"{_MONTH},?\s(?:of\s)?{_YEAR}",
    rf"(?:(?:early|mid|late|last|next|this|every)[\s-])?{_WEEKDAY}s?(?:\s(?:morning|night|evening))?",
    rf"(?:last|next|this past|this coming|the past)\s(?:{_SPAN}|{_MONTH}|{_SOME}\s{_SPAN}s)",
    rf"{_SOME}\s{_SPAN}s?\s(?:ago|from now|later|earlier)",
    r"(?:the\s)?day\s(?:before\syesterday|after\stomorrow)|yesterday|tomorrow|today|tonight",
    rf"(?:spring|summer|autumn|fall|winter|q[1-4])\s(?:of\s)?{_YEAR}",
    r"(?:the\s)?(?:1[5-9]|20)\d0s",
    rf"(?<=\bin\s){_YEAR}|(?<=\bsince\s){_YEAR}|(?<=\buntil\s){_YEAR}|(?<=\bby\s){_YEAR}|(?<=\bseit\s){_YEAR}",
    rf"(?<=\bin\s){_MONTH}|(?<=\bsince\s){_MONTH}|(?<=\buntil\s){_MONTH}",
    r"(?:christmas|easter|thanksgiving|new year's)(?:\s(?:eve|day))?",
)
_DATE = re.compile("|".join(rf"(?<![\w.-])(?:{one})(?!\w)" for one in _PATTERNS), re.IGNORECASE)


def dates_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each date in a text."""
    for match in _DATE.finditer(text):
        start, end = match.span()
        yield start, end - (text[end - 1] == ".")


MODEL = "satchel-rules/1"

_DATA = Path(__file__).parent / "data"
_LONGEST = 1 << 16
"""Maximum characters of a text that are read, from its start."""

_TOKEN = re.compile(r"[^\W_](?:[\w&+#/]|['’.-](?=\w))*(?:[+#]+|(?<=\b[A-Z])\.)?", re.UNICODE)  # noqa: RUF001 - an apostrophe
_POSSESSIVE = re.compile(r"['’]s$")  # noqa: RUF001 - idem
_ENDS = re.compile(r"[.!?:;\n\"“”„•|]|\s-\s")
_ROMAN_OR_NUMBER = re.compile(r"\d[\w.]*|[IVX]{1,4}|[A-Z]?\d+[A-Za-z]?")
_MOST_WORDS = 6
_GERMAN_FROM = 0.3


class _Token(NamedTuple):
    text: str
    """Without the ``'s`` of a possessive."""

    start: int
    end: int
    begins: bool
    """Whether it starts a sentence."""

    joined: bool
    """Whether only a space separates it from the previous word."""

    owns: bool
    """Whether it had a possessive."""

    @property
    def capital(self) -> bool:
        return self.text[0].isupper()

    @property
    def folded(self) -> str:
        return self.text.casefold()


class _Lists(NamedTuple):
    first_names: frozenset[str]
    named: dict[tuple[str, ...], EntityType]
    """Types of names other than first names, by their words."""


class RuleExtractor:
    """Finds entities by rules; deterministic."""

    model = MODEL

    def extract(self, texts: Sequence[str]) -> list[list[EntityMention]]:
        """Return for each text its mentions; see ``Extractor``."""
        return [_mentions(text[:_LONGEST]) for text in texts]


def _mentions(text: str) -> list[EntityMention]:
    dates = list(dates_in(text))
    mentions = [EntityMention(text[start:end], "date", start, end) for start, end in dates]
    mentions += _TextScan(text, list(_tokens(text, dates))).mentions()
    return sorted(mentions, key=lambda mention: mention.start)


def _tokens(text: str, spans: list[tuple[int, int]]) -> Iterator[_Token]:
    """Yield the words of a text that are not part of a date."""
    dates, last, before, cut = deque(spans), 0, "", False
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        while dates and dates[0][1] <= start:
            dates.popleft()
        if dates and dates[0][0] < end:
            last, before, cut = end, "", True
            continue
        between, word = text[last:start], match.group()
        short = between.startswith(".") and f"{before.casefold()}." in TITLES
        begins = last == 0 or (not short and _ENDS.search(between) is not None)
        joined = not cut and (between == " " or (short and between == ". "))
        own = _POSSESSIVE.sub("", word)
        yield _Token(own, start, start + len(own), begins, joined, own != word)
        last, before, cut = end, word, False


class _TextScan:
    """The entities of a text, found in one pass."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._lists = _lists()
        middle = [token for token in tokens if not token.begins and token.text.isalpha()]
        capitals = sum(token.capital for token in middle)
        german = sum(token.folded in GERMAN for token in tokens)
        self._lists_only = german > 1 and capitals > _GERMAN_FROM * len(middle)
        self._names = {token.text for token in middle if token.capital}

    def mentions(self) -> Iterator[EntityMention]:
        """Yield the mentions in order."""
        at = 0
        while at < len(self._tokens):
            if self._only_opens(at):
                at += 1
                continue
            if self._is_title(at):
                end = self._cut(at + 1, self._run(at + 1))
                yield self._mention(at + 1, end, "person")
                at = end
                continue
            end, kind = self._named_at(at)
            if kind is not None:
                yield self._mention(at, end, kind)
            at = max(end, at + 1)

    def _mention(self, at: int, end: int, kind: EntityType) -> EntityMention:
        first, last = self._tokens[at], self._tokens[end - 1]
        return EntityMention(self._text[first.start : last.end], kind, first.start, last.end)

    def _is_title(self, at: int) -> bool:
        """Return whether a word is a short title before a name."""
        if self._tokens[at].folded not in SHORT_TITLES or at + 1 == len(self._tokens):
            return False
        after = self._tokens[at + 1]
        return after.capital and after.joined

    def _only_opens(self, at: int) -> bool:
        """Return whether a word starts a sentence and is not part of the name after it."""
        token = self._tokens[at]
        opens = token.begins and token.folded in ORDINARY - TITLES_BARE
        return opens and self._run(at) > at + 1 and self._listed(at)[1] is None

    def _named_at(self, at: int) -> tuple[int, EntityType | None]:
        """Return the end and the type of the name at a word."""
        token = self._tokens[at]
        listed, kind = self._listed(at)
        if kind is None and not token.capital:
            return at + 1, None
        end = max(self._run(at), listed)
        whole = self._by_form(at, end)
        if whole is not None:
            return end, whole
        if kind is not None:
            if token.begins and listed == at + 1 and token.folded in ORDINARY:
                return at + 1, None
            return self._extended(at, listed, kind)
        return self._person_or_context(at, end)

    def _listed(self, at: int) -> tuple[int, EntityType | None]:
        words = tuple(token.text for token in self._tokens[at : at + 4])
        for count in range(len(words), 0, -1):
            kind = self._lists.named.get(words[:count])
            if kind is not None:
                return at + count, kind
        return at, None

    def _extended(self, at: int, end: int, kind: EntityType) -> tuple[int, EntityType]:
        """Extend a listed name by a model number, or an organization by its product."""
        after, name_end = end, end
        while after < len(self._tokens) and after - at < _MOST_WORDS and self._tokens[after].joined:
            token = self._tokens[after]
            numbered = _ROMAN_OR_NUMBER.fullmatch(token.text) is not None and not token.begins
            if numbered or token.text in MODELS:
                name_end = after + 1
            elif not (kind == "organisation" and token.capital and after == end):
                break
            after += 1
        if name_end > end and kind in ("product", "organisation"):
            return name_end, "product"
        listed, next_kind = self._listed(end) if end < len(self._tokens) else (end, None)
        if kind == "organisation" and next_kind == "product" and self._tokens[end].joined:
            return self._extended(at, listed, "product")
        return end, kind

    def _run(self, at: int) -> int:
        """Return the end of a run of words with capitals."""
        end = at + 1
        while end < len(self._tokens) and end - at < _MOST_WORDS:
            token, before = self._tokens[end], self._tokens[end - 1]
            follows = token.joined or self._is_titled(before, token)
            if not follows or before.owns:
                break
            if token.capital and not token.begins:
                end += 1
            elif (
                token.text in LINKS
                and end + 1 < len(self._tokens)
                and self._tokens[end + 1].capital
                and self._tokens[end + 1].joined
            ):
                end += 2
            else:
                break
        return end

    def _is_titled(self, before: _Token, token: _Token) -> bool:
        """Return whether a word is a title right before a name, apart from a date between them."""
        between = self._text[before.end : token.start]
        return before.folded in TITLES_BARE and not token.begins and not between.strip(". ")

    def _by_form(self, at: int, end: int) -> EntityType | None:
        """Return the type of a run by the words in it."""
        words = [one.text for one in self._tokens[at:end]]
        if len(words) == 1 or self._lists_only:
            return None
        linked = any(word in LINKS for word in words)
        if words[-1] in ORGANIZATIONS or (linked and words[0] in ORGANIZATIONS):
            return "organisation"
        if words[-1] in PLACES or words[0] in PLACES_BEFORE:
            return "place"
        return None

    def _person_or_context(self, at: int, end: int) -> tuple[int, EntityType | None]:
        token = self._tokens[at]
        if token.folded in TITLES_BARE and end > at + 1:
            return self._cut(at, end), "person"
        if token.folded in self._lists.first_names and not self._is_plain(at, end):
            return self._cut(at, min(end, at + 3)), "person"
        if self._lists_only:
            return at + 1, None
        if token.begins and (end == at + 1 or token.folded in ORDINARY):
            if end > at + 1:
                return self._named_at(at + 1)
            return self._beginning(at)
        if token.folded in ORDINARY and end == at + 1:
            return end, None
        end = self._cut(at, end)
        return end, self._by_context(at, end)

    def _is_plain(self, at: int, end: int) -> bool:
        """Return whether a possible first name is an ordinary word at the start of a sentence."""
        token = self._tokens[at]
        return token.begins and token.folded in ORDINARY and end == at + 1

    def _beginning(self, at: int) -> tuple[int, EntityType | None]:
        """Classify a single word at the start of a sentence: a name if it recurs, or acts."""
        token = self._tokens[at]
        if token.folded in ORDINARY:
            return at + 1, None
        after = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        acts = after is not None and after.joined and after.folded in ACTS
        if token.text in self._names or acts or (token.owns and not token.folded.endswith("s")):
            return at + 1, self._by_context(at, at + 1) or "person"
        return at + 1, None

    def _cut(self, at: int, end: int) -> int:
        """Cut a run before a listed name at its end, such as a place."""
        for index in range(at + 1, end):
            if self._listed(index)[1] is not None and self._tokens[index - 1].text in LINKS:
                return index - 1
        return end

    def _by_context(self, at: int, end: int) -> EntityType | None:
        """Return the type of a run by the words around it."""
        before = [one.folded for one in self._tokens[max(0, at - 5) : at]]
        after = self._tokens[end].folded if end < len(self._tokens) else ""
        if before and before[-1] == "the":
            before.pop()
        token, last = self._tokens[at], before[-1] if before else ""
        kind: EntityType | None = None
        if end - at == 1 and token.text.isupper() and len(token.text) > 1:
            kind = "organisation" if last in ("at", "for", "by", "joined") else None
        elif _is_model(token.text) or any(c.isdigit() for c in self._tokens[end - 1].text):
            kind = "product"
        elif WORKS & set(before) and last in ("at", "for", "with", "joined", "of", "by", "to"):
            kind = "organisation"
        elif last in INSIDE or (last in ("to", "from", "for") and MOVES & set(before)):
            kind = "place"
        elif last in USES or after in THINGS:
            kind = "product"
        elif token.owns or end - at > 1 or after in ACTS or last in BESIDE_PEOPLE:
            kind = "person"
        return kind


def _is_model(word: str) -> bool:
    """Return whether a word has a capital or a digit inside, as in PostgreSQL and S23."""
    rest = word[1:]
    if word.startswith(("Mc", "Mac", "O'", "D'")) or "-" in word:
        return False
    return any(c.isdigit() for c in rest) or (any(c.isupper() for c in rest) and not word.isupper())


@cache
def _lists() -> _Lists:
    named = dict[tuple[str, ...], EntityType]()
    for kind, name in FILES:
        for line in (_DATA / name).read_text("utf-8").splitlines():
            words = tuple(_TOKEN.findall(line))
            named.setdefault(words, kind)
    names = (_DATA / "first_names.txt").read_text("utf-8").split()
    return _Lists(frozenset(names), named)
