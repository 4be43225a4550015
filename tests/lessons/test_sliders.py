"""The sliders' numbers, in a terminal and on a page that has no script."""

import base64
import html
import io
import json
import re

import numpy as np
from matplotlib.image import imread

from firstlight.lessons.sliders import Cost, Level, Sliders, picture

COSTS = {
    "NUFFT <i>": Cost({10_000: 2e-3, 999_600: 0.0972}, 1e-3, 1e-7),
    "exact": Cost({10_000: 1e-3, 999_600: 1.2e-3}, 1.1e-3, 0.0),
}


def level(signal=25.0, off=0.0):
    along = np.linspace(-1, 1, 5)
    right = 1 + 0.02 * along**2
    ramp = np.linspace(0, 1, 48).reshape(6, 8)
    curves = {"float64": right, "float32": right + off, "re-centred": right}
    pictures = {"truth": (ramp, "gray", 'A ramp, "lopsided".')}
    return Level(signal, along, curves, {"float32": off, "re-centred": 0.0}, pictures)


def test_what_was_measured_is_told_from_the_model():
    rows = Sliders(COSTS, [], "a machine").table().rows
    assert rows[0] == ("10,000", "2 ms", "1 ms")
    assert rows[1] == ("100,000", "11 ms*", "1.1 ms*")
    assert rows[2] == ("1,000,000", "97 ms", "1.2 ms")  # 999 600 were a million
    assert rows[4] == ("100,000,000", "10 s*", "1.1 ms*")


def test_it_is_whole_without_a_script_which_gets_the_same_numbers():
    shown = Sliders(COSTS, [level(), level(2500.0, 0.006)], "two <cores>")._repr_html_()
    bare = re.sub("<div hidden>.*?</div></div>", "", shown)
    assert len(re.findall("<input", shown)) == 2
    assert "<input" not in bare
    assert len(re.findall("<section", bare)) == 2
    assert "<table>" in bare
    assert "6e-03 float32" in bare
    assert 'alt="A ramp, &quot;lopsided&quot;."' in bare
    assert "<i>" not in shown
    assert "<cores>" not in shown
    told = json.loads(html.unescape(re.search(r'data-sliders="([^"]*)"', shown)[1]))
    assert told["costs"]["exact"] == {"start": 1.1e-3, "slope": 0.0, "measured": [[10_000, 1e-3], [999_600, 1.2e-3]]}
    assert told["signals"] == ["25", "2,500"]
    assert "signal" not in Sliders(COSTS, [], "here")._repr_html_().replace('"signals"', "").replace("signals", "")


def test_pictures_have_south_below_and_shades_beyond_the_ends_are_cut():
    ramp = np.array([[-1.0, 0.0], [1.0, 3.0]]).repeat(16, 0).repeat(16, 1)
    kind, data = re.search('src="([^"]*)"', picture("", (ramp, "gray", "")))[1].split(",")
    assert kind == "data:image/webp;base64"
    shades = imread(io.BytesIO(base64.b64decode(data)), format="webp")[..., 0]
    np.testing.assert_allclose(shades[[8, 8, 24, 24], [8, 24, 8, 24]], [255, 255, 0, 0], atol=12)
