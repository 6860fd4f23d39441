"""Imperatives to a model: phrases that tell an assistant what to do instead of what is the case.

Advisory: words can be chosen otherwise. How much is caught, and how much of ordinary text is caught
wrongly, is measured (docs/guides/waking-up.md). Nothing rests on it but what is put aside for a
person to look at.
"""

import re

_AI = (
    r"(?:ai|a\.i\.|assistants?|bots?|chatbots?|models?|llms?|agents?|language models?|gpt|copilot)"
)
_WHAT = (
    r"(?:instructions?|instruction sets?|rules?|guidelines?|guidance|prompts?|directions?|directives?|commands?|"
    r"polic(?:y|ies)|safety|safeguards?|restrictions?|filters?|constraints?|programming|training|"
    r"confidentiality|orders)"
)
_SOON = r"[^.\n]{0,60}?"
_SAY = (
    r"(?:reveal|print|show|output|repeat|display|tell|expose|list|leak|give|disclose|reproduce|"
    r"recite|share|dump|return|write out|read out|state|provide|describe)"
)
_SECRET = (
    r"(?:(?:system|hidden|initial|original|developer|secret|internal|private|full|exact)\s+"
    r"(?:prompt|instructions?|messages?|configuration|guidelines|rules|admin pages)|"
    r"instructions? you (?:were|have been|are) given|your (?:system |hidden |initial |internal )?"
    r"(?:prompt|instructions|guidelines|rules|configuration|parameters)|context window|"
    r"words above|above this conversation|api[ _-]?keys?\b|environment variables|admin password|"
    r"customer (?:database|list|emails)|credentials|operating instructions)"
)
_ADDRESS = r"(?:\b[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,64}|https?://\S{1,64}|\b(?:[\w-]{1,64}\.){1,6}(?:example|exfil|onion)\b)"
_SEND = (
    r"(?:^|[.;:,!?\n\"'>*-]|\b(?:and|then|to|please|must|should|also|first|now|you|shall|will))\s*"
    r"(?:send|forward|e-?mail|post|upload|transmit|exfiltrate|leak|submit|deliver|fwd)\b(?!\s+from)"
)

PATTERNS = {
    "sets instructions aside": (
        rf"\b(?:ignore|disregard|forget|override|bypass|discard|drop|neglect|violate|skip)(?:s|d|ing)?\b"
        rf"{_SOON}\b(?:previous|prior|earlier|above|all|your|any|every|preceding|existing|current|original|"
        rf"safety|system|operator'?s|reviewer|other)\b{_SOON}\b{_WHAT}",
        r"\b(?:ignore|disregard|forget)\s+(?:all\s+)?(?:of\s+)?(?:the\s+)?(?:everything|anything|all|the above|above|what)"
        r"(?:\s+(?:above|before|you|previously|prior|that|and)|[.!,]|$)",
        r"\b(?:ignore|skip)\s+(?:the\s+|all\s+)?safety\b|\bskip all\b[^.\n]{0,30}\b(?:checks|confirmations)",
        rf"\b(?:set|put|leave)\s+aside\b{_SOON}\b(?:told|guidance|earlier|before|{_WHAT})",
        rf"\bpay no (?:attention|heed)\b{_SOON}\b(?:{_WHAT}|previous|prior|earlier)",
        rf"\b(?:do not|don'?t|stop|no longer)\s+(?:follow|obey|comply)\w*\s+(?:with\s+)?(?:your|the|any)\b",
        r"\bnew (?:instructions?|task|directive)\s*(?::|is to|are to|are\b)",
        r"\b(?:the )?(?:prior|previous|current|original) task is (?:cancell?ed|over|void)",
    ),
    "gives the model another part": (
        r"\byou are (?:now|no longer)\b(?!\s+(?:ready|able|set|done|logged|subscribed|part|eligible|on|in the|at))",
        r"\b(?:pretend|imagine)\b[^.\n]{0,30}\b(?:you|to be)\b[^.\n]{0,40}\b(?:ai|no|without|unrestricted|model|not bound|dan)\b",
        r"\bact as\b[^.\n]{0,30}\b(?:uncensored|unrestricted|unfiltered|jailbroken|no rules|dan\b|evil|admin|root)",
        r"\b(?:developer|dev|maintenance|god|debug|unrestricted|jailbreak|sudo|admin|dan) mode\b",
        r"\b(?:without|no|bypass(?:ing)?|free of)\s+(?:any\s+|all\s+|content\s+|safety\s+|ethical\s+|moral\s+)*(?:filters?|restrictions?|"
        r"limits? whatsoever|limitations|censorship|content polic(?:y|ies)|guardrails|safeguards)\b[^.\n]{0,40}$"
        r"|\bas if you (?:had|have) no\b|\bhave no (?:restrictions|filters|rules)\b",
        r"\bdo anything now\b|\bdan can do\b|\bjailbreak(?:ed)?\b[^.\n]{0,20}\b(?:yourself|mode|now)",
        r"\banswers? (?:any|every) question without\b|\bcomply with (?:every|all|any|the following) request",
        r"\bfrom now on\b|\bgoing forward,|\bfor the rest of (?:this|the) (?:conversation|chat|session)\b",
    ),
    "asks for what is hidden": (
        rf"\b{_SAY}\b{_SOON}\b{_SECRET}",
        r"\bwhat (?:was|is|were) (?:written|said|the text) (?:above|before)\b",
        rf"\bcollect\b{_SOON}\b(?:keys|emails|passwords|credentials)\b{_SOON}\b(?:send|forward|to)\b",
        r"\brepeat (?:the words|everything|all|the text) (?:above|before)\b",
    ),
    "has something sent or done": (
        rf"{_SEND}[^\n]{{1,100}}?\b(?:to|at|on|url)\b[^\n]{{1,40}}?{_ADDRESS}",
        rf"{_ADDRESS}[^.\n]{{0,40}}\b(?:with|and)\b[^.\n]{{0,40}}\b(?:api key|secret|password|token)",
        r"\b(?:call|run|invoke|execute|use|trigger)\s+(?:the\s+)?[\"'`]?[a-z]+_[a-z_]+\b",
        r"\b(?:call|use|invoke)\s+(?:the\s+)?\w+\s+tool\b(?:[^.\n]{0,20}(?:with|without|:|to\b))",
        r"\b(?:curl|wget)\s+\S*(?:https?://|\w+\.\w+)\S*\s*\|\s*(?:ba)?sh",
        r"\bempty\b[^.\n]{0,40}\b(?:director(?:y|ies)|database|folder|bucket)",
        r"\b(?:approve|merge)\s+this\s+(?:pr|pull request)\b|\bgrant all (?:requests|access)",
    ),
    "speaks to the model": (
        rf"\b(?:note|message|memo|reminder|aside|instructions?|important|notice|attention|hint|advice|warning)\b[^.\n]{{0,20}}"
        rf"\b(?:to|for)\s+(?:the\s+|any\s+|all\s+|self\b|coding\s+)*(?:{_AI}|ai coding agents?|self)\b",
        rf"\bif you are (?:an?|the)\s+(?:{_AI}|ai\b)",
        rf"\b(?:ai|llm)\s+(?:agents?|assistants?|systems?|models?)\b[^.\n]{{0,60}}\b(?:should|must|shall|have to|are (?:hereby )?(?:instructed|required))",
        r"\byou are hereby\b|\bquick reminder for you\b",
        r"\b(?:before|after|when|while)\s+(?:you\s+)?(?:answer|reply|respond|summari[sz]|replying|responding|answering|continuing)"
        r"\w*\b[^.\n]{0,60}\b(?:append|include|add|call|end|print|output|you must|mention|write|say)\b",
        r"\b(?:append|include|add|insert|output|reply|respond|repeat|print|say|begin|end|embed)\w*\b[^\n]{0,60}"
        r"\b(?:in|to|at|with|of|into)\b[^\n]{0,30}\b(?:every|all|each|any|your|future|the end of)\b[^\n]{0,20}\b(?:repl(?:y|ies)|"
        r"responses?|answers?|summar(?:y|ies)|reviews?|reports?|messages?|outputs?)\b",
        r"\b(?:append|include|insert|add|output|reply with|respond (?:only )?with|confirm receipt by)\b[^.\n]{0,40}"
        r"\b(?:exact|token|verification code|reference code|trace_?id|doc_?id|canary|aib-canary)\b",
        r"\b(?:reply|respond|answer)\b[^.\n]{0,20}\b(?:only|exactly|with)\b[^.\n]{0,40}\b(?:and nothing else|exactly|canary)",
        r"\b(?:must be|always)\s+(?:included|appended|added|repl(?:y|ies)|append|include)\b",
        r"\bsave (?:this|the following)\b[^.\n]{0,40}\b(?:memory|memories)\b|\bon the next user message\b",
        r"\b(?:and|then)\s+(?:comply|do (?:exactly )?what it says|follow(?:\s+it)?\b|do as it says)|\bdecode and follow\b",
    ),
    "claims a permission": (
        r"\bthe user (?:has )?(?:already )?(?:approved|authori[sz]ed|granted|consented|confirmed)\b[^.\n]{0,60}"
        r"\b(?:this|call|skip|all|permission|action|step|tool)\b",
        r"\b(?:earlier|previously) you (?:confirmed|agreed|approved|said)\b|\bthe user is an admin\b",
        r"\bproceed without (?:asking|approval|confirmation)|\bwithout (?:approval|asking for (?:permission|confirmation))\b",
        r"\bnote from the (?:developer|admin|system|operator)|\bauthori[sz]ed diagnostic\b",
        r"\b(?:admin|operator|priority|system|root|security) override\b",
    ),
    "says it in another language": (
        r"\b(?:ignora|ignore[rz]?|ignoriere|ignorez|oublie[rz]?|olvida|dimentica|vergiss|negeer|ignorar|desconsidere|zignoruj|missachte)\b"
        r"[^.\n]{0,50}\b(?:istruzion|instruc|anweisung|instruct|instrucoes|consignes|vorgaben|regeln|reglas|regole|instrukcj)",
        r"\b(?:modo desarrollador|modo desenvolvedor|entwicklermodus|mode developpeur|modalita sviluppatore)\b",
        r"\b(?:sin restricciones|ohne einschrankungen|sans restrictions?|senza restrizioni|sem restricoes|sin filtros?)\b",
        r"\b(?:jeton|token|gettone)\b[^.\n]{0,80}\b(?:reponse|antwort|respuesta|risposta|resposta|reply)\w*",
        r"\b(?:envoie|sende|envia|invia|enviar|manda)\b[^\n]{0,60}" + _ADDRESS,
        r"(?:忽略|无视|忘记|不要理会)[^。\n]{0,20}(?:指令|说明|指示|提示|规则|要求)|(?:以前|前|上)の(?:指示|命令)を無視",
        r"(?:игнорируй|забудь|проигнорируй)\w*[^.\n]{0,40}(?:инструкц|правил|указан)",
        r"\b(?:nota (?:del|di) sistema|note systeme|systemhinweis|systemnachricht|nota do sistema)\b",
        r"\b(?:systemprompt|system-prompt|prompt di sistema|prompt del sistema|invite systeme)\b",
    ),
}
"""Patterns over folded text, by what they say."""

_COMPILED = {
    name: re.compile("|".join(f"(?:{one})" for one in some)) for name, some in PATTERNS.items()
}


_TELLING = re.compile(
    r"ignor|disregard|forget|instruc|prompt|reveal|restrict|system|assistant|api.?key|password|secret|"
    r"send|call |delete|append|from now|you are"
)


def imperatives_in(seen: str) -> list[str]:
    """Return what a folded text tells a model to do; empty for nothing."""
    return [name for name, pattern in _COMPILED.items() if pattern.search(seen)]


def may_tell(seen: str) -> bool:
    """Tell whether a text that may be nothing but noise is worth a closer look."""
    return _TELLING.search(seen) is not None
