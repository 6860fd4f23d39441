"""The shapes that makers gave their keys and tokens.

Each begins with a mark that nothing else has, which is what makes it safe to recognise. Lengths
are those that the makers document, open upwards where they say that tokens will grow.

Every pattern begins at a place where a run of letters and digits can begin, and is possessive
after its mark, so no character is looked at more than a few times, whatever the text.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

# Where a token can start: not within a word, unless that is the end of an escape (\n, %3D) or of
# a line of dashes.
_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=-----))"
_END = r"(?![A-Za-z0-9_])"
_FEWEST_DIFFERENT = 7

_stand_in = re.compile(
    r"(?i)x{6}|\*{3}|\.{3}|0{8}|example|placeholder|redacted|dummy|your[_-]|insert[_-]|replace[_-]"
    r"|change[_-]?me"
).search


class Shape(NamedTuple):
    """One kind of secret with a shape of its own."""

    kind: str
    title: str
    marks: tuple[str, ...]
    """One of these is in every text that holds it."""

    source: str
    """The pattern, as text: most are never needed, and to compile all takes long."""

    accepts: Callable[[str], bool]

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern; the secret is its group ``secret``, or all of it."""
        return _compiled(self.source)


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source, re.ASCII)


class SensitiveSpan(NamedTuple):
    """A place in a text, with its kind."""

    start: int
    end: int
    kind: str


def is_stand_in(text: str) -> bool:
    """Tell whether a value says of itself that it is none, such as ``your_key_here``."""
    return _stand_in(text) is not None


def looks_random(text: str) -> bool:
    """Tell whether a value has as many different characters as a random one, and is no stand-in."""
    return len(set(text)) >= _FEWEST_DIFFERENT and not is_stand_in(text)


def _with_digit(text: str) -> bool:
    return looks_random(text) and any(map(str.isdigit, text))


def _aws(text: str) -> bool:
    return looks_random(text) and (not text.startswith("ASIA") or _with_digit(text))


def _names_a_bot(text: str) -> bool:
    """Tell whether a token starts with the number of an account, in base64."""
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
    return Shape(kind, title, tuple(marks.split()), _START + pattern, accepts)


SHAPES = (
    _shape(
        "aws-access-key",
        "AWS access key id",
        "AKIA ASIA ABIA ACCA",
        rf"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}{_END}",
        _aws,
    ),
    _shape("google-api-key", "Google API key", "AIza", rf"AIza[\w-]{{35}}{_END}"),
    _shape(
        "google-oauth",
        "Google OAuth client secret or access token",
        "GOCSPX- ya29.",
        rf"(?:GOCSPX-[\w-]{{28}}{_END}|ya29\.[\w-]{{20,}}+)",
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
        rf"do[opr]_v1_[0-9a-f]{{64}}{_END}",
    ),
    _shape("databricks-token", "Databricks token", "dapi", rf"dapi[0-9a-f]{{32}}(?:-\d)?{_END}"),
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
    _shape("npm-token", "npm token", "npm_", rf"npm_[A-Za-z0-9]{{36}}{_END}"),
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
    _shape("openrouter-key", "OpenRouter API key", "sk-or-", rf"sk-or-v1-[0-9a-f]{{64}}{_END}"),
    _shape("letta-key", "Letta API key", "sk-let-", r"sk-let-[\w-]{20,}+[\w+/=-]*+"),
    _shape(
        "sk-key",
        "API key in the older OpenAI form, used by several providers",
        "sk-",
        rf"sk-[A-Za-z0-9]{{32,64}}+{_END}",
        _with_digit,
    ),
    _shape("mem0-key", "Mem0 API key", "m0-", rf"m0-[A-Za-z0-9]{{40}}{_END}", _with_digit),
    _shape("huggingface-token", "Hugging Face token", "hf_", rf"hf_[A-Za-z0-9]{{34,40}}+{_END}"),
    _shape("groq-key", "Groq API key", "gsk_", rf"gsk_[A-Za-z0-9]{{52}}{_END}"),
    _shape("xai-key", "xAI API key", "xai-", rf"xai-[A-Za-z0-9]{{80}}{_END}"),
    _shape("perplexity-key", "Perplexity API key", "pplx-", rf"pplx-[A-Za-z0-9]{{48}}{_END}"),
    _shape("replicate-token", "Replicate token", "r8_", rf"r8_[A-Za-z0-9]{{37}}{_END}"),
    _shape("nvidia-key", "NVIDIA API key", "nvapi-", r"nvapi-[\w-]{60,}+"),
    _shape("pinecone-key", "Pinecone API key", "pcsk_", r"pcsk_\w{50,}+"),
    _shape(
        "langsmith-key",
        "LangSmith API key",
        "lsv2_",
        rf"lsv2_(?:pt|sk)_[0-9a-f]{{32}}_[0-9a-f]{{10}}{_END}",
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
    _shape("telegram-token", "Telegram bot token", ":AA", rf"\d{{8,10}}+:AA[\w-]{{33}}{_END}"),
    _shape("twilio-key", "Twilio API key", "SK", rf"SK[0-9a-f]{{32}}{_END}"),
    _shape("sendgrid-key", "SendGrid API key", "SG.", rf"SG\.[\w-]{{22}}\.[\w-]{{43}}{_END}"),
    _shape("mailgun-key", "Mailgun API key", "key-", rf"key-[0-9a-f]{{32}}{_END}"),
    _shape(
        "stripe-key",
        "Stripe secret key or webhook secret",
        "k_live_ k_test_ whsec_",
        r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+|whsec_[A-Za-z0-9]{24,}+)",
        _with_digit,
    ),
    _shape("square-token", "Square token", "sq0", r"sq0(?:atp|csp)-[\w-]{22,}+"),
    _shape("shopify-token", "Shopify token", "shp", rf"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}{_END}"),
    _shape("linear-key", "Linear API key", "lin_", rf"lin_(?:api|oauth)_[A-Za-z0-9]{{40,}}+{_END}"),
    _shape("notion-token", "Notion token", "ntn_", rf"ntn_[A-Za-z0-9]{{40,}}+{_END}"),
    _shape("figma-token", "Figma token", "figd_", r"figd_[\w-]{36,}+"),
    _shape("atlassian-token", "Atlassian token", "ATATT3", r"ATATT3[\w-]{60,}+(?:=[0-9A-F]{8})?"),
    _shape("airtable-token", "Airtable token", "pat", rf"pat\w{{14}}\.[0-9a-f]{{64}}{_END}"),
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
        rf"AGE-SECRET-KEY-1[0-9A-Z]{{58}}{_END}",
    ),
    _shape(
        "jwt",
        "JSON Web Token",
        "eyJ",
        r"eyJ[\w-]{17,}+\."
        r"(?:eyJ[\w-]{8,}+\.[\w-]*+|[\w-]*+\.[\w-]++\.[\w-]++\.[\w-]++)",
    ),
)
"""In order of precedence: what is more certain comes first."""


_by_mark = [(mark, shape) for shape in SHAPES for mark in shape.marks]


def vendor_secrets(text: str) -> Iterator[SensitiveSpan]:
    """Yield every place where one of the shapes stands; in any order, and some twice."""
    for mark, shape in _by_mark:
        if mark in text:
            yield from _of_shape(shape, text)


def _of_shape(shape: Shape, text: str) -> Iterator[SensitiveSpan]:
    pattern = shape.pattern
    group = "secret" if "secret" in pattern.groupindex else 0
    for found in pattern.finditer(text):
        if shape.accepts(found[group]):
            yield SensitiveSpan(found.start(group), found.end(group), shape.kind)
