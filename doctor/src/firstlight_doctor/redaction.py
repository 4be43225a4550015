"""Take out of the facts what tells who and where this is."""

from __future__ import annotations

import getpass
import os
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, List, Pattern, Tuple

from firstlight_doctor.schema import LONGEST

Hidden = List[Tuple[Pattern[str], str]]

# Names of users and hosts that tell nobody who this is, and words that the facts are made of.
PLAIN = re.compile(
    "root|users?|admin|guest|test|home|tmp|app|data|workspace|jovyan|localhost|linux|ubuntu|debian|fedora|rhel|arch|"
    "nvidia|nouveau|amdgpu|amd|intel|apple|cuda|gpus?|torch|pytorch|numba|python|conda|docker|podman|kubernetes|wsl|"
    "windows|darwin|rtx|gtx|driver|device|kernel|library|error|video|render|lib|dev|usr|etc|the|and|for|not",
    re.IGNORECASE,
)
USERS = ("USER", "USERNAME", "LOGNAME", "SUDO_USER")
HOSTS = ("HOSTNAME", "HOST", "COMPUTERNAME", "SLURMD_NODENAME")
SLASH = r"(?:[/\\]|%2F|%5C){1,4}"  # Windows doubles them in its errors, addresses encode them
IP4 = r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.])"
NAME = r"(?!(?:root|code|data|input|mode|space|program|kernel|function|error|config|account)\b)[\w.-]+"
SHAPES = [
    (r"(GPU|MIG)-[0-9a-f]{8}[0-9a-f-]*", r"\1-…"),
    (r"(serial number:? ?)\w+", r"\1…"),
    (r"://[^/\s:@]{1,64}:[^/\s@]{1,64}@", "://…@"),
    # Keys and passwords: those that show it themselves, and those that a word shows.
    (r"\b(?:hf_|gh[oprsu]_|AKIA|ASIA|AIza)[0-9a-z_-]{16,}|\beyJ[\w-]{8,}(?:\.[\w-]+)*", "KEY"),
    (r"\b(?:github_pat_|glpat-|sk-(?=\S*\d)|xox[abprs]-|nvapi-|pypi-AgEI)[\w-]{16,}", "KEY"),
    (r"(\bAuthorization:\s*\w+\s+|\bBearer\s+)[\w.~+/=-]{6,}", r"\1KEY"),
    (
        r"((?:token|secret|password|passwd|passphrase|(?:api|access|private|secret)[_-]?key)"
        r"""["']?[ \t]{0,3}[=:][ \t]{0,3}["']?)[^\s"'&;,]+""",
        r"\1KEY",
    ),
    (r"(--(?:token|secret|password|passwd|api-key) |[?&](?:key|sig|auth|code)=)[^\s&#]+", r"\1KEY"),
    # Addresses of machines. Versions have four parts, too: what stands as an address does is one, and what is private.
    (rf"(@|//|(?<![a-z])(?:host|addr|address|ip|inet|ssh|node|peer|connect(?:ed)? to)[\s:=('\"]{{1,3}}){IP4}", r"\1IP"),
    (rf"(?<![\w.=-]){IP4}(?=[:<]\d)", "IP"),
    (rf"(?<![\w.=-])(?=192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|10\.(?![1-3]\.)){IP4}", "IP"),
    (
        r"(?<![\w:.])(?=[0-9a-f:]*::|(?:[0-9a-f]{1,4}:){7})(?:fe80|f[cd][0-9a-f]{2}|[23][0-9a-f]{3})"
        r"(?::[0-9a-f]{0,4}){2,7}(?![\w:])",
        "IP",
    ),
    (r"(?<![\w:-])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:-])", "MAC"),
    # Machines and people: by the words around them.
    (
        r"(?<![\w.@-])[\w-]+(?:\.[\w-]+)*\.(?:edu|local|lan|internal|intranet|corp"
        r"|(?:ac|edu|mpg|(?:uni|tu)-[\w-]+)\.[a-z]{2})(?![\w.-])",
        "HOST",
    ),
    (r"(?<![^\s'\"(=])(\\{2,4})(?!wsl)\w[\w.-]*(?=\\)", r"\1HOST"),
    (rf"""(\buser(?:name)?(?: ?[=:] ?["']?| ["'])|\b(?:for|by|as|find) user ){NAME}""", r"\1USER"),
    (rf"(\buser ){NAME}(?= is not | does not )", r"\1USER"),
    (r"(\b[ug]id=\d+\()(?!root\b)[^)\s]+", r"\1USER"),
    (rf"({SLASH}(?:groups?|projects?){SLASH})[^/\\:;%'\"\s]+", r"\1NAME"),
]


def secrets(env: Mapping[str, str]) -> Hidden:
    """Return patterns of what tells who and where this is, and what to write in their place."""
    homes = {env.get("HOME"), env.get("USERPROFILE"), os.path.expanduser("~")}  # noqa: PTH111
    folders = [parts for home in homes if home and (parts := [part for part in re.split(r"[/\\]+", home) if part])]
    users = {env.get(name) for name in USERS} | {parts[-1] for parts in folders}
    hosts = {env.get(name) for name in HOSTS} | {platform.node()}
    with suppress(Exception):  # a user without a name
        users.add(getpass.getuser())
        import pwd

        users.add(pwd.getpwuid(os.getuid()).pw_gecos.split(",")[0])  # in full
    domains = {host.partition(".")[2] for host in hosts if host} - {"", "local", "localdomain", "lan"}
    hosts |= {host.partition(".")[0] for host in hosts if host}
    hidden = []
    for parts in sorted(folders, key=len, reverse=True):
        start = "" if parts[0].endswith(":") else SLASH
        hidden.append((rf"{start}{SLASH.join(map(re.escape, parts))}(?![\w.-])", "~"))
    hidden.append((r"(\\{1,4}Users\\{1,4})[^/\\:;'\"\n]{1,64}(?=\\)", r"\1USER"))  # a name may have spaces there
    hidden.append((rf"({SLASH}(?:home|Users){SLASH})[^/\\:;%'\"\s<>]+", r"\1USER"))
    hidden += SHAPES
    hidden += [(rf"(?<![\w.-])[\w.-]+\.{re.escape(domain)}(?![\w-])", "HOST") for domain in sorted(domains)]
    hidden += [(_word(user), "USER") for user in _telling(users)] + [(_word(host), "HOST") for host in _telling(hosts)]
    # The other nodes of a cluster are called like this one, but for their number.
    nodes = {host.rstrip("0123456789") for host in hosts if host and re.fullmatch("[A-Za-z_-]{3,}[0-9]+", host)}
    hidden += [(rf"(?<![^\W_]){re.escape(node)}\d+(?![^\W_])", "HOST") for node in _telling(nodes)]
    hidden += [(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(\.[\w-]{1,63}){1,5}", "MAIL")]
    return [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in hidden]


def _telling(names: Iterable[str | None]) -> list[str]:
    return sorted({name for name in names if name and not PLAIN.fullmatch(name)}, key=lambda name: (-len(name), name))


def _word(name: str) -> str:
    """Return the pattern of a name by itself; a short one only where it is part of a path or an address."""
    before = r"(?<![^\W_])" if len(name) > 2 else r"(?<=[/\\@])"
    return rf"{before}{re.escape(name)}(?![^\W_])"


def redacted(content: Any, hidden: Hidden) -> Any:
    """Replace what tells who and where this is in every text, and cut texts that are too long."""
    if isinstance(content, dict):
        return {str(key): redacted(value, hidden) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [redacted(value, hidden) for value in content]
    if isinstance(content, str):
        # Cut early, so that a text without end takes no time; half characters are what no terminal can write.
        content = content[: 10 * LONGEST].encode(errors="replace").decode()
        for pattern, instead in hidden:
            content = pattern.sub(instead, content)
        return content[: LONGEST - 1]
    return content
