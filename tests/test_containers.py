"""What the containers install is what the install page tells people to, and what was tried."""

import json
import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "docs/_templates/Dockerfile").read_text(encoding="utf-8")
INSTALL = (ROOT / "docs/install.md").read_text(encoding="utf-8")


def tab(name):
    """The packages of the command in a tab of the install page."""
    text = INSTALL.partition(f":::{{tab-item}} {name}\n")[2].partition("\n:::\n")[0]
    command = re.search(r"python -m pip install -r requirements.txt ((?:.*\\\n)*.*)", text)[1]
    return shlex.split(command.replace("\\\n", " "))


def test_the_dockerfile_installs_what_the_install_page_does() -> None:
    (default,) = re.findall('^ARG PYTORCH="(.*)"$', DOCKERFILE, re.MULTILINE)
    assert default.split() == tab("No GPU")
    assert "RUN python -m pip install --no-cache-dir -r requirements.txt jupyterlab $PYTORCH\n" in DOCKERFILE
    pages = (DOCKERFILE, (ROOT / "docs/classroom.md").read_text(encoding="utf-8"))
    for mailed in (pages[1], (ROOT / "docs/_templates/README.txt").read_text(encoding="utf-8")):
        assert shlex.split(re.search(r"-r requirements.txt (.*whl/cpu)\n", mailed)[1]) == tab("No GPU")
    for (given,) in (re.findall("--build-arg PYTORCH='([^']*)'", page) for page in pages):
        assert given.split() == tab("Linux and WSL (NVIDIA)")


def test_the_devcontainer_installs_a_clone_as_the_install_page_does() -> None:
    command = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))["onCreateCommand"]
    clone = re.search(r"In a clone of the repository, write `([^`]*)` in place of `-r requirements.txt`", INSTALL)[1]
    assert set(shlex.split(command)) - {"--user", "ipykernel"} == {
        *shlex.split("python -m pip install"),
        *shlex.split(clone),
        *tab("No GPU"),
    }
