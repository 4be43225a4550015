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
    "windows|darwin|driver|device|kernel|library|error|video|render|lib|dev|usr|etc|the|and|for|not",
    re.IGNORECASE,
)
USERS = ("USER", "USERNAME", "LOGNAME", "SUDO_USER")
HOSTS = ("HOSTNAME", "HOST", "COMPUTERNAME", "SLURMD_NODENAME")
SLASH = r"[/\\]{1,4}"  # Windows doubles them in its errors


def secrets(env: Mapping[str, str]) -> Hidden:
    """Return patterns of what tells who and where this is, and what to write in their place."""
    homes = {env.get("HOME"), env.get("USERPROFILE"), os.path.expanduser("~")}  # noqa: PTH111
    folders = [parts for home in homes if home and (parts := [part for part in re.split(r"[/\\]+", home) if part])]
    users = {env.get(name) for name in USERS} | {parts[-1] for parts in folders}
    hosts = {env.get(name) for name in HOSTS} | {platform.node()}
    with suppress(Exception):  # a user without a name
        users.add(getpass.getuser())
    hosts |= {host.partition(".")[0] for host in hosts if host}
    hidden = [(r"(GPU|MIG)-[0-9a-f]{8}[0-9a-f-]*", r"\1-…"), (r"(serial number:? ?)\w+", r"\1…")]
    for parts in sorted(folders, key=len, reverse=True):
        start = "" if parts[0].endswith(":") else SLASH
        hidden.append((rf"{start}{SLASH.join(map(re.escape, parts))}(?![\w.-])", "~"))
    hidden.append((r"(\\{1,4}Users\\{1,4})[^/\\:;'\"\n]{1,64}(?=\\)", r"\1USER"))  # a name may have spaces there
    hidden.append((rf"({SLASH}(?:home|Users){SLASH})[^/\\:;'\"\s]+", r"\1USER"))
    hidden += [(_word(user), "USER") for user in _telling(users)] + [(_word(host), "HOST") for host in _telling(hosts)]
    hidden += [(r"://[^/\s:@]{1,64}:[^/\s@]{1,64}@", "://…@")]
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
