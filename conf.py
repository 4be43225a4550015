"""How the site is built: sphinx-build -c . docs build/html (pages in docs/, scripts in examples/)."""

from __future__ import annotations

import os
import sys
import tomllib
from datetime import date
from pathlib import Path

from firstlight import __version__
from firstlight.records.package_parts import PACKAGES
from firstlight.records.runner import digest

here = Path(__file__).parent
sys.path.insert(0, str(here / "docs"))  # of _ext, what the site adds to Sphinx

project = "First Light"
author = "The First Light authors"
copyright = f"{date.today().year}, {author}"
release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx_reredirects",
    "_ext",
]
project_root = ".."
exclude_patterns = [
    "_ext",
    "_templates",
    "web",
    "tutorials/**.ipynb",
    "tutorials/**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
nitpicky = True
suppress_warnings = ["sphinx_gallery.space_in_filename"]  # of the folder that somebody keeps a clone in: ours have none
toc_object_entries_show_parents = "hide"

# -- Text ----------------------------------------------------------------------------------------------------
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
# A page that was run with other code of ours is run again.
ours = (file for package in PACKAGES.values() for file in package.rglob("*") if file.suffix in (".py", ".toml"))
sources = sorted([*ours, *here.glob("docs/*.py"), *here.glob("docs/scripts/*.py")])
nb_execution_cache_path = str(Path("build/.pages") / digest("".join(p.read_text(encoding="utf-8") for p in sources)))
nb_execution_raise_on_error = True
nb_execution_timeout = 120
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
copybutton_exclude = ".linenos, .gp, .go"

# -- Tutorials: run one at a time, because a second worker would spoil what the first one times --------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "tutorials",
    "filename_pattern": r"/\d\d_",
    "copyfile_regex": r"index\.rst",  # a chapter writes its own page
    "within_subsection_order": "FileNameSortKey",
    "nested_sections": True,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "capture_repr": ("_repr_html_",),
    "image_scrapers": ("_ext.timings.scrape", "_ext.figures.scrape"),
    "ignore_repr_types": r"firstlight\.timing\.bench|matplotlib",
    "reset_modules": ("matplotlib", "_ext.figures.reset", "_ext.gallery.freeze_modules"),
    "reset_modules_order": "before",
    "parallel": False,
    "min_reported_time": 3600,  # the time of a whole script, imports and figures included, is no measurement
}

# -- Pages ---------------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_math_renderer = "mathml"
html_title = "First Light"
html_static_path = ["docs/_static", "docs/web/boards"]
html_css_files = ["firstlight.css"]
html_favicon = "docs/_static/mark.svg"
html_last_updated_fmt = "%Y-%m-%d"  # the day that a page was built, or that of SOURCE_DATE_EPOCH
templates_path = ["docs/_templates"]
html_copy_source = False
html_use_index = html_domain_indices = False  # search finds more, and each build would write them again
html_show_sourcelink = False
html_sidebars: dict[str, list[str]] = {
    page: [] for page in (*(page.stem for page in here.glob("docs/*.md")), "doctor/*")
}
html_context: dict[str, object] = {"default_mode": ""}  # layout.html sets it; without a script the theme is light
html_theme_options: dict[str, object] = {
    "logo": {"text": "First Light"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,  # all of them: the menu for the others needs a script
    "navbar_end": ["theme-switcher"],
    "collapse_navigation": True,
    "secondary_sidebar_items": ["page-toc", "edit-this-page"],
    "show_prev_next": True,
    "article_header_end": ["copy-page"],
    "footer_start": ["copyright"],
    "footer_end": ["built"],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# The services that build the site say where its source is, and where they put it; elsewhere nobody knows, and the links
# are left out.
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
repository = (
    os.environ.get("GITHUB_REPOSITORY")
    or os.environ.get("READTHEDOCS_GIT_CLONE_URL", "").removesuffix(".git").partition("github.com/")[2]
)
if repository.count("/") == 1:
    owner, name = repository.split("/")
    pages = f"{owner.lower()}.github.io"
    html_baseurl = html_baseurl or (f"https://{pages}/" if name.lower() == pages else f"https://{pages}/{name}/")
    html_theme_options["use_edit_page_button"] = True
    html_context |= {"github_user": owner, "github_repo": name, "edit_page_provider_name": "GitHub"}
    html_context["repository"] = repository
    if os.environ.get("GITHUB_REPOSITORY"):  # its deployment puts the notebooks on a branch: Colab opens no others
        html_context["notebooks"] = f"https://colab.research.google.com/github/{repository}/blob/notebooks"
    # A tutorial's page is made from its script.
    html_context["edit_page_url_template"] = (
        "https://github.com/{{ github_user }}/{{ github_repo }}/edit/main/"
        "{% if not pagename.startswith('tutorials/') %}docs/{{ file_name }}"
        "{% elif pagename.endswith('/index') %}examples/{{ pagename[10:] }}.rst"
        "{% else %}examples/{{ pagename[10:] }}.py{% endif %}"
    )

# -- Pages that have moved, for the links of others: an old address leads to the new one ---------------------
redirect_html_template_file = "_templates/moved.html"
redirects = {old: f"/{new}.html" for old, new in tomllib.loads((here / "docs/moved.toml").read_text("utf-8")).items()}

# -- Other projects ------------------------------------------------------------------------------------------
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "matplotlib": ("https://matplotlib.org/stable", None),
    "torch": ("https://docs.pytorch.org/docs/stable", None),
}
intersphinx_timeout = 3
# These refuse programs: GitHub's issues ask for few at a time, and many publishers behind DOIs for none.
linkcheck_ignore = [r"https://github\.com/.*/(issues|pull)/\d+", r"https://doi\.org/"]
linkcheck_anchors_ignore_for_url = [r"https://github\.com/"]  # a script makes them in the reader's browser
linkcheck_retries, linkcheck_timeout, linkcheck_rate_limit_timeout = 3, 20, 60
nitpick_ignore = [("py:class", name) for name in ("optional", "Clock", "Wait", "Array", "Tensor", "npt.ArrayLike")]
