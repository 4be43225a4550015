"""Write the doctor as one file that any Python from 3.8 on runs: ``python make_pyz.py FOLDER``."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

SOURCE = Path(__file__).parent / "src"
NAME = "firstlight-doctor.pyz"
MAIN = """import sys
if sys.version_info < (3, 8):
    sys.stderr.write("The doctor needs Python 3.8 or newer; this one is " + sys.version.split()[0] + ".\\n"
                     "Run it with a newer one.\\n")
    sys.exit(2)
from firstlight_doctor.cli import main
sys.exit(main())
"""


def build(folder: Path) -> Path:
    """Write the file into a folder; the same sources give the same bytes."""
    parts = [path for path in (SOURCE / "firstlight_doctor").rglob("*") if path.suffix in (".py", ".json")]
    file = folder / NAME
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        contents = {
            "__main__.py": MAIN.encode(),
            **{path.relative_to(SOURCE).as_posix(): path.read_bytes() for path in sorted(parts)},
        }
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return file


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
