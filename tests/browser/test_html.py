"""The W3C's checker of HTML on every page, in one process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import SITE, missing

CHECKER = Path(sys.prefix) / "node/node_modules/vnu-jar/build/dist/vnu.jar"


def test_no_page_has_an_error() -> None:
    java = shutil.which("java")
    if java is None:
        missing(
            "there is no Java, which the W3C's checker runs on: install a Java runtime (Debian: default-jre-headless)"
        )
    if not CHECKER.exists():
        missing(f"there is no {CHECKER}: make the environment again (make test)")
    pages = sorted(str(path) for path in SITE.rglob("*.html") if "_static" not in path.parts)
    if not pages:
        missing(f"there is no site in {SITE}: build it first (make docs)")
    command = [java, "-Xss4m", "-jar", str(CHECKER), "--errors-only", "--format", "json", *pages]
    checked = subprocess.run(command, capture_output=True, encoding="utf-8")
    errors = [
        f"{one.get('url', '').rpartition('/html/')[2]}:{one.get('lastLine')}: {one['message']} {one.get('extract', '')}"
        for one in json.loads(checked.stderr)["messages"]
    ]
    assert not errors, f"{len(errors)} errors on {len(pages)} pages:\n" + "\n".join(errors[:40])
    print(f"\nW3C checker: no error on {len(pages)} pages")
