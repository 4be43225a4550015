"""Try the answer to a page's exercise: only the statements that its check depends on are run."""

from __future__ import annotations

import _thread
import ast
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from firstlight.records.runner import nothing_left, split
from firstlight.records.slices import depends_on, with_answer

SOLUTION = "# solution"
RIGHT = "Right"
LIMIT = 60.0  # seconds: a check takes one or two, so what takes longer goes on for ever


def try_exercise(script: Path, page: Path | None = None) -> bool:
    r"""Print what an example's check says of the answer that stands in the script now, and return whether it is right.

    Each check of ours begins what it says of a right answer with "Right", and of no other: tests hold that.

    Parameters
    ----------
    script
        The example, as it was downloaded, with an answer in place of the dots.
    page
        The same example, whose check counts: only the answer, and what it needs besides, is then taken from the script.

    Raises
    ------
    ValueError
        If the script has no exercise, is not Python, fails, or does not end.
    ImportError
        If nothing can be said of the answer: a package, the page, its exercise or the answer's name is missing.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     script = Path(folder, "page.py")
    ...     _ = script.write_text("print('slow')\ncheck = 'You said {}.'.format\nprint(check(7))")
    ...     try_exercise(script)
    You said 7.
    False
    """
    mistake = ImportError if page else ValueError  # the teacher's is no wrong answer
    try:
        ours = statements_of(_read(page or script))
    except (OSError, ValueError) as error:
        raise mistake(str(error)) from None
    if not ours:
        raise mistake(f"{page or script} has no exercise, no print(check(answer)): save a notebook as a script first")
    parts = [(ours, script)]
    if page:
        before, theirs, after = with_answer(ours, _read(script))
        if not theirs:
            raise ImportError(f"{script} has no answer to {page}: name it as in {ast.unparse(ours[-1])}")
        parts = [(before, page), (theirs, script), (after, page)]
    codes = [compile(ast.Module(part, []), str(file), "exec", dont_inherit=True) for part, file in parts]
    module = ModuleType("__main__")
    module.__file__ = str(script)
    said = ""

    def say(*words: object, **how: Any) -> None:
        nonlocal said
        said = str(words[0]) if words else ""
        print(*words, **how)

    vars(module)["print"] = say
    previous = sys.modules["__main__"]
    sys.modules["__main__"] = module
    late = threading.Event()

    def stop() -> None:
        late.set()
        _thread.interrupt_main()

    # A job in the background of a shell ignores Ctrl-C, and with it what interrupts the main thread.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(LIMIT, stop)
    timer.daemon = True
    timer.start()
    try:
        with nothing_left(script):
            for code in codes:
                exec(code, module.__dict__)
    except KeyboardInterrupt as error:
        if not late.is_set():
            raise
        where = _place(error, script)
        raise ValueError(f"after {LIMIT:g} seconds {where} was still running: does every loop there end?") from None
    except BaseException as error:  # exit(), too, is a wrong answer
        kind = ImportError if isinstance(error, ImportError) else ValueError
        raise kind(f"{_place(error, script)} raised {type(error).__name__}: {error}") from None
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, handler)
        sys.modules["__main__"] = previous
    return said.startswith(RIGHT)


def statements_of(source: str) -> list[ast.stmt]:
    r"""Return the statements of an example that its exercise's check depends on, and the check; none without one.

    Examples
    --------
    >>> [ast.unparse(one) for one in statements_of("import torch\ncheck = 'You said {}.'.format\nprint(check(7))")]
    ["check = 'You said {}.'.format", 'print(check(7))']
    """
    return depends_on(source, _asks(source))


def _read(script: Path) -> str:
    """Return the text of a script that is Python."""
    if script.exists() and not script.is_file():
        raise ValueError(f"{script} is a folder, a pipe or a device: name the script of a page")
    try:
        source = script.read_text(encoding="utf-8-sig")
        ast.parse(source)
    except SyntaxError as error:
        raise ValueError(f"{script}, line {error.lineno}: {error.msg}; mend it and try again") from None
    except (UnicodeDecodeError, MemoryError, RecursionError):
        raise ValueError(f"{script} is not text in UTF-8, or nested too deeply: name the script of a page") from None
    return source


def _asks(source: str) -> Callable[[ast.stmt], bool]:
    """Return what tells the lines ``print(check(…))`` of a script from others; those of a solution are not meant."""
    solved = (one for one in split(source) if one.kind == "code" and one.text.lstrip().startswith(SOLUTION))
    ours = {line for one in solved for line in range(one.line, one.line + one.text.count("\n") + 1)}

    def asks(statement: ast.stmt) -> bool:
        match statement:
            case ast.Expr(ast.Call(ast.Name("print"), [ast.Call(ast.Name("check"))])):
                return statement.lineno not in ours
        return False

    return asks


def _place(error: BaseException, script: Path) -> str:
    """Return the last line of the script that an error passed through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(script)]
    return f"line {frames[-1].lineno} of {script.name} ({frames[-1].line})" if frames else script.name
