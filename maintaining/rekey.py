"""Give the records the keys of today's code, after a change in which only names changed, or hints of a check.

    python maintaining/rekey.py OLD

OLD is a clone of the commit before; the records here are rewritten. A recorded output is found by the digest of all
code before it, so a renamed function hides it. The blocks of each page are matched by position: whoever reviews the
commit confirms that nothing but names changed, so it stands alone. What a check says of wrong answers may change, too,
if it says the same of the exercise's start and of the solution. What was stale, drifted or lost before stays so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
KEYS = """
import json
from pathlib import Path
from firstlight.records.package_parts import part_digests
from firstlight.records.record import TIMED, code_digest
from firstlight.records.runner import block_keys
from firstlight.records.slices import bench_digests

keys = {}
for path in Path("examples").glob("*/[0-9][0-9]_*.py"):
    source = path.read_text("utf-8")
    blocks = [*block_keys(source), code_digest(source)]
    parts = {f"code_{name}": digest for name, digest in part_digests(source).items() if name in TIMED}
    benches = {f"bench_{name.replace('-', '_')}": digest for name, digest in bench_digests(source).items()}
    keys[f"{path.parent.name}/{path.stem}"] = blocks, parts | benches
print(json.dumps(keys))
"""


def keys(root: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return of each page in a tree the keys of its blocks, and the digests of what its timings stand on."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [root / "src", *root.glob("*/src")]))}
    command = [sys.executable, "-c", KEYS]
    found: dict[str, tuple[list[str], dict[str, str]]] = json.loads(
        subprocess.run(command, cwd=root, env=env, check=True, capture_output=True).stdout
    )
    return found


def main() -> None:
    """Rewrite the records whose keys the old code still has."""
    before, after, changed = keys(Path(sys.argv[1]).resolve()), keys(HERE), 0
    for path in sorted((HERE / "records").glob("*/*/*.json")):
        text = renamed = path.read_text("utf-8")
        example = json.loads(text)["metadata"]["example"]
        if example not in before:
            continue
        (old_blocks, old_digests), (new_blocks, new_digests) = before[example], after[example]
        if len(old_blocks) != len(new_blocks):
            sys.exit(f"{example} has {len(new_blocks)} blocks and had {len(old_blocks)}: more than names changed")
        for old, new in zip(old_blocks, new_blocks, strict=True):
            renamed = renamed.replace(old, new)  # sixteen hexadecimal digits, which stand for nothing else
        for name, old in old_digests.items():
            renamed = renamed.replace(f'"{name}": "{old}"', f'"{name}": "{new_digests.get(name, old)}"')
        if renamed != text:
            path.write_text(renamed, "utf-8", newline="\n")
            changed += 1
    print(f"{changed} records have new keys")


if __name__ == "__main__":
    main()
