"""Which statements of a script something depends on: a backward slice, by names.

A record stands on the statements that its measurements depend on, and an exercise can be tried by running only those
that its check depends on. The slice is of whole statements at the top of the script, and knows nothing of their order:
a name depends on each statement that binds it, or changes what it names.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Callable, Iterator, Set
from functools import cache

from firstlight.records.runner import digest, lines_that_run

IMPORTS = (ast.Import, ast.ImportFrom)
LOOKING = ("print", "show_table")  # what is called without changing anything
UNCHANGED = frozenset(dir(builtins))


@cache
def bench_digests(source: str) -> dict[str, str]:
    r"""Return for each experiment of a script the digest of all code that it depends on, imports apart.

    Examples
    --------
    >>> page = "x = 1\nbench = Bench('sums')\nbench.time('add', lambda: x + 1)\n"
    >>> bench_digests(page) == bench_digests(page + "print('done')\n")
    True
    >>> bench_digests(page) == bench_digests(page.replace("x = 1", "x = 2"))
    False
    """
    return {
        name: digest("\n".join(_code(source, depends_on(source, _timing(variable)))))
        for name, variable in _benches(ast.parse(source)).items()
    }


def depends_on(source: str, is_target: Callable[[ast.stmt], bool]) -> list[ast.stmt]:
    """Return the statements at the top of a script that some of them, the targets, depend on, and these, in order."""
    body = ast.parse(source).body
    targets = [number for number, statement in enumerate(body) if is_target(statement)]
    if not targets:
        return []
    before = body[: targets[-1] + 1]
    fixed = UNCHANGED.union(*(_names_in(ast.unparse(one))[0] for one in body if isinstance(one, IMPORTS)))
    names = [_names(statement, fixed) for statement in before]
    chosen, waiting = set[int](), set(targets)
    while waiting:
        chosen |= waiting
        needed = set().union(*(names[number][1] for number in chosen))
        waiting = {number for number, (made, _) in enumerate(names) if made & needed} - chosen
    return [before[number] for number in sorted(chosen)]


def with_answer(page: list[ast.stmt], answer: str) -> tuple[list[ast.stmt], list[ast.stmt], list[ast.stmt]]:
    """Return a page's statements before its exercise, those of an answer to it in another script, and the page's rest.

    The answer brings its helpers and imports along, but nothing that has a name that the page gives to something.
    """
    made = [_names_in(ast.unparse(one))[0] for one in page]
    asked = _names_in(ast.unparse(page[-1]))[1] - {"print", "check"}
    ours = set().union(*made) - asked | {"*"}
    theirs = depends_on(answer, lambda one: bool(asked & _names_in(ast.unparse(one))[0]))
    for one in theirs:
        if isinstance(one, IMPORTS):
            one.names = [each for each in one.names if (each.asname or each.name.partition(".")[0]) not in ours]
    theirs = [one for one in theirs if getattr(one, "names", True) and not ours & _names(one, UNCHANGED)[0]]
    at = next((number for number, names in enumerate(made) if names & asked), len(page) - 1)
    rest = [one for one, names in zip(page[at:], made[at:], strict=True) if not names & asked]
    complete = asked <= set().union(*(_names_in(ast.unparse(one))[0] for one in theirs))
    return page[:at], theirs if complete else [], rest


def lines_of(statement: ast.stmt) -> range:
    """Return the numbers of a statement's lines, counted from 1, its decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    return range(min(node.lineno for node in (statement, *decorators)), (statement.end_lineno or 0) + 1)


def _code(source: str, statements: list[ast.stmt]) -> Iterator[str]:
    """Yield the lines of statements that run."""
    lines = source.split("\n")
    for statement in statements:
        if not isinstance(statement, IMPORTS):
            yield from lines_that_run("\n".join(lines[number - 1] for number in lines_of(statement)))


def _benches(tree: ast.Module) -> dict[str, str]:
    """Return the variable of each experiment, by the experiment's name."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            (target,), values = node.targets[:1], [node.value]
            targets = [target]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                targets, values = target.elts, node.value.elts
            for one, value in zip(targets, values, strict=False):
                match one, value:
                    case ast.Name(id=variable), ast.Call(ast.Name("Bench"), [ast.Constant(str(name)), *_]):
                        found[name] = variable
    return found


def _timing(variable: str) -> Callable[[ast.stmt], bool]:
    """Return what tells a statement that times with the Bench of this name, or hands the Bench on."""

    def is_timing(statement: ast.stmt) -> bool:
        inside = list(ast.walk(statement))
        # bench.show() and bench["row"] only look at a Bench.
        looks = {id(node.value) for node in inside if isinstance(node, (ast.Attribute, ast.Subscript))}
        named = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        for node in inside:
            match node:
                case ast.Call(ast.Attribute(ast.Name(name), "time")):
                    arguments = {one.arg for one in inside if isinstance(one, ast.arg)}
                    if name == variable or name in named | arguments:
                        return True
                case ast.Name(name, ast.Load()) if name == variable and id(node) not in looks:
                    return True
        return False

    return is_timing


@cache
def _names_in(code: str) -> tuple[frozenset[str], frozenset[str]]:
    table = symtable.symtable(code, "", "exec")
    inside = _comprehension_names(ast.parse(code))  # which Python 3.12 and later count as the statement's own
    symbols = [one for one in table.get_symbols() if one.get_name() not in inside]
    made = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
    read = {one.get_name() for one in symbols if one.is_referenced()}
    waiting = table.get_children()
    while waiting:
        inner = waiting.pop()
        waiting += inner.get_children()
        read |= {one.get_name() for one in inner.get_symbols() if one.is_global() and one.is_referenced()}
    return frozenset(made), frozenset(read)


def _comprehension_names(tree: ast.AST) -> set[str]:
    """Return the names that comprehensions bind, and that occur nowhere outside of them."""
    within, outside = set[str](), set[str]()

    def visit(node: ast.AST, bound: frozenset[str]) -> None:
        if isinstance(node, ast.Name):
            (within if node.id in bound else outside).add(node.id)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            visit(node.generators[0].iter, bound)  # is looked up outside
            targets = [name for one in node.generators for name in ast.walk(one.target)]
            bound |= {name.id for name in targets if isinstance(name, ast.Name)}
            first = node.generators[0]
            children = [child for child in children if child is not first] + [first.target, *first.ifs]
        for child in children:
            visit(child, bound)

    visit(tree, frozenset())
    return within - outside


def _names(statement: ast.stmt, fixed: Set[str]) -> tuple[set[str], set[str]]:
    """Return the names that a statement binds or changes, and those that it reads; nothing changes the fixed ones."""
    made, read = map(set, _names_in(ast.unparse(statement)))
    changed: set[str] = set()
    for node in _run_at_once(statement):
        match node:
            case ast.AugAssign(ast.Name(name)):
                read.add(name)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                changed |= _root(node)
            case ast.Expr(ast.Call(function, arguments, keywords)) if ast.unparse(function) not in LOOKING:
                # A result that nobody keeps, so it is called for what it changes: a method its object, a function
                # what it is given.
                owner = _root(function) - fixed if isinstance(function, ast.Attribute) else set()
                given = [*arguments, *(keyword.value for keyword in keywords)]
                changed |= owner or {name.id for one in given for name in ast.walk(one) if isinstance(name, ast.Name)}
    return made | changed - fixed, read


def _run_at_once(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a statement, without what is inside of functions and classes."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from _run_at_once(child)


def _root(node: ast.expr) -> set[str]:
    """Return the name that an expression such as ``x.y[0]`` begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return {node.id} if isinstance(node, ast.Name) else set()
