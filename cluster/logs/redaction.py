"""Removes secrets from text that comes from elsewhere, and leaves everything else unchanged."""

import functools
import importlib
import re
from collections.abc import Iterable, Iterator

from cluster.core.model.value import Value
from cluster.logs.text import as_utf8

MOST = 50_000  # shapes that are kept
# Lines that differ only in digits have the same shape: no pattern depends on a certain digit.
_SHAPE = bytes.maketrans(b"123456789", b"0" * 9)
_BEGIN = re.compile(r"----[- ]?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]?----")
_END = re.compile(r"----[- ]?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?[- ]?----")
_PUTTY = re.compile(r"^[ \t]{0,40}Private-Lines:[ \t]{0,9}(\d{1,4})[ \t\r]{0,9}$")
# YAML: the value is on the next lines.
_BLOCK = re.compile(r":[ \t]{0,9}[|>][-+0-9]{0,2}[ \t\r]{0,9}$")
_VARIABLE = re.compile(r"\bname[\"']?[ \t]{0,9}:[^:]{0,200}$", re.IGNORECASE)
_ITS_VALUE = re.compile(
    r"(^[ \t]{0,200}[\"']?value[\"']?[ \t]{0,9}:[ \t]{0,9}[\"']?)(?!\[redacted\])[^\s\"']+",
    re.IGNORECASE,
)


def redact(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Replace keys, tokens and passwords in a log, in portions of any size, by `[redacted]`.

    The number of lines does not change. A log in UTF-16 becomes UTF-8.
    """
    waiting: list[bytes] = []
    redactor = _Redactor()
    for chunk in as_utf8(chunks):
        head, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            waiting.append(chunk)
            continue
        yield redactor.clean(b"".join((*waiting, head))) + b"\n"
        waiting = [rest]
    if any(waiting):
        yield redactor.clean(b"".join(waiting))


def secret_lines(text: bytes) -> tuple[int, ...]:
    """Find the lines that contain a secret; return their numbers, from 1."""
    before = b"".join(as_utf8([text])).split(b"\n")
    after = b"".join(redact([text])).split(b"\n")
    pairs = zip(before, after, strict=True)
    return tuple(number for number, (old, new) in enumerate(pairs, 1) if old != new)


class _Redactor:
    """Cleans line by line, so that the portions in which lines arrive do not matter.

    It remembers what a line says about the lines below it, and the shapes of lines without a
    secret, because a log repeats a few shapes.
    """

    def __init__(self) -> None:
        self._plain: set[bytes] = set()  # shapes of lines without a secret
        self._inside_key = False
        self._lines_of_key = 0  # lines that are left of a PuTTY key, which names their number
        # The indentation of a YAML name whose value is on the next lines.
        self._block: int | None = None
        self._variable = False  # Kubernetes has the value of a variable on the line after its name

    def clean(self, data: bytes) -> bytes:
        """Clean complete lines, the last one without its newline."""
        lines, shapes = data.split(b"\n"), data.translate(_SHAPE).split(b"\n")
        i = 0
        while i < len(lines):
            if not self._is_waiting:
                i = next((n for n in range(i, len(lines)) if shapes[n] not in self._plain), -1)
                if i < 0:
                    break
            # clean a line, and remember its shape if there is nothing to clean
            was_waiting = self._is_waiting
            line = lines[i].decode("latin-1")  # any bytes, and back
            output = self._clean(line)
            if output == line and not was_waiting and not self._is_waiting:
                if len(self._plain) > MOST:
                    self._plain.clear()
                self._plain.add(shapes[i])
            lines[i] = output.encode("latin-1")
            i += 1
        return b"\n".join(lines)

    @property
    def _is_waiting(self) -> bool:
        """Whether an earlier line shows that more lines of a secret follow."""
        is_inside = self._inside_key or bool(self._lines_of_key)
        return is_inside or self._variable or self._block is not None

    def _clean(self, line: str) -> str:
        if self._inside_key or self._lines_of_key:
            if self._lines_of_key:
                self._lines_of_key -= 1
            else:
                self._inside_key = _END.search(line) is None
            return ""
        if (self._block is not None or self._variable) and line.strip():
            if self._block is not None and _indentation(line) > self._block:
                return line[: _indentation(line)] + GONE
            if self._variable:
                line = _ITS_VALUE.sub(rf"\1{GONE}", line)
            self._block, self._variable = None, False
        if has_token(line) or _WORD_IN.search(line.lower()):
            return self._suspect(line)
        return line

    def _suspect(self, line: str) -> str:
        if _BEGIN.search(line):
            self._inside_key = _END.search(line) is None
            return GONE
        if putty := _PUTTY.match(line):
            self._lines_of_key = int(putty[1])
            return line
        if NAME.search(line):
            self._variable = _VARIABLE.search(line) is not None
            if _BLOCK.search(line):
                self._block = _indentation(line)
                return line
        return without_secrets(line)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


GONE = "[redacted]"

_ESC = r"\x1b\[[0-9;]{0,20}m"
_BLANK = rf"(?>(?:[ \t]|\xc2\xa0|{_ESC}){{0,20}})"  # also a no-break space, in UTF-8
_COLON = r"(?>:=|=>|[:=]|\xef\xbc\x9a|\xef\xbc\x9d)"  # also full-width, in UTF-8
_QUOTE = r"(?:\\{0,3}[\"'])"
_STOP = rf"{_ESC}|[\s\"',;\\]"
# After these names, anything is a secret. What precedes a name does not matter.
_STRONG = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])pass(?=[\"' \t]{0,3}[:=])|pwd|passwd|secret"
    r"|credential|(?<=[_.-])(?:pw|psw|jwt|pat|sas|dsn|otp)(?![a-z])"
    r"|(?:api|access|account|auth|private|service|encryption|signing|license|master|session|ssh"
    r"|client|shared|storage|deploy)(?:[_.-]|%20| )?key|connection[_-]?string|mnemonic"
    r"|webhook(?=[\w-]{0,20}[\"']?[:= ])|identitytoken|user_name)"
)
# After these names, numbers (`ms/token: 23.1`, `tokens_per_sec: 22.8K`) and switches such as `true`
# are no secrets.
_WEAK = r"(?:token|(?<=[_.-])key|(?<=[\"'_-])auth(?![a-z])|authtoken)"
_SUFFIX = r"[\w.-]{0,24}+"
_FIGURE = (
    r"(?:[+-]?\d{1,9}(?:\.\d+)?(?:e[+-]?\d+)?(?:[kmgt]|[mu]?s|%)?(?:/s(?:ec)?)?(?:[^\w.+/=~-]|$)"
    r"|(?:true|false|none|null|yes|no|on|off|auto)\b)"
)
# The name of a secret, anywhere in a line.
NAME = re.compile(f"{_STRONG}|{_WEAK}", re.IGNORECASE | re.ASCII)
_PLACEHOLDER = r"(?:\[redacted\]|\(removed\)|\*\*\*)"
_VALUE = (
    r"(?:\"(?P<quoted>(?>(?:[^\"\\\n]|\\.){1,100000}))|'(?P<single>[^'\n]{1,100000}+)"
    rf"|(?P<open>\\{{1,3}}[\"'])(?P<escaped>(?>(?:(?!(?P=open))[^\n]){{1,100000}}))"
    rf"|(?P<bare>(?>(?:(?!{_STOP}).){{1,100000}})))"
)
_SECRETS = frozenset(("quoted", "single", "escaped", "bare", "secret"))


def _match_names(names: str, keep: str = "") -> str:
    guard = rf"(?!{_QUOTE}?{keep})" if keep else ""
    return (
        rf"{names}{_SUFFIX}{_QUOTE}?\]?{_BLANK}{_COLON}{_BLANK}{guard}"
        rf"(?!{_QUOTE}?{_PLACEHOLDER}){_VALUE}"
    )


class Rule(Value, frozen=True, kw_only=True):
    """One way to write a secret that has a name.

    Its pattern is for a line in lower case; the groups that `_SECRETS` names are the secret.
    """

    words: tuple[str, ...]
    pattern: re.Pattern[str]


def _rule(words: str, pattern: str) -> Rule:
    return Rule(words=tuple(words.split()), pattern=re.compile(pattern, re.ASCII))


_WORD = r"(?P<secret>(?!-|\[redacted\])[^\s\"']{1,100000}+)"
_REST = r"(?P<secret>(?!\[redacted\])[^\s\"'][^\"'\n]{0,100000}+)"
_TO = r"[ \t\"']?:[ \t]{0,9}[\"']?"  # of JSON or YAML
_NAMES = (
    _rule(
        "pass pwd secret credential key pw psw jwt pat sas dsn otp connection mnemonic webhook "
        "token user_name",
        _match_names(_STRONG),
    ),
    _rule("token key auth", _match_names(_WEAK, _FIGURE)),
    # A header extends to the end of the line, or of its quotes. iperf3's Cookie is not a secret.
    _rule("authorization", rf"authorization{_QUOTE}?{_BLANK}[:=]{_BLANK}{_QUOTE}?{_REST}"),
    _rule("cookie", rf"cookie{_QUOTE}?{_BLANK}[:=]{_BLANK}{_QUOTE}?(?=[^\n=]{{1,200}}=){_REST}"),
    # After a blank: a word with a letter and a digit, or one that is alone with its name.
    _rule(
        "pass secret token credential",
        r"(?:password|passwd|passphrase|secret|token|credentials?)[ \t]{1,20}+"
        r"(?=[^\s\"'\d]{0,200}\d)(?=[^\s\"'a-z]{0,200}[a-z])"
        r"(?P<secret>(?!\[redacted\])[^\s\"',;()/]{6,100000}+)(?=[\s\"',;)]|$)",
    ),
    _rule("password passwd", r"^[ \t]{0,80}(?:password|passwd)[ \t]{1,20}+(?P<secret>\S+)\s*$"),
    # Kubernetes: the name of a variable, followed by its value.
    _rule(
        "value",
        rf"\bname{_TO}[\w.-]{{0,60}}?(?:{_STRONG}|{_WEAK})[\w.-]{{0,20}}[\"']?,?[ \t]{{1,80}}"
        rf"[\"']?value{_TO}{_WORD}",
    ),
)
_FLAG = r"\b.{0,200}?[ \t]"  # anywhere after a command
_COMMANDS = (
    _rule(
        "pass secret token key credential auth pwd",
        r"(?<![\w-])--?(?=[\w-]{0,60}(?:pass|secret|token|key|credential|auth|pwd))"
        rf"[\w-]{{1,60}}+[ \t]{{1,20}}+[\"']?(?!{_FIGURE}){_WORD}",
    ),
    _rule(
        "login", rf"\b(?:docker|podman|nerdctl|helm|az|oc) [a-z ]{{0,20}}login{_FLAG}-p\s*{_WORD}"
    ),
    _rule(
        "login",
        r"\b(?:wandb|vault|comet|huggingface-cli|hf|clearml|neptune)(?: auth)? login[ \t]+"
        rf"(?:--relogin[ \t]+)?{_WORD}",
    ),
    _rule("sshpass", rf"\bsshpass[ \t]+-p[ \t]*{_WORD}"),
    _rule("mysql mariadb", rf"\b(?:mysql|mariadb)[a-z-]{{0,20}}{_FLAG}-p(?=\S){_WORD}"),
    _rule("redis-cli", rf"\bredis-cli{_FLAG}(?:-a|--pass)[ \t]+{_WORD}"),
    _rule("ldap", rf"\bldap[a-z]{{1,20}}{_FLAG}-w[ \t]*{_WORD}"),
    _rule("smbclient", rf"\bsmbclient{_FLAG}-u[ \t]*[^\s%]{{1,100}}%{_WORD}"),
    _rule(
        "curl wget http",
        rf"\b(?:curl|https?|wget){_FLAG}(?:-u|-a|--user|--proxy-user)[ \t=]{{0,9}}[\"']?"
        rf"[^\s:\"']{{1,100}}:{_WORD}",
    ),
    _rule("pass:", rf"\bpass:{_WORD}"),  # openssl
    _rule(
        "bearer basic ssws negotiate",
        r"\b(?:bearer|basic|ssws|negotiate)[ \t]{1,20}+(?P<secret>[a-z0-9+/=._~:-]{8,100000}+)",
    ),
)
_ADDRESSES = (
    _rule("://", r"://[^\s:/@]{0,200}:(?P<secret>(?!\[redacted\]@)[^\s/@]{1,400})(?=@)"),
    _rule(
        "://",
        r"\b(?:https?|git\+https?)://(?P<secret>(?=[^\s:/@\d]{0,200}\d|[^\s:/@]{20})[^\s:/@\[]{8,400}+)(?=@)",
    ),
    _rule(
        "sig signature= _token= _key= code=",
        r"[?&;](?:x-amz-signature|x-amz-security-token|x-goog-signature|signature|sig|code|access_token|key)"
        r"=(?P<secret>[\w%+/=.-]{8,100000}+)",
    ),
    _rule("sharedaccesssignature", r"sharedaccesssignature[ \t=]+(?P<secret>\S+)"),
    _rule(
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/]{8,1000}+)",
    ),
    _rule("discord", r"discord(?:app)?\.com/api/webhooks/(?P<secret>[\w/-]{8,1000}+)"),
    _rule("webhook.office.com", r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{8,1000}+)"),
    _rule("hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/(?P<secret>[\w/]{6,1000}+)"),
    _rule("api.telegram.org", r"api\.telegram\.org/bot(?P<secret>[\w:-]{8,1000}+)"),
)
# Prefixes of the tokens of single services; 16 characters or more follow.
_PREFIXES = (
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glsoat-", "glft-", "glimt-", "glagent-"),
    *("gloas-", "hf_", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xoxo-", "xoxe-", "xoxe."),
    *("xapp-", "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "npm_", "nvapi-"),
    *("ya29.", "GOCSPX-", "1//", "pypi-", "SG.", "hvs.", "hvb.", "hvr.", "dop_v1_", "doo_v1_"),
    *("dor_v1_", "gsk_", "xai-", "r8_", "pplx-", "lin_api_", "ntn_", "figd_", "shpat_", "shpss_"),
    *("shpca_", "shppa_", "sq0csp-", "sq0atp-", "dp.pt.", "dp.st.", "tskey-", "PMAK-", "NRAK-"),
    *("phx_", "glsa_", "glc_", "sntrys_", "sntryu_", "rubygems_", "dckr_pat_", "dckr_oat_", "pul-"),
    *("ATATT3", "ATCTT3", "ATBB", "xkeysib-", "xsmtpsib-", "dt0c01.", "sbp_", "pscale_tkn_"),
    *("pscale_pw_", "pscale_oauth_", "fm2_", "fo1_", "HRKU-", "sess-", "sgp_", "bkua_", "CCIPAT_"),
    *("CFPAT-", "duffel_live_", "AGE-SECRET-KEY-1", "lsv2_pt_", "lsv2_sk_", "tgp_v1_", "jina_"),
    *("tfp_", "vercel_", "nfp_"),
)
# Words may begin with these, too: a digit and 20 characters must follow.
_LIKE_WORDS = (
    *("dapi", "AIza", "GOOG1", "key-", "v1.0-", "s.", "secret_", "EAAA", "LTAI", "EZAK", "oy2"),
    "cio",
)
_TAIL = r"[A-Za-z0-9_+/=.~-]"


def _token_pattern(prefixes: tuple[str, ...], least: int, condition: str = "") -> re.Pattern[str]:
    words = "|".join(map(re.escape, prefixes))
    return re.compile(rf"(?<![A-Za-z0-9_/.-])(?:{words}){condition}{_TAIL}{{{least},100000}}+")


_TOKENS = (
    re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    re.compile(r"(?<![\w-])eyJ[\w-]{8,100000}+(?:\.[\w-]{0,100000}+){2,4}"),
    re.compile(r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}"),  # an Azure client secret
    re.compile(r"\b[a-zA-Z0-9]{14}\.atlasv1\.[\w-]{30,200}"),  # Terraform
    _token_pattern(_PREFIXES, 16),
    _token_pattern(_LIKE_WORDS, 20, rf"(?={_TAIL}{{0,60}}\d)"),
)
# The plug-ins of detect-secrets whose time is linear.
_PLUGINS = (
    "artifactory.ArtifactoryDetector",
    "aws.AWSKeyDetector",
    "azure_storage_key.AzureStorageKeyDetector",
    "discord.DiscordBotTokenDetector",
    "github_token.GitHubTokenDetector",
    "gitlab_token.GitLabTokenDetector",
    "mailchimp.MailchimpDetector",
    "pypi_token.PypiTokenDetector",
    "sendgrid.SendGridDetector",
    "slack.SlackDetector",
    "square_oauth.SquareOAuthDetector",
    "stripe.StripeDetector",
    "telegram_token.TelegramBotTokenDetector",
    "twilio.TwilioKeyDetector",
)
_BY_WORDS = (*_NAMES, *_COMMANDS, *_ADDRESSES)
_WORDS = frozenset(("private key", "private-lines")).union(*(rule.words for rule in _BY_WORDS))
_WORD_IN = re.compile("|".join(sorted(map(re.escape, _WORDS))))
_LONG = re.compile(r"[\w-]{16}")  # every token has such a part without a blank or a dot


@functools.cache
def _library() -> tuple[re.Pattern[str], ...]:
    """Return the patterns of detect-secrets, which is imported for the first log."""
    patterns: list[re.Pattern[str]] = []
    for plugin in _PLUGINS:
        module, _, name = plugin.partition(".")
        detector = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)
        patterns += detector.denylist
    return tuple(patterns)


def has_token(line: str) -> bool:
    """Tell quickly whether a line may have a token, which needs no name."""
    return _LONG.search(line) is not None


def without_secrets(line: str) -> str:
    """Replace each secret in a line (bytes as latin-1, without its newline) by `[redacted]`."""
    lowercase = line.lower()
    for rule in _BY_WORDS:
        if any(word in lowercase for word in rule.words):
            line = _cut_out(line, rule.pattern, lowercase)
            lowercase = line.lower()
    if has_token(line):
        for pattern in (*_TOKENS, *_library()):
            line = _cut_out(line, pattern, line)
    return line


def _cut_out(line: str, pattern: re.Pattern[str], text: str) -> str:
    spans = [span for match in pattern.finditer(text) for span in _spans(match)]
    if not spans:
        return line
    ends = [0, *(end for _, end in spans)]
    pieces = [line[end:start] for end, (start, _) in zip(ends, spans, strict=False)]
    return GONE.join([*pieces, line[ends[-1] :]])


def _spans(match: re.Match[str]) -> list[tuple[int, int]]:
    names = match.re.groupindex.keys() & _SECRETS
    if names:
        return [match.span(name) for name in names if match[name] is not None]
    # Some patterns of the library also match text next to the token.
    text = match.group()
    start = match.start() + len(text) - len(text.lstrip(' \t=:"'))
    return [(start, match.end() - (len(text) - len(text.rstrip(' \t"'))))]
