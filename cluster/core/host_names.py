"""Names of hosts: `n1` and `n1.site.org` are one host, unless there are two that `n1` may be."""

from collections.abc import Iterable


def full_names(names: Iterable[str]) -> dict[str, str]:
    """Return the longest name of each host, by each of its names among these.

    `n1.a.org` and `n1.b.org` are two hosts; `n1` beside both of them is neither. Names without a
    letter, such as addresses, are what they are.
    """
    unique = set(names)
    longer: dict[str, list[str]] = {name: [] for name in unique}
    for name in unique:
        labels = name.split(".")
        for count in range(1, len(labels)):
            short = ".".join(labels[:count])
            if short in unique and any(map(str.isalpha, short)):
                longer[short].append(name)
    full = {}
    for name, longer_names in longer.items():  # the longest, if all are parts of it
        longest = max(longer_names, key=len, default=name)
        is_one = all(f"{longest}.".startswith(f"{other}.") for other in longer_names)
        full[name] = longest if is_one else name
    return full
