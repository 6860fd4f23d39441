"""Secrets in a text: finding them, and replacing them by tokens with their kind.

The rules are the formats of vendors' keys and tokens, card numbers, values with a name such as
``password``, credentials in URLs and headers, and private keys. Overlapping findings are one
secret; the more certain kind names it.

Vendors' formats start with a mark that nothing else has. Lengths are those that vendors document,
without an upper limit if they announce longer tokens. Every pattern starts where a run of letters
and digits can start, and is possessive after its mark, so the time is linear in the text.
"""

import base64
import binascii
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple

from satchel.screening.prefilter import (
    FOR_KEYS,
    FOR_PASSWORDS,
    has_name,
    may_hold_secret,
    visible_text,
)

_BEFORE = 24
"""Characters before a match that are checked for words that rule it out."""

# Where a token can start: not within a word, unless that is the end of an escape (\n, %3D) or of
# a line of dashes.
_BEGINS = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=-----))"
_STOPS = r"(?![A-Za-z0-9_])"
_FEWEST_DIFFERENT = 7

_stand_in = re.compile(
    r"(?i)x{6}|\*{3}|\.{3}|0{8}|example|placeholder|redacted|dummy|your[_-]|insert[_-]|replace[_-]"
    r"|change[_-]?me"
).search


class Shape(NamedTuple):
    """A kind of secret with a format of its own."""

    kind: str
    title: str
    marks: tuple[str, ...]
    """Every such secret contains one of these."""

    source: str
    """The pattern as text; it is compiled on first use, since most are never needed."""

    accepts: Callable[[str], bool]

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern; the secret is its group ``secret``, or all of it."""
        return _compiled(self.source)


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


class SensitiveSpan(NamedTuple):
    """A span of a text, with its kind."""

    start: int
    end: int
    kind: str


def is_stand_in(text: str) -> bool:
    """Return whether a value is a placeholder, such as ``your_key_here``."""
    return _stand_in(text) is not None


def looks_random(text: str) -> bool:
    """Return whether a value has many different characters and is not a placeholder."""
    return len(set(text)) >= _FEWEST_DIFFERENT and not is_stand_in(text)


def _with_digit(text: str) -> bool:
    return looks_random(text) and any(map(str.isdigit, text))


def _aws(text: str) -> bool:
    return looks_random(text) and (not text.startswith("ASIA") or _with_digit(text))


def _names_a_bot(text: str) -> bool:
    """Return whether a token starts with an account number in base64."""
    head = text.split(".", 1)[0]
    try:
        return base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)).isdigit()
    except binascii.Error:
        return False


def _shape(
    kind: str,
    title: str,
    marks: str,
    pattern: str,
    accepts: Callable[[str], bool] = looks_random,
) -> Shape:
    return Shape(kind, title, tuple(marks.split()), _BEGINS + pattern, accepts)


SHAPES = (
    _shape(
        "aws-access-key",
        "AWS access key id",
        "AKIA ASIA ABIA ACCA",
        rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_STOPS}",
        _aws,
    ),
    _shape("google-api-key", "Google API key", "AIza", rf"AIza[\w-]{{35}}{_STOPS}"),
    _shape(
        "google-oauth",
        "Google OAuth client secret or access token",
        "GOCSPX- ya29.",
        rf"(?:GOCSPX-[\w-]{{28}}{_STOPS}|ya29\.[\w-]{{20,}}+)",
    ),
    _shape(
        "azure-storage-key",
        "Azure storage account key",
        "AccountKey= accountkey=",
        r"[Aa]ccount[Kk]ey=(?P<secret>[A-Za-z0-9+/]{86}==)",
    ),
    _shape(
        "azure-sas",
        "Azure shared access signature",
        "sig=",
        r"sig=(?P<secret>[A-Za-z0-9+/%]{43,}+=?)",
        _with_digit,
    ),
    _shape(
        "digitalocean-token",
        "DigitalOcean token",
        "_v1_",
        rf"do[opr]_v1_[0-9a-f]{{64}}{_STOPS}",
    ),
    _shape("databricks-token", "Databricks token", "dapi", rf"dapi[0-9a-f]{{32}}(?:-\d)?{_STOPS}"),
    _shape(
        "github-token",
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"(?:gh[pousr]_\w{36,}+|github_pat_\w{60,}+)",
    ),
    _shape(
        "gitlab-token",
        "GitLab token",
        "gl",
        r"gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[\w-]{20,}+(?:\.[\w-]++){0,3}",
    ),
    _shape("npm-token", "npm token", "npm_", rf"npm_[A-Za-z0-9]{{36}}{_STOPS}"),
    _shape("pypi-token", "PyPI token", "pypi-AgE", r"pypi-AgE[\w-]{50,}+"),
    _shape("docker-token", "Docker access token", "dckr_", r"dckr_(?:pat|oat)_[\w-]{27,}+"),
    _shape("openai-key", "OpenAI API key", "sk-", r"sk-(?:proj|svcacct|admin)-[\w-]{32,}+"),
    _shape(
        "anthropic-key",
        "Anthropic API key",
        "sk-ant-",
        r"sk-ant-[\w-]{24,}+",
        _with_digit,
    ),
    _shape("openrouter-key", "OpenRouter API key", "sk-or-", rf"sk-or-v1-[0-9a-f]{{64}}{_STOPS}"),
    _shape("letta-key", "Letta API key", "sk-let-", r"sk-let-[\w-]{20,}+[\w+/=-]*+"),
    _shape(
        "sk-key",
        "API key in the older OpenAI form, used by several providers",
        "sk-",
        rf"sk-[A-Za-z0-9]{{32,64}}+{_STOPS}",
        _with_digit,
    ),
    _shape("mem0-key", "Mem0 API key", "m0-", rf"m0-[A-Za-z0-9]{{40}}{_STOPS}", _with_digit),
    _shape("huggingface-token", "Hugging Face token", "hf_", rf"hf_[A-Za-z0-9]{{34,40}}+{_STOPS}"),
    _shape("groq-key", "Groq API key", "gsk_", rf"gsk_[A-Za-z0-9]{{52}}{_STOPS}"),
    _shape("xai-key", "xAI API key", "xai-", rf"xai-[A-Za-z0-9]{{80}}{_STOPS}"),
    _shape("perplexity-key", "Perplexity API key", "pplx-", rf"pplx-[A-Za-z0-9]{{48}}{_STOPS}"),
    _shape("replicate-token", "Replicate token", "r8_", rf"r8_[A-Za-z0-9]{{37}}{_STOPS}"),
    _shape("nvidia-key", "NVIDIA API key", "nvapi-", r"nvapi-[\w-]{60,}+"),
    _shape("pinecone-key", "Pinecone API key", "pcsk_", r"pcsk_\w{50,}+"),
    _shape(
        "langsmith-key",
        "LangSmith API key",
        "lsv2_",
        rf"lsv2_(?:pt|sk)_[0-9a-f]{{32}}_[0-9a-f]{{10}}{_STOPS}",
    ),
    _shape("tavily-key", "Tavily API key", "tvly-", r"tvly-[A-Za-z0-9-]{28,}+", _with_digit),
    _shape(
        "slack-token",
        "Slack token",
        "xox xapp-",
        r"(?:xox[abeoprs]-[A-Za-z0-9-]{20,}+|xapp-\d-[A-Za-z0-9-]{20,}+)",
        _with_digit,
    ),
    _shape(
        "slack-webhook",
        "Slack webhook address",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/"
        r"(?P<secret>[A-Za-z0-9]{8,}+/[A-Za-z0-9]{8,}+/[A-Za-z0-9]{20,}+)",
    ),
    _shape(
        "discord-token",
        "Discord bot token",
        "M N O",
        r"[MNO][\w-]{22,30}+\.[\w-]{6}\.[\w-]{27,}+",
        _names_a_bot,
    ),
    _shape(
        "discord-webhook",
        "Discord webhook address",
        "/api/webhooks/",
        r"discord(?:app)?\.com/api/webhooks/\d{1,20}+/(?P<secret>[\w-]{60,}+)",
    ),
    _shape("telegram-token", "Telegram bot token", ":AA", rf"\d{{8,10}}+:AA[\w-]{{33}}{_STOPS}"),
    _shape("twilio-key", "Twilio API key", "SK", rf"SK[0-9a-f]{{32}}{_STOPS}"),
    _shape("sendgrid-key", "SendGrid API key", "SG.", rf"SG\.[\w-]{{22}}\.[\w-]{{43}}{_STOPS}"),
    _shape("mailgun-key", "Mailgun API key", "key-", rf"key-[0-9a-f]{{32}}{_STOPS}"),
    _shape(
        "stripe-key",
        "Stripe secret key or webhook secret",
        "k_live_ k_test_ whsec_",
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9]{24,}+)",
        _with_digit,
    ),
    _shape("square-token", "Square token", "sq0", r"sq0(?:atp|csp)-[\w-]{22,}+"),
    _shape(
        "shopify-token",
        "Shopify token",
        "shp",
        rf"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}{_STOPS}",
    ),
    _shape(
        "linear-key",
        "Linear API key",
        "lin_",
        rf"lin_(?:api|oauth)_[A-Za-z0-9]{{40,}}+{_STOPS}",
    ),
    _shape("notion-token", "Notion token", "ntn_", rf"ntn_[A-Za-z0-9]{{40,}}+{_STOPS}"),
    _shape("figma-token", "Figma token", "figd_", r"figd_[\w-]{36,}+"),
    _shape("atlassian-token", "Atlassian token", "ATATT3", r"ATATT3[\w-]{60,}+(?:=[0-9A-F]{8})?"),
    _shape("airtable-token", "Airtable token", "pat", rf"pat\w{{14}}\.[0-9a-f]{{64}}{_STOPS}"),
    _shape("supabase-key", "Supabase key", "sb", r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}+)"),
    _shape("vault-token", "HashiCorp Vault token", "hvs. hvb.", r"hv[sb]\.[\w-]{24,}+"),
    _shape(
        "grafana-token",
        "Grafana token",
        "gl",
        r"(?:glsa_\w{40,}+|glc_[A-Za-z0-9]{20,}+[A-Za-z0-9+/]*+=*)",
    ),
    _shape("sentry-token", "Sentry token", "sntry", r"sntry[su]_\w{20,}+[\w+/=-]*+"),
    _shape(
        "age-key",
        "age secret key",
        "AGE-SECRET-KEY-1",
        rf"AGE-SECRET-KEY-1[0-9A-Z]{{58}}{_STOPS}",
    ),
    _shape(
        "jwt",
        "JSON Web Token",
        "eyJ",
        r"eyJ[\w-]{17,}+\."
        r"(?:eyJ[\w-]{8,}+\.[\w-]*+|[\w-]*+\.[\w-]++\.[\w-]++\.[\w-]++)",
    ),
)
"""In order of precedence, the more certain first."""


_by_mark = [(mark, shape) for shape in SHAPES for mark in shape.marks]


def vendor_secrets(text: str) -> Iterator[SensitiveSpan]:
    """Yield the secrets with a vendor's format, in any order, possibly twice."""
    for mark, shape in _by_mark:
        if mark in text:
            yield from _shape_matches(shape, text)


def _shape_matches(shape: Shape, text: str) -> Iterator[SensitiveSpan]:
    pattern = shape.pattern
    group = "secret" if "secret" in pattern.groupindex else 0
    for match in pattern.finditer(text):
        if shape.accepts(match[group]):
            yield SensitiveSpan(match.start(group), match.end(group), shape.kind)


# Not within a word, a decimal number or a telephone number; grouped by one separator throughout.
_number = re.compile(
    r"(?<![\w.+])(?<!\w-)"
    r"(?:\d{4}([ .-]?)\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?|\d{4}([ -])\d{6}\2\d{4,5}|\d{14,15})"
    r"(?!\w|[.-]\w)",
    re.ASCII,
)
_lengths = re.compile(
    r"(?:4|5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)|6(?:011|4[4-9]|5|2)|35(?:2[89]|[3-8]))()"
    r"|3[47]()|3(?:0[0-5]|[689])()"
)
_SIXTEEN, _FIFTEEN, _FOURTEEN = 1, 2, 3
_LONGEST_CARD = 19
_FEWEST_CARD_DIGITS = 2
_another_number = re.compile(
    r"(?i)(?:order|invoice|tracking|ticket|parcel|shipment|imei|isbn|reference|ref|serial|case)"
    r"[ \t]{0,2}(?:number|no|nr|num|id)?[\s#:.]{0,4}$"
).search
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def card_numbers(text: str) -> Iterator[SensitiveSpan]:
    """Yield the payment cards in a text."""
    for match in _number.finditer(text):
        start = match.start()
        if is_card(match[0]) and not _another_number(text[max(0, start - _BEFORE) : start]):
            yield SensitiveSpan(start, match.end(), "card-number")


def is_card(text: str) -> bool:
    """Return whether a text is a card number: known issuer, its length, and valid check digit."""
    digits = re.sub(r"[ .-]", "", text)
    issuer = _lengths.match(digits)
    if issuer is None or len(set(digits)) < _FEWEST_CARD_DIGITS:
        return False
    if issuer.lastindex == _FIFTEEN:
        fits = len(digits) == 15  # noqa: PLR2004 - as the issuers say
    elif issuer.lastindex == _FOURTEEN:
        fits = len(digits) == 14  # noqa: PLR2004
    else:
        fits = len(digits) == 16 or len(digits) == _LONGEST_CARD < len(text)  # noqa: PLR2004
    return fits and _checks(digits)


def _checks(digits: str) -> bool:
    """Return whether the last digit is valid by the Luhn algorithm."""
    plain = sum(map(int, digits[-1::-2]))
    doubled = sum(_DOUBLED[int(digit)] for digit in digits[-2::-2])
    return (plain + doubled) % 10 == 0


# What may follow in the same name: API_KEY_PROD, but not token_count.
_REST = (
    r"(?![_-]?(?:id|hash|file|path|length|len|policy|counts?|types?|name|ur[li]|expir\w*|ttl|hint"
    r"|field|limits?|size|version|arn|ref|index|min|max|usage|format|at|in)(?![a-z]))"
    r"(?:[_-][a-z0-9]{1,16}){0,3}(?![a-z0-9_])"
)
_NAME = rf"(?:(?P<password>{FOR_PASSWORDS})|(?P<key>{FOR_KEYS})){_REST}"
_name = re.compile(f"(?i){_NAME}")
_whole_name = re.compile(rf"(?i)(?P<before>[\w. -]{{0,40}}?){_NAME}").fullmatch
_LOOSE = r"(?:\s(?:for|to|of|on|at|in)(?:\s[^\s:=\0]{1,30}){1,5}?)?"
_joint = re.compile(
    r"[\"'`\\]{0,2}\s{0,4}(?:(?::=|=>|->|={1,3}|:)\s{0,4}|は\s{0,2}:?\s{0,2}|은\s{0,2}|는\s{0,2}"
    rf"|(?P<loose>(?i:{_LOOSE}\s{{1,2}}(?:is|was|ist|est|es|é)(?:\s(?:now|(?:set|reset|changed)\sto))?))"
    r"\s{0,2}:?\s{1,4})"
)
# Characters that end a value without quotes, including scripts without spaces.
_ENDS = r"^\s\"'`\\<>,;&\0\u3001-\u9fff\uac00-\ud7af"
_value = re.compile(
    r"\\?(?:\"(?P<double>[^\"\n\\\0]{1,512})\"|'(?P<single>[^'\n\\\0]{1,512})'"
    r"|`(?P<ticks>[^`\n\\\0]{1,512})`"
    rf"|[\"'`]?(?P<bare>(?:[{_ENDS}]++|&(?!\w{{1,32}}=))++))"
)
_bare = re.compile(rf"(?:[{_ENDS}]++|&(?!\w{{1,32}}=))*+")
_LONGEST = 520  # one in quotes; one without is followed to its end, if its beginning is a secret
_TRAILING = ".:)]}*_"
_names_something_else = re.compile(
    r"(?i)(?:public|next|page|continuation|prev|previous|cursor|sync|pad|eos|bos|unk|sep|cls|mask"
    r"|stop|special|primary|foreign|sort|partition|cache|idempotency)[ _-]?$"
).search

_not_a_password = re.compile(
    r"\d{1,3}[+-]*[A-Za-z-]+"  # 8-characters
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # an address of mail
    r"|[A-Za-z]+(?:-[A-Za-z]+)+"  # case-sensitive
).fullmatch
_not_a_key = re.compile(
    r"(?:blake3|sha\d{1,3}|md5|did|urn|https?|file|s3|arn):.*"
    r"|[./~].*"  # a path
    r"|\d{4}-\d\d-\d\d.*",  # a time
    re.DOTALL,
).fullmatch
_code = re.compile(
    r"\$\{.*|\$[A-Z_][A-Z0-9_]*|\$[a-z_]+|\{.*|<.*|%[A-Z_]+%|%\(.*"  # filled in later
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[(\[].*"  # a call or a subscript
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+",  # a dotted name
    re.DOTALL,
).fullmatch
_ornament = re.compile(r"[!@#$%^*+=~|]").search
_letter = re.compile(r"[^\W\d_]").search
_digit = re.compile(r"\d").search
_space = re.compile(r"[\s\0]").search
_turns = re.compile(r"[A-Za-z][0-9]|[0-9][A-Za-z]")
_SHORTEST_PASSWORD, _SHORTEST_LOOSE, _SHORTEST_KEY = 6, 7, 16
_FEWEST_TURNS = 3
_JUDGED = 128
"""Maximum characters of a value that are checked, to limit the time."""

_credentials = re.compile(
    r"://[^\s/?#:@\"'<>\0]{0,256}+:(?P<secret>[^\s/?#\"'<>\0]{1,512})@(?=[\w\[%$])"
)
_words_for_password = frozenset(
    ("password", "passwd", "pass", "pwd", "passphrase", "secret", "token", "pw", "key")
)
_bearer = re.compile(
    r"(?i:\bbearer)\s{1,4}(?P<secret>[A-Za-z0-9._~+/-]{0,40}?[A-Za-z0-9_-]{20,}+[A-Za-z0-9._~+/-]*+=*)"
)
_basic = re.compile(
    r"(?i:\bauthorization)[\"'`\\]{0,2}\s{0,4}[:=]\s{0,4}[\"'`\\]{0,2}(?i:basic)\s{1,4}"
    r"(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})"
)
_aws_secret = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_aws_name = re.compile(
    r"(?i)(?:secret[ _-]?access[ _-]?key|aws[ _-]?secret(?:[ _-]?key)?)"
    r"[\"'`\\]{0,2}\s{0,4}(?:[:=]{1,2}>?|is|->)\s{0,4}[\"'`\\]{0,2}(?P<secret>[A-Za-z0-9/+]{40})"
    r"(?![A-Za-z0-9/+])"
)


def named_secrets(text: str) -> Iterator[SensitiveSpan]:
    """Yield values after a name of a secret, such as ``password=``."""
    at = 0 if has_name(text) else len(text)
    while name := _name.search(text, at):
        at = name.end()
        joint = _joint.match(text, at)
        value = joint and _value.match(text, joint.end(), joint.end() + _LONGEST)
        if joint is None or value is None:
            continue
        is_key = name["key"] is not None
        group = value.lastgroup or "bare"
        judged = value[group][:_JUDGED]
        if group == "bare":
            judged = judged.rstrip(_TRAILING)
        if _is_secret(judged, key=is_key, loose=joint["loose"] is not None):
            before = text[max(0, name.start() - _BEFORE) : name.start()]
            if is_key and _names_something_else(before):
                continue
            start, at = value.span(group)
            if group == "bare":
                at = _end_of_bare(text, start)
            yield SensitiveSpan(start, at, "assigned-secret")


def _end_of_bare(text: str, start: int) -> int:
    """Return the end of a value without quotes."""
    run = _bare.match(text, start)
    return start + len(run[0].rstrip(_TRAILING)) if run else start


@lru_cache(maxsize=4096)
def names_secret(name: str) -> str | None:
    """Return ``password`` or ``key`` if a member of this name contains a secret, else None."""
    match = _whole_name(name)
    if match is None or (match["key"] is not None and _names_something_else(match["before"])):
        return None
    return "key" if match["key"] is not None else "password"


def is_named_secret(value: str, names: str) -> bool:
    """Return whether the value of a member is a secret, given the kind of its name."""
    return _is_secret(value[:_JUDGED], key=names == "key", loose=False)


def _is_secret(value: str, *, key: bool, loose: bool) -> bool:
    """Return whether a named value is a secret, and not a word, a variable or a description."""
    value = value.rstrip("!?")
    if not (_letter(value) and (_digit(value) or (not key and _ornament(value)))):
        return False
    if key:
        fits = len(_turns.findall(value)) >= _FEWEST_TURNS and len(value) >= _SHORTEST_KEY
        other = _not_a_key
    else:
        fits = len(value) >= (_SHORTEST_LOOSE if loose else _SHORTEST_PASSWORD)
        other = _not_a_password
    if not fits or _space(value) or other(value) or _code(value):
        return False
    return looks_random(value) if key else not is_stand_in(value)


def credentials_in_addresses(text: str) -> Iterator[SensitiveSpan]:
    """Yield the passwords in URLs: ``scheme://user:password@host``."""
    if "://" in text and "@" in text:
        for match in _credentials.finditer(text):
            secret = match["secret"]
            if (
                secret.lower() not in _words_for_password
                and not is_stand_in(secret)
                and not _code(secret)
            ):
                yield SensitiveSpan(*match.span("secret"), "url-password")


def credentials_in_headers(text: str) -> Iterator[SensitiveSpan]:
    """Yield the credentials after ``Bearer`` and ``Basic``."""
    low = text.lower()
    for match in _bearer.finditer(text) if "bearer" in low else ():
        if looks_random(match["secret"]) and _turns.search(match["secret"]):
            yield SensitiveSpan(*match.span("secret"), "bearer-token")
    for match in _basic.finditer(text) if "basic" in low else ():
        if _is_basic(match["secret"]):
            yield SensitiveSpan(*match.span("secret"), "basic-auth")


def _is_basic(text: str) -> bool:
    """Return whether a text is base64 of ``user:password``."""
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        return False
    user, colon, password = plain.partition(":")
    return bool(user and colon and password) and plain.isprintable()


def aws_secrets(text: str) -> Iterator[SensitiveSpan]:
    """Yield AWS secret keys: after their name, or in a text with an access key ID."""
    if "ecret" in text or "ECRET" in text:
        for match in _aws_name.finditer(text):
            if looks_random(match["secret"]):
                yield SensitiveSpan(*match.span("secret"), "aws-secret-key")
    if "AKIA" in text or "ASIA" in text:
        for match in _aws_secret.finditer(text):
            if _mixes(match[0]) and looks_random(match[0]):
                yield SensitiveSpan(match.start(), match.end(), "aws-secret-key")


def _mixes(text: str) -> bool:
    """Return whether a text has lower case, upper case and digits, unlike a hash."""
    return (
        any(map(str.islower, text)) and any(map(str.isupper, text)) and any(map(str.isdigit, text))
    )


_begin = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}?PRIVATE KEY(?: BLOCK)?-----")
_end = re.compile(r"-----END (?:[A-Z0-9]{1,20} ){0,4}?PRIVATE KEY(?: BLOCK)?-----")
# Base64 over several lines, whichever way the line breaks were written, with header lines.
_body = re.compile(r"(?:(?!-----)[A-Za-z0-9+/=\s\\:,.>()<@_-])*+")
_encoded = re.compile(r"[A-Za-z0-9+/]{16,}+={0,2}")
_plain = re.compile(r"[A-Za-z0-9]{20}")

_putty = re.compile(r"Private-Lines: \d{1,4}\s{1,4}((?:[A-Za-z0-9+/=]{16,64}\s{0,4})+)")


def private_keys(text: str) -> Iterator[SensitiveSpan]:
    """Yield the private keys in a text; a truncated one ends with its last base64 run."""
    if "PRIVATE KEY" in text:
        for head in _begin.finditer(text):
            body = _body.match(text, head.end())
            assert body is not None  # noqa: S101 - it may be empty
            if not _plain.search(body[0]):
                continue  # the mention of a header
            encoded = [match.end() for match in _encoded.finditer(body[0])]
            tail = _end.match(text, body.end())
            yield SensitiveSpan(
                head.start(), tail.end() if tail else body.start() + encoded[-1], "private-key"
            )
    if "PuTTY-User-Key-File-" in text:
        for match in _putty.finditer(text):
            yield SensitiveSpan(match.start(1), match.end(1), "private-key")


KINDS: dict[str, str] = {
    "private-key": "Private key: PEM, OpenSSH, PGP, PuTTY",
    **{shape.kind: shape.title for shape in SHAPES},
    "aws-secret-key": "AWS secret access key, under its name or beside its id",
    "card-number": "Payment card of a known issuer, with a valid check digit",
    "url-password": "Password in an address, such as that of a database",
    "basic-auth": "User and password in an `Authorization: Basic` header",
    "bearer-token": "Token after `Bearer`",
    "assigned-secret": "Value whose name says that it is a password, secret, token or key",
}
"""Kinds of secrets with their titles, in order of precedence."""

_RANK = {kind: rank for rank, kind in enumerate(KINDS)}
_token = re.compile(r"\[REDACTED:([a-z0-9-]{1,40}):([0-9]{1,9})\]")
_HIDDEN = "\0"
_ROUNDS = 8
_LONGEST_NAME = 80
_REPEATED_FROM = 8
_MOST_REPEATED = 256
_HIGHEST = 10**8
"""Numbers of existing tokens from here on are ignored; the next would not fit a token."""


class Secret(NamedTuple):
    """The span of a secret in a text, without its value."""

    kind: str
    start: int
    end: int


def find_secrets(
    text: str, name: str | None = None, known: Collection[tuple[str, str]] = ()
) -> list[Secret]:
    """Return the secrets in a text, in order and without overlaps.

    A value that is found once is also found wherever else it occurs in the text as a word, unless
    it is an ordinary word.

    Args:
        text: Any text; the time is linear in its length.
        name: Name of the member it is the value of, such as ``password``, if any.
        known: Kinds and values that are secrets wherever they occur.
    """
    if name is None and not known and text.isascii() and not may_hold_secret(text):
        return []  # most texts of most banks
    visible = visible_text(text)
    names = names_secret(name) if name and len(name) <= _LONGEST_NAME else None
    known = tuple(known)
    if not (known or names or may_hold_secret(visible.text)):
        return []
    return [
        Secret(span.kind, *visible.original(span.start, span.end))
        for span in _all_spans(hide_tokens(visible.text), names, known)
    ]


def is_distinctive(value: str) -> bool:
    """Return whether a value is not an ordinary word, name or number."""
    return (
        len(value) >= _REPEATED_FROM
        and any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
    )


def value_of(secret: Secret, text: str) -> str:
    """Return the visible value of a secret, for comparison; it must not be shown."""
    return visible_text(text[secret.start : secret.end]).text


def hide_tokens(text: str) -> str:
    """Blank out tokens of an earlier scrubbing, without changing positions."""
    if "[REDACTED:" not in text:
        return text
    return _token.sub(lambda match: _HIDDEN * len(match[0]), text)


def _all_spans(
    text: str, names: str | None, known: tuple[tuple[str, str], ...]
) -> list[SensitiveSpan]:
    """Return the findings of repeated rounds, until a round finds nothing.

    Blanking out a secret may turn the text beside it into one. Two rounds are usual; a text that
    needs more than ``_ROUNDS`` counts as a secret as a whole.
    """
    settled: list[SensitiveSpan] = []
    left = text
    for _ in range(_ROUNDS):
        spans = merge_spans(chain(_rules(left, names), _repeats(left, known)), _RANK)
        if not spans:
            return sorted(settled)
        settled += spans
        values = [(item.kind, left[item.start : item.end]) for item in spans]
        known = tuple(dict.fromkeys([*known, *values]))
        left = _without(left, spans)
    return [SensitiveSpan(0, len(text), settled[-1].kind)]


def _rules(text: str, names: str | None) -> Iterator[SensitiveSpan]:
    """Yield the findings of all rules, in any order; spans may overlap."""
    yield from vendor_secrets(text)
    yield from private_keys(text)
    yield from named_secrets(text)
    yield from credentials_in_addresses(text)
    yield from credentials_in_headers(text)
    yield from aws_secrets(text)
    yield from card_numbers(text)
    if names is not None and is_named_secret(text, names):
        yield SensitiveSpan(0, len(text), "assigned-secret")


def _repeats(text: str, known: tuple[tuple[str, str], ...]) -> Iterator[SensitiveSpan]:
    """Yield the other occurrences of known values as words."""
    for kind, value in filter(lambda item: is_distinctive(item[1]), known[:_MOST_REPEATED]):
        at = text.find(value)
        while at >= 0:
            end = at + len(value)
            if not (_in_word(text, at - 1) or _in_word(text, end)):
                yield SensitiveSpan(at, end, kind)
            at = text.find(value, end)


def _in_word(text: str, at: int) -> bool:
    return 0 <= at < len(text) and (text[at].isalnum() or text[at] in "_-")


def merge_spans(spans: Iterable[SensitiveSpan], rank: Mapping[str, int]) -> list[SensitiveSpan]:
    """Merge overlapping spans; of their kinds, the one with the lowest rank names them."""
    merged: list[SensitiveSpan] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            kind = min(last.kind, span.kind, key=rank.__getitem__)
            merged[-1] = SensitiveSpan(last.start, max(last.end, span.end), kind)
        else:
            merged.append(span)
    return merged


def _without(text: str, spans: list[SensitiveSpan]) -> str:
    """Return a text with spans blanked out."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span.start], _HIDDEN * (span.end - span.start)]
        at = span.end
    return "".join([*parts, text[at:]])


def scrub(text: str) -> tuple[str, list[Secret]]:
    """Replace each secret by a token such as ``[REDACTED:github-token:1]``.

    Equal values get the same number. The result contains no secrets that the rules find.

    Returns:
        The new text, and the secrets with their spans in the original.
    """
    secrets = find_secrets(text)
    if not secrets:
        return text, secrets
    tokens = RedactionTokens([text])
    return tokens.replace(text, secrets), secrets


class RedactionTokens:
    """The tokens of a record: a number for each value, counted by kind.

    Args:
        texts: All texts of the record; numbers of existing tokens are not used again.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._last: dict[str, int] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        for text in texts:
            for kind, number in _token.findall(text):
                if int(number) < _HIGHEST:
                    self._last[kind] = max(self._last.get(kind, 0), int(number))

    def number(self, secret: Secret, text: str) -> int:
        """Return the number of the value of a secret in a text."""
        value = (secret.kind, value_of(secret, text))
        if value not in self._numbers:
            self._last[secret.kind] = self._last.get(secret.kind, 0) + 1
            self._numbers[value] = self._last[secret.kind]
        return self._numbers[value]

    def replace(self, text: str, secrets: Iterable[Secret]) -> str:
        """Return a text with tokens instead of secrets."""
        parts, at = [], 0
        for secret in secrets:
            parts += [
                text[at : secret.start],
                f"[REDACTED:{secret.kind}:{self.number(secret, text)}]",
            ]
            at = secret.end
        return "".join([*parts, text[at:]])
