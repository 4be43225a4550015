"""The projects of this house: whatever walks over all of them asks here, so that none is forgotten in silence."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The folder of each, by the name that one imports.
FOLDERS = {
    "firstlight": ROOT,
    "firstlight_kernels": ROOT / "kernels",
    "firstlight_imaging": ROOT / "imaging",
    "firstlight_doctor": ROOT / "doctor",
}
#: The folder of its modules.
PACKAGES = {name: folder / "src" / name for name, folder in FOLDERS.items()}
#: What goes on the path, so that the code of this clone is imported.
SOURCES = [str(package.parent) for package in PACKAGES.values()]
