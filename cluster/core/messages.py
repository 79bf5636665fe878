"""The same message for two readers: flags for a command line, keywords for Python.

The source writes messages with flags (`--hosts 3`) and commands (`cluster down mine`), as most
people read them in a terminal. Used from Python, the library shows flags as keywords, `hosts=3`,
and the commands of `_CALLS` as calls. Others, and those with more words, stay as they are.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager


class _MessageReader:
    """Who reads the messages of this process, whichever thread they come from."""

    types_commands = False


_PROGRAMS = (
    *("apt-get", "aws", "cluster", "docker", "gcloud", "iperf3", "mpirun", "numactl", "nvidia-smi"),
    *("sacctmgr", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"),
    *("ompi_info", "pip", "pip3", "pipx", "podman", "python", "python3", "rsync", "ssh", "tmux"),
    *("ucx_info", "uv"),
)
_VALUE = r"[^\s;()]*(?:\.\.\.|[^\s;(),.:])"  # without the punctuation of the sentence
_CALLS = {  # by verb, and whether a job is named: it is the second word
    **{(verb, False): f'cluster.attach("{{0}}").{verb}()' for verb in ("fetch", "pause")},
    **{(verb, False): f'cluster.attach("{{0}}").{verb}()' for verb in ("resume", "wait")},
    ("logs", False): 'print(cluster.attach("{0}").logs())',
    ("logs", True): 'print(cluster.attach("{0}").jobs["{1}"].logs())',
    ("wait", True): 'cluster.attach("{0}").jobs["{1}"].wait()',
    ("check", False): 'cluster.check("{0}")',
    ("jobs", False): 'cluster.attach("{0}").jobs',
    ("kill", True): 'cluster.attach("{0}").jobs["{1}"].stop()',
}
_CALLED = "|".join(sorted({verb for verb, _ in _CALLS}))
_TEXT = re.compile(
    rf"(?P<call>(?<![\w/-])cluster (?P<verb>{_CALLED}) (?P<cluster>[\w-]+)(?: (?P<job>[\w-]+))?)"
    r"(?: -f)?(?=[.;,)]|\n|\Z| &&)|"
    rf"(?P<command>(?<![\w/-])(?:{'|'.join(_PROGRAMS)}) [^;,()\n]*)"
    rf"|--(?P<pair>option|mca|env) (?P<key>\w+)=(?P<of_key>{_VALUE})"
    # After a colon, also a word such as `cpu` is the flag's value: "Or: --buffer cpu"
    r"|(?<=: )--(?P<last>[a-z][a-z-]*[a-z]) (?P<word>[a-z_]+(?:,[a-z_]+)*)"
    r"(?=[.,;)](?:\s|\Z)|\n| --|\Z)"
    r"|--(?P<flag>[a-z][a-z-]*[a-z])"
    rf"(?:=(?P<given>{_VALUE})|[ ](?P<value>(?!-\D)(?=\S*[0-9A-Z:=/_]|\S+(?:\.\.\.|,\w)){_VALUE}))?"
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


def _as_keyword(match: re.Match[str]) -> str:
    if match["call"] and (call := _CALLS.get((match["verb"], bool(match["job"])))):
        return call.format(match["cluster"], match["job"])
    if match["command"] or match["call"]:
        return match[0]
    if match["pair"]:
        name = "options" if match["pair"] == "option" else match["pair"]
        return f'{name}={{"{match["key"]}": "{match["of_key"]}"}}'
    flag = match["flag"] or match["last"]
    name = "options" if flag == "option" else flag.replace("-", "_")
    value = match["given"] or match["value"] or match["word"]
    if value is None:
        return name
    literal = value if re.fullmatch(r"\d+(\.\d+)?|[A-Z]+", value) else f'"{value}"'
    return f"{name}={literal}"
