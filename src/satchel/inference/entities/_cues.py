"""Words that tell what a name beside them, or with them in it, is the name of."""

from satchel.ports.inference.extractor import EntityType

FILES: tuple[tuple[EntityType, str], ...] = (
    ("place", "places.txt"),
    ("organisation", "organisations.txt"),
    ("product", "products.txt"),
)
"""The lists; what is in two of them is what the first says."""

_TITLES = "mr. mrs. ms. dr. prof. st. sr. jr. rev. gen. col. capt. lt. sgt. hon. fr. frau. herr."
TITLES = frozenset(_TITLES.split())
"""Abbreviations whose full stop ends no sentence."""

_SHORT_TITLES = "mr mrs ms dr prof"
SHORT_TITLES = frozenset(_SHORT_TITLES.split())
"""Titles that are no part of the name after them."""

_TITLES_BARE = (
    "mr mrs ms dr prof professor doctor rev reverend captain colonel general president "
    "chancellor senator judge sir madam lady lord aunt uncle grandma grandpa coach herr frau "
    "mr. mrs. ms. dr. prof."
)
TITLES_BARE = frozenset(_TITLES_BARE.split())
"""Stand before a person's name."""

_LINKS = "of de la van von der den del da di bin al for & y"
LINKS = frozenset(_LINKS.split())
"""Stand inside a name, between words with capitals."""

_ORGANISATIONS = (
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
ORGANISATIONS = frozenset(_ORGANISATIONS.split())
"""Stand at the end of the name of an organisation, or before "of"."""

_PLACES = (
    "Street St. Road Avenue Ave Lane Drive Boulevard Square Place Park Garden Gardens Lake "
    "River Bay Beach Island Islands Mountain Mountains Mount Hill Hills Valley Canyon Desert "
    "Forest Falls Coast Sea Ocean Bridge Airport Station Harbor Harbour Castle Palace Tower "
    "Cathedral Village Town City County Province District Peninsula Springs Creek Reef "
    "Glacier Trail"
)
PLACES = frozenset(_PLACES.split())
"""Stand at the end of the name of a place."""

_PLACES_BEFORE = "Lake Mount Mt Mt. Cape Fort Port San Santa Saint St. Isle Gulf"
PLACES_BEFORE = frozenset(_PLACES_BEFORE.split())
"""Stand at its beginning."""

_MODELS = "Pro Max Ultra Plus Mini Air Lite SE XL OLED Series Model Edition"
MODELS = frozenset(_MODELS.split())
"""Stand after a product's name."""

_WORKS = (
    "work works worked working job jobs intern interned internship employed employer "
    "employee hired joined join joining joins ceo cto cfo founder founded cofounder engineer "
    "manager director analyst consultant scientist researcher developer lawyer nurse teacher "
    "professor studied studies studying study graduated degree customer contract supplier "
    "client partner offer interview interviewed promoted fired shares stock acquired merger "
    "lawsuit sued invoice payroll vendor position role"
)
WORKS = frozenset(_WORKS.split())
"""Speak of work, study or trade; the name after them is that of an organisation."""

_MOVES = (
    "move moves moved moving go goes going went gone fly flies flew flying flight flights "
    "trip trips travel travels traveled travelled travelling traveling drive drives drove "
    "driving train bus ferry road back return returned returning visit visited come comes "
    "came coming relocate relocated relocating left leave leaves leaving ticket tickets "
    "hails native originally ship shipped shipping shipment deliver delivered delivery born"
)
MOVES = frozenset(_MOVES.split())
"""Speak of going somewhere."""

_INSIDE = (
    "in near around outside inside across throughout visit visits visited visiting toward "
    "towards via north south east west"
)
INSIDE = frozenset(_INSIDE.split())
"""Stand before the name of a place."""

_USES = (
    "use uses used using install installed installing bought buy buys ordered running runs "
    "upgrade upgraded deploy deployed app via plays played playing"
)
USES = frozenset(_USES.split())
"""Stand before the name of a product."""

_THINGS = (
    "app software tool plugin extension library framework database laptop phone tablet "
    "camera headphones watch console subscription version update release server cluster api "
    "sdk"
)
THINGS = frozenset(_THINGS.split())
"""Stand after it."""

_PEOPLE = (
    "named called friend brother sister mother father mom dad mum wife husband son daughter "
    "partner colleague boss manager neighbour neighbor roommate cousin nephew niece aunt "
    "uncle teacher doctor coach dog cat puppy kitten girlfriend boyfriend fiancé fiancée "
    "therapist patient client customer user told asked offered gave met meet thanked emailed "
    "married hey hi hello dear thanks"
)
PEOPLE = frozenset(_PEOPLE.split())
"""Stand before a person's name."""

_TOGETHER = "with and by from for"
TOGETHER = frozenset(_TOGETHER.split())
"""Stand before a person's name, when nothing else is said."""

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
"""What mostly people do."""

_GERMAN = "der die das und ist nicht ein eine einen mit für auf im den dem ich wir"
GERMAN = frozenset(_GERMAN.split())
"""Words of a language that capitalises every noun."""

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
"""Words that begin sentences, or have a capital, and are no names."""
