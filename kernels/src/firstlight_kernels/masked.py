"""A kernel's source as code for all threads at once: each variable holds one number for all, or one for each thread.

Every block of statements has a mask of the threads that are in it, or None when there are none left. An ``if`` splits
it; ``break``, ``continue`` and ``return`` take threads out of it; after an ``if`` or a loop, they meet again. So

    if i < n:                      m1 = where(m0, i < n)
        y = x[i]                   if m1 is not None:
                                       new = load(m1, x, i)
                                       y = new if m1 is m0 else merge(m1, y, new)

where the real code has ``__`` at the end of each name that the kernel's author did not write.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from firstlight_kernels.arithmetic import scalar
from firstlight_kernels.findings import SourceLine
from firstlight_kernels.promotion import Negative

_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_", ast.BitOr: "or_",
    ast.BitXor: "xor", ast.UAdd: "pos", ast.USub: "neg", ast.Invert: "invert", ast.Not: "negated",
}  # fmt: skip
_COMPARISONS: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not",
}  # fmt: skip
#: What is the same whether threads that take no part compute it, too.
_HARMLESS = (ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop,
             ast.expr_context)  # fmt: skip


class Unsupported(Exception):
    """What keeps a kernel from running in lockstep."""

    def __init__(self, reason: str, line: SourceLine | None = None) -> None:
        super().__init__(f"{reason} ({line})" if line else reason)
        self.reason, self.line = reason, line


@dataclass
class MaskedCode:
    """What a function is translated to."""

    code: CodeType
    constants: dict[str, Any]  # by their names in the code
    outside: dict[str, tuple[tuple[str, ...], SourceLine]]  # what is looked up: ``cuda.threadIdx.x`` and its like
    uses: set[str] = field(default_factory=set)  # the attributes of all that


_TRANSLATED: dict[tuple[CodeType, str, bool], MaskedCode] = {}


def masked_code(function: FunctionType, *, is_kernel: bool) -> MaskedCode:
    """Return the translation of a function, or raise Unsupported."""
    key = function.__code__, function.__code__.co_filename, is_kernel
    if key not in _TRANSLATED:
        _TRANSLATED[key] = _Translator(function, is_kernel).translated()
    return _TRANSLATED[key]


def _definition(function: FunctionType) -> tuple[Sequence[ast.stmt], int]:
    """Return the statements of a function, and how many lines of its file stand before its source."""
    name = function.__name__
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError):
        raise Unsupported(f"the source of {name} cannot be read") from None
    before = function.__code__.co_firstlineno - 1
    found = next((node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)), None)
    if isinstance(found, ast.FunctionDef):
        return found.body, before
    if found and sum(isinstance(node, ast.Lambda) for node in ast.walk(tree)) == 1:
        return [ast.copy_location(ast.Return(found.body), found.body)], before
    raise Unsupported(f"the source of {name} cannot be read")


class Loop(NamedTuple):
    """A loop's names for those who broke out of it, and those who continue; and whether the kernel ends with it."""

    left: str
    again: str
    last: bool


class _Translator:
    def __init__(self, function: FunctionType, is_kernel: bool) -> None:
        self.function, self.is_kernel = function, is_kernel
        code = function.__code__
        self.arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.variables = {*code.co_varnames, *code.co_cellvars}
        self.body, self.before = _definition(function)
        # Of variables that threads have only in one branch its mask: what those of other branches hold does not matter.
        self.homes: dict[str, str] = {}
        self.stores = _stores(self.body) + Counter(self.arguments)
        self.lines: list[tuple[int, str]] = []  # each with the line of the source that it does
        self.line, self.depth, self.made = code.co_firstlineno, 1, 0
        self.target = ""  # the name that the next array gets
        self.constants: dict[object, str] = {}
        self.result = MaskedCode(code, {}, {})
        self.names: dict[tuple[str, ...], str] = {}

    def translated(self) -> MaskedCode:
        code = self.function.__code__
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR):
            raise self.refused("*args, **kwargs or yield", self.body[0])
        self.block(self.body, "m0__", None, last=self.is_kernel)
        self.emit("return result__")
        unset = [name for name in code.co_varnames + code.co_cellvars if name not in self.arguments]
        head = f"def {self.function.__name__.strip('<>')}({', '.join(('m0__', *self.arguments))}):"
        start = head, f"    {' = '.join([*unset, 'result__'])} = unset__"
        lines = [*((code.co_firstlineno, text) for text in start), *self.lines]
        tree = ast.parse("\n".join(text for _, text in lines))
        for node in ast.walk(tree):
            if isinstance(node, ast.expr | ast.stmt | ast.arg):
                node.lineno = node.end_lineno = lines[node.lineno - 1][0]
        module = compile(tree, code.co_filename, "exec")
        self.result.code = next(each for each in module.co_consts if isinstance(each, CodeType))
        return self.result

    # -- Text ----------------------------------------------------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append((self.line, "    " * self.depth + text))

    def new(self, what: str) -> str:
        """Return a name that is not taken."""
        self.made += 1
        return f"{what}{self.made}__"

    def at(self, node: ast.AST) -> SourceLine:
        """Return where something stands in the source."""
        code = self.function.__code__
        return SourceLine(code.co_filename, getattr(node, "lineno", 1) + self.before, code.co_name)

    def refused(self, what: str, node: ast.AST) -> Unsupported:
        return Unsupported(f"{what} in a kernel does not run in lockstep", self.at(node))

    # -- Statements ----------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], mask: str, loop: Loop | None, *, last: bool) -> None:
        """Translate the statements of a block, after the last of which the kernel may be at its end."""
        depth = self.depth
        for statement in body:
            self.line = self.at(statement).line
            self.statement(statement, mask, loop, last=last and statement is body[-1])
            if isinstance(statement, ast.Break | ast.Continue | ast.Return):
                break
            if _leaves(statement) and statement is not body[-1]:
                self.emit(f"if {mask} is not None:")
                self.depth += 1
        self.depth = depth

    def statement(self, node: ast.stmt, mask: str, loop: Loop | None, *, last: bool) -> None:
        match node:
            case ast.Expr(ast.Constant()) | ast.Pass() | ast.AnnAssign(value=None):
                self.emit("pass")
            case ast.Expr(value):
                self.emit(self.expression(value, mask, unused=True))
            case ast.Assign():
                self.assigned(node.targets, node.value, mask)
            case ast.AnnAssign():
                self.assigned([node.target], node.value, mask)
            case ast.AugAssign():
                self.augmented(node, mask)
            case ast.If():
                self.branches(node, mask, loop, last=last)
            case ast.While() | ast.For():
                self.loop(node, mask, last=last)
            case ast.Break() | ast.Continue() if loop:
                gone = loop.left if isinstance(node, ast.Break) else loop.again
                self.emit(f"{gone} = union__({gone}, {mask})")
                if loop.last and isinstance(node, ast.Break):
                    self.emit(f"leave__({mask})")
                self.emit(f"{mask} = None")
            case ast.Return():
                if self.is_kernel:
                    self.emit(f"leave__({mask})")
                elif node.value:
                    self.emit(f"result__ = merge__({mask}, result__, {self.expression(node.value, mask)})")
                self.emit(f"{mask} = None")
            case _:
                raise self.refused(type(node).__name__.lower(), node)

    def assigned(self, targets: list[ast.expr], value: ast.expr | None, mask: str) -> None:
        new, self.target = self.new("new"), getattr(targets[0], "id", "")
        self.emit(f"{new} = {self.expression(value, mask)}")
        for target in targets:
            self.assign(target, new, mask)

    def assign(self, target: ast.expr, value: str, mask: str) -> None:
        match target:
            case ast.Name(id=name):
                home = self.homes.get(name, "m0__")
                merged = "" if mask == home else f" if {mask} is {home} else merge__({mask}, {name}, {value})"
                self.emit(f"{name} = {value}{merged}")
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                names = [self.new("new") for _ in parts]
                self.emit(f"{', '.join(names)}, = elements__({mask}, {value})")
                for part, name in zip(parts, names, strict=True):
                    self.assign(part, name, mask)
            case ast.Subscript():
                array, index = self.expression(target.value, mask), self.expression(target.slice, mask)
                self.emit(f"store__({mask}, {array}, {index}, {value})")
            case ast.Attribute():
                self.emit(f"store__({mask}, {self.expression(target.value, mask)}, {target.attr!r}, {value})")
            case _:
                raise self.refused(type(target).__name__.lower(), target)

    def augmented(self, node: ast.AugAssign, mask: str) -> None:
        operation, new, target = f"{_OPERATORS[type(node.op)]}__", self.new("new"), node.target
        if isinstance(target, ast.Name):
            self.emit(f"{new} = {operation}({target.id}, {self.expression(node.value, mask)})")
            self.assign(target, new, mask)
            return
        array, index = self.new("array"), self.new("index")
        self.emit(f"{array} = {self.expression(target.value, mask)}")
        place = repr(target.attr) if isinstance(target, ast.Attribute) else self.expression(target.slice, mask)
        self.emit(f"{index} = {place}")
        old = f"load__({mask}, {array}, {index})"
        self.emit(f"{new} = {operation}({old}, {self.expression(node.value, mask)})")
        self.emit(f"store__({mask}, {array}, {index}, {new})")

    def branches(self, node: ast.If, mask: str, loop: Loop | None, *, last: bool) -> None:
        yes, no = self.new("m"), self.new("m")
        if node.orelse or last or _leaves(node):
            self.emit(f"{yes}, {no} = split__({mask}, {self.expression(node.test, mask)})")
        else:
            self.emit(f"{yes} = where__({mask}, {self.expression(node.test, mask)})")
        if last and not node.orelse:
            self.emit(f"leave__({no})")
        for name, body in ((yes, node.body), (no, node.orelse)):
            if body:
                self.emit(f"if {name} is not None:")
                self.depth += 1
                if not loop:
                    own = _stores(body)
                    self.homes |= {each: name for each in own if own[each] == self.stores[each]}
                self.block(body, name, loop, last=last)
                self.depth -= 1
        if _leaves(node):
            self.emit(f"{mask} = union__({yes}, {no}, {mask})")

    def loop(self, node: ast.While | ast.For, mask: str, *, last: bool) -> None:
        if node.orelse:
            raise self.refused("a loop with else", node)
        inside, left, again, turns = (self.new(what) for what in ("m", "left", "again", "turns"))
        exits = any(_leaves_loop(statement) for statement in node.body)
        continues = any(_has(statement, ast.Continue, within=(ast.For, ast.While)) for statement in node.body)
        if exits:
            self.emit(f"{left} = None")
        through = f"{self.iterable(node.iter, mask)}, last={last}" if isinstance(node, ast.For) else ""
        self.emit(f"{turns} = Turns__({through})")
        self.emit(f"{inside} = {mask}")
        self.emit(f"while ({inside} := {turns}.{'next' if through else 'turn'}({inside})) is not None:")
        self.depth += 1
        if isinstance(node, ast.For):
            self.assign(node.target, f"{turns}.value", inside)
        else:
            if wait := next((each for each in ast.walk(node.test) if self.is_atomic(each)), None):
                raise self.refused(f"a loop that waits for {ast.unparse(wait)}", wait)
            gone = self.new("m")
            test = self.expression(node.test, inside)
            if exits or last:
                self.emit(f"{inside}, {gone} = split__({inside}, {test})")
                if exits:
                    self.emit(f"{left} = union__({left}, {gone})")
                if last:
                    self.emit(f"leave__({gone})")
            else:
                self.emit(f"{inside} = where__({inside}, {test})")
            self.emit(f"if {inside} is None:")
            self.emit("    break")
        if continues:
            self.emit(f"{again} = None")
        self.block(node.body, inside, Loop(left, again, last), last=False)
        if continues:
            self.emit(f"{inside} = union__({inside}, {again})")
        self.depth -= 1
        if exits:
            self.emit(f"{mask} = union__({left}, {turns}.done, {mask})")

    def is_atomic(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and self.chain(node)[-2:-1] == ("atomic",)

    def iterable(self, node: ast.expr, mask: str) -> str:
        """Translate what a loop goes through; of ``range`` its limits."""
        match node:
            case ast.Call(func=ast.Name(id="range"), keywords=[]) if "range" not in self.variables:
                return ", ".join(self.expression(limit, mask) for limit in node.args)
        return f"items={self.expression(node, mask)}"

    # -- Expressions ---------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr | None, mask: str, *, unused: bool = False) -> str:
        match node:
            case ast.Constant(value=value):
                return self.constant(value)
            case ast.Name(id=name) if name in self.variables:
                return name
            case ast.Name() | ast.Attribute() if chain := self.chain(node):
                return self.outside(chain, node)
            case ast.Attribute():
                return f"attribute__({mask}, {self.expression(node.value, mask)}, {node.attr!r})"
            case ast.Tuple(elts=parts):
                return f"({''.join(f'{self.expression(part, mask)}, ' for part in parts)})"
            case ast.UnaryOp(ast.USub(), ast.Constant(value=int(value))) if 0 < value < 2**63:
                return self.constant(Negative(-value))
            case ast.BinOp() | ast.UnaryOp():
                operands = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.operand]
                return f"{_OPERATORS[type(node.op)]}__({', '.join(self.expression(each, mask) for each in operands)})"
            case ast.Compare():
                return self.comparison(node, mask)
            case ast.BoolOp():
                return self.logic(node.op, node.values, mask)
            case ast.IfExp():
                test = self.expression(node.test, mask)
                yes, no = (self.later(part) for part in (node.body, node.orelse))
                return f"choose__({mask}, {test}, {yes}, {no})"
            case ast.Subscript():
                return f"load__({mask}, {self.expression(node.value, mask)}, {self.expression(node.slice, mask)})"
            case ast.Slice():
                bounds = (node.lower, node.upper, node.step)
                texts = (self.expression(each, mask) if each else "None" for each in bounds)
                return f"slice__({', '.join(texts)})"
            case ast.Call():
                return self.call(node, mask, unused=unused)
            case ast.NamedExpr(target=target) if mask != "m__":
                return f"({target.id} := merge__({mask}, {target.id}, {self.expression(node.value, mask)}))"
        raise self.refused(type(node).__name__.lower(), node or self.body[0])

    def constant(self, value: Any) -> str:
        if value is None or value is Ellipsis or isinstance(value, str):
            return repr(value)
        key = type(value), repr(value)
        if key not in self.constants:
            self.constants[key] = name = f"k{len(self.constants)}__"
            self.result.constants[name] = value if type(value) is Negative else scalar(value)
        return self.constants[key]

    def chain(self, node: ast.expr) -> tuple[str, ...]:
        """Return the names of an attribute of something outside of the function, as of ``cuda.threadIdx.x``."""
        if isinstance(node, ast.Attribute):
            before = self.chain(node.value)
            return (*before, node.attr) if before else ()
        return (node.id,) if isinstance(node, ast.Name) and node.id not in self.variables else ()

    def outside(self, chain: tuple[str, ...], node: ast.AST) -> str:
        if chain not in self.names:
            name = self.names[chain] = self.new(f"{'_'.join(chain)}_")
            self.result.outside[name] = chain, self.at(node)
            self.result.uses |= {*chain}
        return self.names[chain]

    def later(self, node: ast.expr) -> str:
        """Translate what only a part of the threads computes: if all can, they do."""
        if all(isinstance(each, _HARMLESS) for each in ast.walk(node)):
            return self.expression(node, "m0__")
        return f"lambda m__: {self.expression(node, 'm__')}"

    def comparison(self, node: ast.Compare, mask: str) -> str:
        """Translate ``a < b < c`` as ``a < b and b < c``, with one ``b``."""
        part, *others = node.comparators
        left, right = self.expression(node.left, mask), self.expression(part, mask)
        if not others:
            return self.relation(node.ops[0], left, right, part)
        if not isinstance(part, ast.Constant | ast.Name):
            part = ast.copy_location(ast.Name(self.new("middle"), ast.Load()), part)
            self.variables.add(part.id)
            right = f"({part.id} := {right})"
        rest = ast.copy_location(ast.Compare(part, node.ops[1:], others), part)
        return f"both__({mask}, {self.relation(node.ops[0], left, right, part)}, {self.later(rest)})"

    def relation(self, operation: ast.cmpop, left: str, right: str, part: ast.expr) -> str:
        kind = type(operation)
        if kind not in _COMPARISONS:  # `in`, or `not in`
            text = f"contains__({left}, {right})"
            return text if kind is ast.In else f"negated__({text})"
        if isinstance(part, ast.Constant) and isinstance(part.value, bool):  # `is True` is an equation
            kind = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}.get(kind, kind)
        return f"({left} {_COMPARISONS[kind]} {right})"

    def logic(self, operation: ast.boolop, values: list[ast.expr], mask: str) -> str:
        """Translate ``and`` and ``or``."""
        name = "both__" if isinstance(operation, ast.And) else "either__"
        first = self.expression(values[0], mask)
        rest = values[1] if len(values) == 2 else ast.copy_location(ast.BoolOp(operation, values[1:]), values[1])
        return f"{name}({mask}, {first}, {self.later(rest)})"

    def call(self, node: ast.Call, mask: str, *, unused: bool) -> str:
        if any(isinstance(each, ast.Starred) for each in node.args) or any(not each.arg for each in node.keywords):
            raise self.refused("a starred argument", node)
        given = [self.expression(each, mask) for each in node.args]
        given += [f"{each.arg}={self.expression(each.value, mask)}" for each in node.keywords]
        chain = self.chain(node.func)
        if chain:
            function, name = self.outside(chain, node), chain[-1]
            if name == "array" and chain[-2:-1] in (("shared",), ("local",)):
                given.append(f"site={(self.target, self.at(node).line, node.col_offset)!r}")
            if unused and chain[-2:-1] == ("atomic",):
                given.append("unused=True")
            return f"{function}({', '.join((mask, *given))})"
        if isinstance(node.func, ast.Name):
            return f"{node.func.id}({', '.join((mask, *given))})"
        if isinstance(node.func, ast.Attribute):
            array = self.expression(node.func.value, mask)
            return f"method__({', '.join((mask, array, repr(node.func.attr), *given))})"
        raise self.refused("a call of what a call returned", node)


def _stores(body: Sequence[ast.stmt]) -> Counter[str]:
    """Return how often statements assign to each name."""
    nodes = (node for statement in body for node in ast.walk(statement))
    return Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))


def _has(node: ast.AST, kinds: type | tuple[type, ...], within: tuple[type, ...] = ()) -> bool:
    """Return whether a statement is, or holds, one of some kind; not looking into some others."""
    if isinstance(node, kinds):
        return True
    return not isinstance(node, within) and any(_has(each, kinds, within) for each in ast.iter_child_nodes(node))


def _leaves(node: ast.stmt) -> bool:
    """Return whether threads may leave the block of a statement in it."""
    return _has(node, ast.Return) or _has(node, (ast.Break, ast.Continue), within=(ast.For, ast.While))


def _leaves_loop(node: ast.stmt) -> bool:
    """Return whether threads may leave the loop that a statement is in."""
    return _has(node, ast.Return) or _has(node, ast.Break, within=(ast.For, ast.While))
