import json
import re
from dataclasses import replace

import pytest
from recorded import keep

from _ext.notebooks import in_words, to_pages
from _ext.prose import spec_number, timing_number
from firstlight.records.record import Judged, Record
from firstlight.timing.result import Timing
from firstlight.timing.specs import spec_of

EXAMPLE = (
    '"""\nAdd\n===\n\n{}\n"""\n# %%\n# Text.\n\nprint("no Bench runs here")\nif False:\n    b = Bench("vector-add")\n'
)
NAME = "1_part/01_add"


def row(label, seconds, device="cpu", n=1000, **facts):
    return Timing(label=label, device=device, first=seconds, values=(seconds,) * 9, n=n, **facts)


def named(*rows):
    return {f"vector-add/{t.label}/{t.device}/n={t.n}": t for t in rows}


CPU = named(row("NumPy, new result", 0.01, bytes=12_000), row("torch", 0.005, flops=1000), row("bare", 0.001))
GPU = named(row("NumPy, new result", 0.02, bytes=12_000), row("torch", 0.000135, "cuda:0", bytes=12_000))


def record(machine, timings, date="2026-05-01", **facts):
    kind = "cpu" if machine.startswith("cpu-") else "cuda"
    known = {"machine": machine, "device_kind": kind, "device_name": machine.upper(), "date": f"{date} 00:00:00.000000"}
    return Record(known | facts, timings, {})


def ask(request, *judged):
    found = [item if isinstance(item, Judged) else Judged(item, "fresh") for item in judged]
    return timing_number(
        request, {"vector-add": NAME, "other": "x/y"}, lambda example, _: found if example == NAME else []
    )


both = (record("nvidia-h200", GPU), record("cpu-amd-epyc", CPU))


@pytest.mark.parametrize(
    ("request_", "text", "machine"),
    [
        ('vector-add median "NumPy, new result" @cpu', "10.0 ms", "cpu-amd-epyc"),
        ('vector-add median "NumPy, new result" @gpu', "20.0 ms", "nvidia-h200"),
        ('vector-add\n  median   "NumPy, new\n result" @cpu', "10.0 ms", "cpu-amd-epyc"),
        ("vector-add median torch @nvidia-h200", "135 µs", "nvidia-h200"),
        ('vector-add median "torch/cpu/n=1000" @cpu', "5.00 ms", "cpu-amd-epyc"),
        ('vector-add rate "NumPy, new result" @cpu', "1.20 MB/s", "cpu-amd-epyc"),
        ("vector-add rate torch @cpu", "200 kFLOP/s", "cpu-amd-epyc"),
        ('vector-add speedup torch/"NumPy, new result" @gpu', "148 ×", "nvidia-h200"),
        ('vector-add speedup "NumPy, new result" / torch @cpu', "0.5 ×", "cpu-amd-epyc"),
        ('vector-add speedup torch @gpu / "NumPy, new result" @cpu', "74.1 ×", "nvidia-h200"),
        ("vector-add speedup torch @nvidia-h100/torch @cpu", "not recorded yet", ""),
        ('vector-add sum "NumPy, new result" +\n torch @cpu', "15.0 ms", "cpu-amd-epyc"),
        ('vector-add share "NumPy, new result" / torch @cpu', "50 %", "cpu-amd-epyc"),
        ('vector-add share "NumPy, new result" / torch @gpu', "0.68 %", "nvidia-h200"),
        ("vector-add median torch @nvidia-h100", "not recorded yet", ""),
        ("other median anything @gpu", "not recorded yet", ""),
    ],
)
def test_a_request_finds_its_number(request_, text, machine):
    found = ask(request_, *both)
    assert (found.text, found.machine) == (text, machine)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("", "asks for no number; expected: BENCH median|rate"),
        ("vector-add @cpu", "asks for no number"),
        ("vector-add median torch", "asks for no number"),
        ("vector-add speedup torch @cpu", "asks for no number"),
        ("vector-add sum torch @cpu", "asks for no number"),
        ("vector-add median torch/bare @cpu", "asks for no number"),
        ("vector-ad median torch @cpu", "there is no experiment 'vector-ad'; there are: other, vector-add"),
        ("vector-add median tensor @cpu", "no row 'tensor' on cpu-amd-epyc; there are: 'NumPy, new result/cpu/n=1000'"),
        ("vector-add median tor @cpu", "no row 'tor'"),
        ("vector-add rate bare @cpu", "'bare' has no rate: it was timed without bytes and flops"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(request_, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        ask(request_, *both)


def test_two_machines_are_both_named_and_an_old_record_of_either_makes_the_number_old():
    old = Judged(record("cpu-amd-epyc", CPU), "stale", ["recorded with older code"])
    found = ask("vector-add speedup torch @gpu / torch @cpu", record("nvidia-h200", GPU), old)
    assert (found.text, found.state) == ("37 ×", "stale")
    assert found.title == "NVIDIA-H200, 2026-05-01; CPU-AMD-EPYC, 2026-05-01; recorded with older code"


def test_rows_of_two_sizes_have_no_speed_up():
    rows = named(row("small", 0.1, n=10), row("large", 0.2, n=1000))
    with pytest.raises(ValueError, match="two sizes, n = 10 and 1000"):
        ask("vector-add speedup small/large @cpu", record("cpu-x", rows))


def test_a_label_that_several_rows_share_is_refused_with_their_names():
    rows = named(row("sum", 0.1, n=10), row("sum", 0.2, n=1000))
    with pytest.raises(ValueError, match=re.escape("name one in full: 'sum/cpu/n=10', 'sum/cpu/n=1000'")):
        ask("vector-add median sum @cpu", record("cpu-x", rows))
    assert ask('vector-add median "sum/cpu/n=10" @cpu', record("cpu-x", rows)).text == "100 ms"


def test_the_newest_record_that_is_not_stale_speaks_and_a_stale_one_only_if_there_is_no_other():
    stale = Judged(record("nvidia-new", GPU, "2026-06-01"), "stale", ["recorded with older code"])
    drifted = Judged(record("nvidia-mid", GPU, "2026-05-01"), "drifted", ["numpy 1.2 then, 2.4 now"])
    fresh = Judged(record("nvidia-old", GPU, "2026-04-01"), "fresh", [])
    request = "vector-add median torch @gpu"
    assert ask(request, stale, drifted, fresh).machine == "nvidia-mid"
    found = ask(request, stale)
    assert (found.machine, found.state) == ("nvidia-new", "stale")
    assert found.title == "NVIDIA-NEW, 2026-06-01; recorded with older code"
    assert ask("vector-add median torch @nvidia-new", stale, fresh).state == "stale"


def test_a_row_that_a_machine_had_to_leave_out_is_no_error():
    machine = record("cpu-x", {}, left_out="vector-add/kernel/cpu/n=10 | vector-add/other/cpu")
    for label in ("kernel", "other"):
        assert ask(f"vector-add median {label} @cpu", machine).text == "not recorded yet"
    with pytest.raises(ValueError, match="no row 'kern'"):
        ask("vector-add median kern @cpu", machine)


def test_a_speed_up_never_mixes_machines():
    parts = record("nvidia-b", named(row("a", 1.0))), record("nvidia-a", named(row("b", 2.0)))
    with pytest.raises(ValueError, match="no row"):
        ask("vector-add speedup a/c @gpu", *parts)
    assert ask("vector-add speedup a/b @gpu", *parts).text == "not recorded yet"


def test_specifications_say_their_source():
    found = spec_number("GTX 1080\n bandwidth")
    assert (found.text, found.title) == ("320 GB/s", spec_of("GTX 1080").source)
    for wrong in ("", "bandwidth", "GTX 1080", "GTX 1080 price"):
        with pytest.raises(ValueError, match=r"there (are|is)|it gives"):
            spec_number(wrong)


# -- In a site -----------------------------------------------------------------------------------------------------

ROLES = (
    'Takes :timing:`vector-add median "NumPy, new result" @cpu`, :timing:`vector-add speedup\n'
    "torch/bare @cpu`; the sheet says :spec:`GTX 1080 bandwidth`.\n\n"
    "On a GPU it takes :timing:`vector-add median torch @gpu`.\n\n- a line that stays;\n- :timing:`vector-add median\n"
    "  torch @gpu`, a line that goes."
)
MACHINES = "Machines\n========\n\n.. _cpu-amd-epyc:\n\nAMD\n---\n\nText.\n"
PAGE = "html/prose.html"


NOTHING, BOTH = "0 added, 0 changed, 0 removed", "0 added, 2 changed, 0 removed"


def site_with(make_site, prose, **more):
    files = {
        "index.rst": "Home\n====\n\n.. toctree::\n   :glob:\n\n   *\n   tutorials/index\n",
        "examples/1_part/GALLERY_HEADER.rst": "Part\n====\n",
        "examples/1_part/01_add.py": EXAMPLE.format(prose),
        "prose.rst": f"Prose\n=====\n\n{prose}\n",
        "plain.rst": "Plain\n=====\n\nNo numbers.\n",
    }
    site = make_site(files | more)
    keep(site.folder, NAME, "cpu-amd-epyc", timings=CPU, name='AMD <"EPYC">')
    return site


@pytest.fixture(scope="module")
def site(make_site):
    site = site_with(make_site, ROLES, **{"machines.rst": MACHINES})
    site.rebuild()
    return site


def test_numbers_are_linked_to_their_machines_and_say_them(site):
    title = 'title="AMD &lt;&quot;EPYC&quot;&gt;, 2026-05-01"'
    number = f'href="{{}}machines.html#cpu-amd-epyc" {title}><span class="fl-number">{{}}</span></a>'
    for page, relative_root in ((PAGE, ""), ("html/tutorials/1_part/01_add.html", "../../")):
        html = site.read(page)
        assert number.format(relative_root, "10.0 ms") in html
        assert number.format(relative_root, "0.2 ×") in html
        assert "On a GPU" not in html
        assert "a line that stays" in html
        assert "a line that goes" not in html
        assert html.count("No GPU is on record for this page yet") == 1
        assert html.index("</h1>") < html.index("No GPU is on record") < html.rindex("Takes")
        assert 'name="description" content="Takes' in html
        source = spec_of("GTX 1080").source
        assert f'<abbr title="{source}"><span class="fl-number">320 GB/s</span></abbr>' in html
        assert "AMD <" not in html


def words(site) -> str:
    """What the notebook says that the site hands out."""
    book = json.loads(site.read(f"html/downloads/{NAME}.ipynb"))
    return " ".join("".join(cell["source"]) for cell in book["cells"])


def test_pages_and_notebooks_follow_the_records_that_they_quote_and_nothing_else(site):
    assert 'Takes 10.0 ms (AMD &lt;"EPYC"&gt;, 2026-05-01), 0.2 ×' in words(site)
    assert words(site).count("2026-05-01") == 1, "a record is named once for all numbers in a row"
    assert not re.search(":timing:|On a GPU|a line that goes|not recorded", words(site))
    assert "a line that stays" in words(site)
    assert site.rebuild() == NOTHING

    other = {name: replace(t, values=(0.5,) * 9) for name, t in CPU.items()}
    keep(site.folder, NAME, "cpu-amd-epyc", timings=other)
    assert site.rebuild() == BOTH
    assert ">500 ms<" in site.read(PAGE)

    keep(site.folder, NAME, "nvidia-h200", timings=GPU)
    assert site.rebuild() == BOTH
    assert ">135 µs<" in site.read(PAGE)
    assert "135 µs (NVIDIA H200, 2026-05-01)" in words(site)
    assert "No GPU is on record" not in site.read(PAGE)

    script = site.folder / "examples" / f"{NAME}.py"
    script.write_text(script.read_text(encoding="utf-8") + "print(1)\n", encoding="utf-8")
    assert site.rebuild() == BOTH
    stale = r'title="NVIDIA H200, 2026-05-01; [^"]+"><span class="fl-number fl-stale">135 µs</span>'
    assert re.search(stale, site.read(PAGE))


BOOK = """See :doc:`/how_we_measure`, :doc:`the other <02_other>` and :download:`a file </_snippets/a.json>`;
`one
name`__ and `another`__; ``code``, and ```not`__``.

__ https://a.org/1
__ https://b.org/2

.. list-table:: What it is
   :header-rows: 1

   * - Name
     - Value
   * - ``a | b``
     - two
       lines
"""


def test_a_notebook_has_markdown_where_the_script_has_rest():
    link = to_pages("1_part/01_add", {"how_we_measure": "How", "tutorials/1_part/02_other": "Other"}, "https://site/")
    book = json.dumps({"cells": [{"cell_type": "markdown", "source": [BOOK]}, {"cell_type": "code", "source": [BOOK]}]})
    first, second = json.loads(in_words(book, {}, list, link))["cells"]
    text = "".join(first["source"])
    for part in (
        "[How](https://site/how_we_measure.html)",
        "[the other](https://site/tutorials/1_part/02_other.html)",
        "`a file`;",
        "[one\nname](https://a.org/1) and [another](https://b.org/2)",
        "**What it is**\n\n| Name | Value |\n|---|---|\n| `a \\| b` | two lines |\n",
    ):
        assert part in text
    assert not re.search(r":\w+:`|__ http|^\.\. ", text, re.MULTILINE)
    assert second["source"] == [BOOK]
    here = to_pages("1_part/01_add", {"how_we_measure": "How"}, "")
    assert here("doc", "", "/how_we_measure") == "*How*"


def test_a_name_that_does_not_exist_fails_each_build_and_is_placed(make_site):
    wrong = (":timing:`vector-sub median torch @cpu`", ":timing:`vector-add median tensor @cpu`", ":spec:`X bandwidth`")
    site = site_with(make_site, f"Text: :timing:`vector-add median torch @cpu`.\n\n{', '.join(wrong)}")
    site.build("html").build("html")
    assert site.failed, "the second time too"
    for name in ("'vector-sub'", "'tensor' on cpu-amd-epyc", "'X'"):
        assert re.search(rf"prose\.rst:6: WARNING: .*{re.escape(name)}", site.log), name
    assert ">5.00 ms<" in site.read(PAGE)
