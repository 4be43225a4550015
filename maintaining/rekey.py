"""Give the records the keys of today's code, after a change of names or of a check's hints, or after cells were added.

    python maintaining/rekey.py OLD

OLD is a clone of the commit before; the records here are rewritten. A recorded output is found by the digest of all
code before it, so a renamed function hides it, and so does a new cell that no other uses. The blocks of each page are
matched by position, or by their code where cells were added: whoever reviews the commit confirms that nothing else
changed, so it stands alone. What a check says of wrong answers may change, too, if it says the same of the exercise's
start and of the solution. What was stale, drifted or lost before stays so.
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
from firstlight.records.runner import block_keys, digest, split
from firstlight.records.slices import bench_digests

keys = {}
for path in Path("examples").glob("*/[0-9][0-9]_*.py"):
    source = path.read_text("utf-8")
    code = [digest(block.text) for block in split(source) if block.kind == "code"]
    blocks = [*zip(code, block_keys(source)), ("all of it", code_digest(source))]
    parts = {f"code_{name}": digest for name, digest in part_digests(source).items() if name in TIMED}
    benches = {f"bench_{name.replace('-', '_')}": digest for name, digest in bench_digests(source).items()}
    keys[f"{path.parent.name}/{path.stem}"] = blocks, parts | benches
print(json.dumps(keys))
"""


Blocks = list[tuple[str, str]]  # of each the digest of its own code, and its key


def keys(root: Path) -> dict[str, tuple[Blocks, dict[str, str]]]:
    """Return of each page in a tree its blocks, and the digests of what its timings stand on."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [root / "src", *root.glob("*/src")]))}
    command = [sys.executable, "-c", KEYS]
    found: dict[str, tuple[Blocks, dict[str, str]]] = json.loads(
        subprocess.run(command, cwd=root, env=env, check=True, capture_output=True).stdout
    )
    return found


def pairs(example: str, old: Blocks, new: Blocks) -> list[tuple[str, str]]:
    """Return the old and the new key of each block that was there before."""
    if len(old) == len(new):
        return [(was, now) for (_, was), (_, now) in zip(old, new, strict=True)]
    rest = iter(new)
    found = [(was, next((now for code, now in rest if code == own), "")) for own, was in old]
    if not all(now for _, now in found):
        sys.exit(f"{example} has {len(new)} blocks and had {len(old)}, and more has changed than that")
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
        for old, new in pairs(example, old_blocks, new_blocks):
            renamed = renamed.replace(old, new)  # sixteen hexadecimal digits, which stand for nothing else
        for name, old in old_digests.items():
            renamed = renamed.replace(f'"{name}": "{old}"', f'"{name}": "{new_digests.get(name, old)}"')
        if renamed != text:
            path.write_text(renamed, "utf-8", newline="\n")
            changed += 1
    print(f"{changed} records have new keys")


if __name__ == "__main__":
    main()
