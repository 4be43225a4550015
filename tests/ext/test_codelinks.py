import re

TUTORIAL = '''"""
First
=====

Text.
"""
from firstlight_imaging import GridCoords
made = GridCoords(0.1, 8)
made.sky_coordinates()
GridCoords(0.2, 8)
len([made])
'''
REFERENCE = """
Reference
=========

.. automodule:: firstlight_imaging.coordinates
   :members: GridCoords
"""


def test_code_links_once_to_a_function_and_not_to_what_holds_its_results(make_site):
    site = make_site({"examples/01_use.py": TUTORIAL, "reference.rst": REFERENCE})
    site.rebuild("html", "-D", "extensions=sphinx.ext.napoleon,sphinx_gallery.gen_gallery,_ext")
    html = site.read("html/tutorials/01_use.html")
    links = re.findall('<a class="fl-ref[^>]*href="../reference.html#([^"]*)"[^>]*>(.*?)</a>', html)
    coordinates = "firstlight_imaging.coordinates.GridCoords"
    assert [(target, re.sub("<.*?>", "", text)) for target, text in links] == [
        (coordinates, "GridCoords"),
        (f"{coordinates}.sky_coordinates", "made.sky_coordinates"),
    ]
    assert "sphx-glr-backref" not in html
