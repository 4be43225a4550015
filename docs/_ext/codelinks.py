"""Links from the names in a tutorial's code to the reference, once a cell, and to nothing else.

sphinx-gallery links each name that it knows, those of other projects too, where the network is there: a reader with a
keyboard would have hundreds of links to pass.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PACKAGES = ("firstlight", "firstlight_imaging", "firstlight_kernels", "firstlight.timing")


def note_imported_names(_app: Sphinx, env: BuildEnvironment) -> None:
    """Let what a package passes on be found under the package's name, too, with what belongs to it."""
    known = env.domains.python_domain.objects
    for package in PACKAGES:
        module = import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            home = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
            for defined in [one for one in known if one == home or one.startswith(f"{home}.")]:
                known.setdefault(f"{package}.{name}{defined.removeprefix(home)}", known[defined]._replace(aliased=True))


class KeepReferenceLinks(SphinxPostTransform):
    """Take the other links away."""

    default_priority: ClassVar[int] = 220
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Find the links by the classes that sphinx-gallery gives them; the page's code is cut into cells."""
        linked: set[tuple[int, str]] = set()
        for link in list(self.document.findall(nodes.reference)):
            kinds = [name for name in link["classes"] if name.startswith("sphx-glr-backref-")]
            target = (id(link.parent), link.get("refuri", ""))
            if kinds and link.get("internal") and target not in linked and "sphx-glr-backref-instance" not in kinds:
                linked.add(target)
                link["classes"] = ["fl-ref"]
            elif kinds:
                link["classes"] = []  # which the names inside would inherit
                link.replace_self(link.children)
