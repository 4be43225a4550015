import re
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from samples import EXAMPLES

from firstlight.records import runner
from firstlight.records.runner import OUTPUT_LIMIT, Block, ExampleError, block_keys, ends_with_bench, run, split

PAGE = '''"""
Title
=====
"""

# %%
# Words.

x = 1
# why two
y = 2

# %%
# More words.
#
# - and a list

print(x)

# %%

print(x + y)
'''


# -- Splitting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("\n\n", []),
        ('"""Only."""', [("text", 1)]),
        ('#!/usr/bin/env python\n"""Doc."""\nx = 1\n', [("text", 1), ("code", 3)]),
        ('"""Doc."""\n\n# %%\n# Words.\n\n"a string"\n', [("text", 1), ("text", 3), ("code", 5)]),
        ('"""Doc."""\n#%% a title\n#words\nx = 1\n', [("text", 1), ("text", 2), ("code", 4)]),
        ('"""Doc."""\nx = 1\n# %%\n# %%\n# Words.\ny = 2\n', [("text", 1), ("code", 2), ("text", 3), ("code", 6)]),
        ('"""Doc."""\nif True:\n    # %% no marker\n    x = 1\n', [("text", 1), ("code", 2)]),
        ("x = 1\n# %%\n# The end.", [("code", 1), ("text", 2)]),
    ],
)
def test_awkward_pages(source: str, expected: list[tuple[str, int]]) -> None:
    assert [(block.kind, block.line) for block in split(source)] == expected


def galleries(script: Path) -> list[tuple[str, str, int]]:
    """The blocks as sphinx-gallery sees them, with what is plain white space at their ends left out."""
    parser = pytest.importorskip("sphinx_gallery.py_source_parser")
    blocks = parser.split_code_and_text_blocks(script)[1]
    return [(b.type, b.content.strip(), b.lineno) for b in blocks[1:]]


def ours(script: Path) -> list[tuple[str, str, int]]:
    def content(block: Block) -> str:
        if block.kind == "code":
            return block.text.strip()
        return "\n".join(re.sub("^# ?", "", line) for line in block.text.split("\n")[1:]).strip()

    blocks = [(b.kind, content(b), b.line + (b.kind == "text")) for b in split(script.read_text(encoding="utf-8"))[1:]]
    return [block for block in blocks if block[1]]


AWKWARD = [PAGE.replace("# %%", "#%%"), '"""D."""\n# %%\n# %%\n# Words.\nx = 1\n\n\n# %%\n\n2\n']


@pytest.mark.parametrize("source", [*AWKWARD, *(script.read_text(encoding="utf-8") for script in EXAMPLES[::8])])
def test_sphinx_gallery_splits_pages_like_this(source: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(source, encoding="utf-8")
    assert ours(script) == galleries(script)


# -- Keys --------------------------------------------------------------------------------------------------------------


def same(old: str, new: str) -> list[bool]:
    return [one == other for one, other in zip(block_keys(old), block_keys(new), strict=True)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("x = 1", "x = 2", [False, False, False]),
        ("print(x)", "print(y)", [True, False, False]),
        ("print(x + y)", "print(x +  y)", [True, True, False]),
        ("y = 2", "y = 2  # two", [False, False, False]),
    ],
)
def test_code_changes_the_key_of_its_block_and_of_all_later_ones(old: str, new: str, expected: list[bool]) -> None:
    assert same(PAGE, PAGE.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Words", "Other words"),
        ("Title\n=====", "Another\n======="),
        ("# why two\n", ""),
        ("\n", "\r\n"),
        ("# %%", "#%%"),
    ],
)
def test_prose_comments_and_white_space_change_no_key(old: str, new: str) -> None:
    assert old in PAGE
    assert same(PAGE, PAGE.replace(old, new)) == [True, True, True]


KERNEL = 'code = r"""\n#define TILE 16\n\n  # pragma\n"""\nn = 1\n'


@pytest.mark.parametrize("change", [("16", "32"), ("\n\n", "\n"), ("pragma", "error"), ("16\n", "16 \n")])
def test_what_looks_like_a_comment_in_a_string_is_code(change: tuple[str, str]) -> None:
    assert same('"""D."""\n' + KERNEL, '"""D."""\n' + KERNEL.replace(*change)) == [False]


# -- Running -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path: Path):
    def write(source: str) -> Path:
        path = tmp_path / "01_page.py"
        path.write_text(source, encoding="utf-8", newline="")
        return path

    return write


def test_what_each_block_prints_is_kept_and_passed_on(example, capsys) -> None:
    done = run(example(PAGE))
    assert [*done.outputs.values()] == ["1", "3"]
    _, second, third = block_keys(PAGE)
    assert [*done.outputs] == [f"02:{second}", f"03:{third}"]
    assert capsys.readouterr().out == "1\n3\n"
    assert (done.names["x"], done.names["y"]) == (1, 2)


DRAWING = """import matplotlib.pyplot as plt

# %%

# figure
plt.figure(label="a drawing")

# %%

# folded: A figure in a fold
# measured figure
plt.figure(label="what <was> measured")
plt.axhline(1, color="black")
plt.show()
"""


def test_a_figure_of_what_was_measured_is_kept_in_the_ink_of_its_page(example) -> None:
    done = run(example(DRAWING))
    ((key, svg),) = done.figures.items()
    assert key == block_keys(DRAWING)[-1]
    assert svg.startswith('<svg role="img" aria-label="what &lt;was&gt; measured"')
    assert "currentColor" in svg
    assert "#000000" not in svg
    assert svg == run(example(DRAWING)).figures[key]
    plt.close("all")  # a page that is built in this process would show them


def test_an_example_runs_as_a_script_does(example) -> None:
    page = example(
        'import sys, inspect\nimport __main__\n\n\nclass Here:\n    """Words."""\n\n\n'
        "source = inspect.getsource(Here)\nmain = __main__ is sys.modules[Here.__module__]\n"
    )
    names = run(page).names
    assert names["__name__"] == "__main__"
    assert names["__file__"] == str(page)
    assert names["source"].startswith("class Here")
    assert names["main"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("bench.show()", ("bench", "show")),
        ("x = 1\nother.plot()  # words\n\n# more", ("other", "plot")),
        ("plt.show()", None),
        ("a.b.show()", None),
        ("bench.show()\nx = 1", None),
        ("fig = bench.plot()", None),
        ("if gpu:\n    bench.show()", None),
        ('"""\nbench.show()\n"""', None),
        ("# words", None),
    ],
)
def test_which_blocks_show_a_bench(code: str, expected: tuple[str, str] | None) -> None:
    assert ends_with_bench(code) == expected


def test_a_page_keeps_at_most_8_kilobytes_and_says_where_it_was_cut(example) -> None:
    source = "print('×' * 5000)\n# %%\nprint('a' * 5000)\n# %%\nprint()\n# %%\nprint('to remember')\n"
    printed = [*run(example(source)).outputs.values()]
    left = OUTPUT_LIMIT - 5000 - len("to remember")
    assert printed == ["×" * (left // 2) + "\n… (cut)", "a" * 5000, "to remember"], "the longest is cut"


@pytest.mark.parametrize(
    ("source", "line", "error"),
    [
        ("x = 1\n\n# %%\n# Words.\n\nx += 1\nraise ValueError('here')\n", 7, "ValueError: here"),
        ("import sys\n# %%\n\nsys.exit('no GPU')\n", 4, "SystemExit: no GPU"),
        ("# %%\n\nx = 1\nif x\n", 4, "SyntaxError"),
        ("# %%\n\nx = (1,\n# %%\n)\n", 3, "SyntaxError"),
    ],
)
def test_a_failure_is_told_with_the_examples_own_file_and_line(example, source, line, error) -> None:
    page, main, stdout = example(source), sys.modules["__main__"], sys.stdout
    with pytest.raises(ExampleError) as caught:
        run(page)
    message = str(caught.value)
    assert f'File "{page}", line {line}' in message
    assert error in message.splitlines()[-1]
    assert runner.__file__ not in message
    assert sys.modules["__main__"] is main
    assert sys.stdout is stdout


def test_our_modules_may_move_and_others_not():
    page = '"""Page."""\n\nfrom firstlight_kernels import cuda\nfrom torch import add\n'
    assert block_keys(page) == block_keys(page.replace("firstlight_kernels", "firstlight_kernels"))
    assert block_keys(page) != block_keys(page.replace("cuda", "trace"))
    assert block_keys(page) != block_keys(page.replace("torch", "numpy"))
