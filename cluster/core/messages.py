"""The same message for two readers: flags for a command line, keywords for Python.

The source writes messages with flags (`--hosts 3`) and commands (`cluster down mine`), as most
people read them in a terminal. Used from Python, the library shows flags as keywords, `hosts=3`,
and commands as calls, where there is one that does the same; the others stay commands.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager


class _MessageReader:
    """Who reads the messages of this process, whichever thread they come from."""

    types_commands = False


_PROGRAMS = (
    *("apt-get", "aws", "docker", "gcloud", "iperf3", "mpirun", "numactl", "nvidia-smi"),
    *("sacctmgr", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"),
    *("ompi_info", "pip", "pip3", "pipx", "podman", "python", "python3", "rsync", "ssh", "tmux"),
    *("ucx_info", "uv"),
)
_VALUE = r"[^\s;()]*(?:\.\.\.|[^\s;(),.:])"  # without the punctuation of the sentence
_CALLS = (  # the commands for which a call does the same, each with its words in place of `{}`
    (r"check (\S+) --near", 'cluster.proximity("{}")'),
    (r"check (\S+)", 'cluster.check("{}")'),
    (r"logs (\S+)(?: -f)?", 'print(cluster.attach("{}").logs())'),
    (r"logs (\S+) ([^\s-]\S*)(?: -f)?", 'print(cluster.attach("{}").jobs["{}"].logs())'),
    (r"status (\S+)", 'cluster.attach("{}").jobs'),
    (r"kill (\S+) (\S+)", 'cluster.attach("{}").jobs["{}"].stop()'),
    (r"wait (\S+) (\S+)", 'cluster.attach("{}").jobs["{}"].wait()'),
    (r"(fetch|wait) (\S+)", 'cluster.attach("{1}").{0}()'),
    (r"more (pause|resume) (\S+)", 'cluster.attach("{1}").{0}()'),
    (r"more forward (\S+) (\d+):(\d+)", 'cluster.attach("{}").forward({}, {})'),
    (r"(put|get) (\S+) (\S+) (\S+)", 'cluster.attach("{1}").{0}("{2}", "{3}")'),
    (r"run (\S+) -- (.+)", 'cluster.attach("{}").run("{}")'),
    (r"ls (\S+)", 'cluster.attach("{}").machines'),
    (r"runs", "cluster.runs()"),
    (r"show (\S+)", 'print(cluster.load("{}"))'),
    (r"judge (\S+)", 'print(cluster.judge("{}"))'),
    (r"bench ([a-z0-9_]+) ([^\s-]\S*)", 'cluster.attach("{1}").bench("{0}")'),
)
_TEXT = re.compile(
    r"(?P<call>(?<![\w/.-])cluster (?P<words>[a-z][^;()\n]*?))"
    r"(?=[.,:]\s|[.,:]?\Z|[;()\n]| &&| or )|"
    rf"(?P<command>(?<![\w/-])(?:{'|'.join(_PROGRAMS)}) [^;,()\n]*)"
    rf"|--(?P<pair>option|mca|env) (?P<key>\w+)=(?P<of_key>{_VALUE})"
    # After a colon, also a word such as `cpu` is the flag's value: "Or: --buffer cpu"
    r"|(?<=: )--(?P<last>[a-z][a-z-]*[a-z]) (?P<word>[a-z_]+(?:,[a-z_]+)*)"
    r"(?=[.,;)](?:\s|\Z)|\n| --|\Z)"
    r"|--(?P<flag>[a-z][a-z-]*[a-z])"
    rf"(?:=(?P<given>{_VALUE})|[ ](?P<value>(?!-\D)"
    rf"(?=\S*[0-9A-Z=/_]|\S+(?::\S|\.\.\.|,\w)){_VALUE}))?"
)


@contextmanager
def for_command_line() -> Iterator[None]:
    """Show messages with flags inside this context: the reader types commands."""
    before, _MessageReader.types_commands = _MessageReader.types_commands, True
    try:
        yield
    finally:
        _MessageReader.types_commands = before


def for_reader(message: str) -> str:
    """Return a message in the form that its reader types."""
    if _MessageReader.types_commands or not ("--" in message or "cluster " in message):
        return message
    matches = list(_TEXT.finditer(message))
    ends = [0, *(match.end() for match in matches)]
    between = [message[a : match.start()] for a, match in zip(ends, matches, strict=False)]
    words = map(_as_keyword, matches)
    commands = [True, *(bool(match["command"] or match["call"]) for match in matches)]
    # Flags follow one another with a space, keywords with a comma; commands with &&, calls with ;
    text = "".join(
        (", " if gap == " " and not command else "; " if gap == " && " else gap) + word
        for gap, word, command in zip(between, words, commands, strict=False)
    )
    return text + message[ends[-1] :]


def _as_call(words: str) -> str:
    """Return the call that does what a command does; empty if none always does."""
    for pattern, call in _CALLS:
        if match := re.fullmatch(pattern, words):
            return call.format(*match.groups())
    verb, name, *flags = [*words.split(), "", ""]
    if verb == "up" and "--plan" not in flags and (keywords := _keywords(" ".join(flags).strip())):
        return f'cluster.launch("{name}", {keywords})'
    return ""


def _keywords(flags: str) -> str:
    """Return the flags of a launch as keyword arguments; empty if other words are among them."""
    pairs = re.findall(r"--([a-z-]+) (\S+)", flags)
    if " ".join(f"--{flag} {value}" for flag, value in pairs) != flags:
        return ""
    options = dict(value.partition("=")[::2] for flag, value in pairs if flag == "option")
    keywords = [
        f"{flag.replace('-', '_')}={_literal(value)}" for flag, value in pairs if flag != "option"
    ]
    return ", ".join([*keywords, *([f"options={json.dumps(options)}"] if options else [])])


def _literal(value: str) -> str:
    return value if re.fullmatch(r"\d+(\.\d+)?|[A-Z]+", value) else f'"{value}"'


def _as_keyword(match: re.Match[str]) -> str:
    if match["call"]:
        return _as_call(match["words"]) or match[0]
    if match["command"]:
        return match[0]
    if match["pair"]:
        name = "options" if match["pair"] == "option" else match["pair"]
        return f'{name}={{"{match["key"]}": "{match["of_key"]}"}}'
    flag = match["flag"] or match["last"]
    name = "options" if flag == "option" else flag.replace("-", "_")
    value = match["given"] or match["value"] or match["word"]
    if value is None:
        return name
    return f"{name}={_literal(value)}"
