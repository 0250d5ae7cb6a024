"""What a Python source defines, calls and assigns, by full names. One walk over its tree."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from otel_kernel_trace.suspicion.source import Source

_TESTING: Final = re.compile(
    r"_?(?:test|tests|check|verify|bench|benchmark|reference|ref|golden|main|profile|torch|pytorch|numpy|naive"
    r"|get_inputs|get_init_inputs)(?:_\w{0,100})?|\w{1,100}_(?:test|reference|ref|golden|benchmark)"
)
"""Names of functions that are no part of the kernel, unless the kernel calls them."""
_KERNELS_WORD: Final = re.compile(r"triton|cuda|hip|swft|numba|tilelang|ascend|kernel|custom|new")
_ENTRIES: Final = frozenset(
    ("forward", "__call__", "kernel", "run", "solve", "custom_kernel", "entry", "main")
)
_DEVICE_DECORATOR: Final = re.compile(
    r"triton\.(?:jit|runtime\.jit|autotune|heuristics)|(?:.{0,60}\.)?(?:jit|njit|vectorize|guvectorize|stencil|cfunc)"
    r"|tilelang\.\w+|(?:.{0,60}\.)?prim_func|swft\.\w+(?:\.\w+)*|(?:.{0,60}\.)?(?:sub_kernel|elementwise|reduce)"
    r"|cute\.\w+|.{0,60}\.pallas_call"
)
_CALL: Final = re.compile(r"\b([A-Za-z_]\w{0,80}(?:\.\w{1,80}){0,6})\s{0,8}\(")
_IMPORT: Final = re.compile(
    r"^[ \t]{0,80}import[ \t]{1,8}([\w.]{1,120})(?:[ \t]{1,8}as[ \t]{1,8}(\w{1,80}))?", re.MULTILINE
)
_ASSIGNED: Final = re.compile(
    r"^[ \t]{0,80}([A-Za-z_]\w{0,80}(?:\.\w{1,80}){1,6})[ \t]{0,8}=(?!=)", re.MULTILINE
)
_USUAL: Final = {"np": "numpy", "F": "torch.nn.functional", "nn": "torch.nn", "tl": "triton.language"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Called:
    """A call."""

    name: str
    """In full where an import says so; of a method of something unknown it begins with a dot."""
    line: int
    node: ast.Call | None = None


@dataclass(slots=True)
class Defined:
    """A function, with those inside it."""

    node: Function
    owner: str
    """Of a method, its class."""
    is_kernel: bool
    """Whether a compiler for kernels has it."""
    calls: list[Called] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Names and attributes that it reads."""
    products: list[int] = field(default_factory=list)
    """Lines with the operator ``@``."""

    @property
    def name(self) -> str:
        return self.node.name


@dataclass(slots=True)
class Program:
    """A Python source."""

    functions: list[Defined] = field(default_factory=list)
    """In order, methods included."""
    classes: list[ast.ClassDef] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    """All, but those of tests and of what only tests reach."""
    assigned: list[tuple[str, int]] = field(default_factory=list)
    """Full names of attributes that are assigned, with lines."""
    imports: list[tuple[str, int]] = field(default_factory=list)
    """Full names of what is imported, with lines."""
    aliases: dict[str, str] = field(default_factory=dict)
    bindings: dict[str, str] = field(default_factory=dict)
    """By the last word of what is assigned: the full name of what was called for it."""
    reached: set[int] = field(default_factory=set)
    """Ids of functions that more than tests reach."""
    names: set[str] = field(default_factory=set)
    """Names that are read on the host, but not in what only tests reach nor in the function of that name."""
    arguments: set[str] = field(default_factory=set)
    """Of functions on the host, but ``self``."""
    readers: Counter[str] = field(default_factory=Counter)
    """By name, how many functions read it."""

    def full(self, node: ast.expr) -> str:
        """The full name of an expression; empty where it has none."""
        words: list[str] = []
        while isinstance(node, ast.Attribute):
            words.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            words.append(self.aliases.get(node.id, node.id))
        elif words:
            words.append("")
        return ".".join(reversed(words))

    def work(self) -> Iterator[Defined]:
        """Functions on the host that more than tests reach."""
        return (one for one in self.functions if id(one.node) in self.reached and not one.is_kernel)

    def is_entry(self, function: Defined) -> bool:
        """Whether a program calls a function from outside, as far as names tell."""
        readers = self.readers[function.name] - (function.name in function.names)
        return function.name in _ENTRIES or not (readers or function.owner)


def program_of(source: Source) -> Program:
    """What a source says; by expressions where it can't be parsed."""
    tree = source.tree
    if tree is None:
        return _by_expressions(source) if source.is_python else Program()
    program = Program()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                program.imports.append((name.name, node.lineno))
                program.aliases[name.asname or name.name.partition(".")[0]] = (
                    name.name if name.asname else name.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                full = f"{node.module or ''}.{name.name}"
                program.imports.append((full, node.lineno))
                program.aliases[name.asname or name.name] = full
    _Walk(program).body(tree.body, None, "")
    _reach(program)
    return program


_NO_FUNCTION: Final = ast.FunctionDef(
    name="",
    args=ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]),
    body=[],
    decorator_list=[],
    lineno=1,
)
"""What is in no function is in this one."""


class _Walk:
    """Sorts what is in a tree to the functions that it is in. What is run as a script is left out."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.top = Defined(_NO_FUNCTION, "", is_kernel=False)

    def body(self, nodes: list[ast.stmt], function: Defined | None, owner: str) -> None:
        waiting: list[tuple[ast.AST, Defined | None, str]] = [
            (node, function, owner) for node in reversed(nodes)
        ]
        while waiting:
            node, function, owner = waiting.pop()
            if isinstance(node, ast.If) and function is None and _is_main(node.test):
                continue
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [self._program.full(_called(one)) for one in node.decorator_list]
                is_kernel = any(_DEVICE_DECORATOR.fullmatch(name) for name in names)
                function = Defined(node, owner, is_kernel)
                self._program.functions.append(function)
            elif isinstance(node, ast.ClassDef):
                self._program.classes.append(node)
                owner = node.name
            else:
                self._note(node, function)
            waiting += [(one, function, owner) for one in reversed(list(ast.iter_child_nodes(node)))]
        self._program.functions.append(self.top)

    def _note(self, node: ast.AST, function: Defined | None) -> None:
        here = function or self.top
        program = self._program
        if isinstance(node, ast.Call):
            here.calls.append(Called(program.full(node.func), node.lineno, node))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            here.names.add(node.id)
        elif isinstance(node, ast.Attribute):
            here.names.add(node.attr)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            here.products.append(node.lineno)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Attribute):
                    program.assigned.append((program.full(target), node.lineno))
                if isinstance(node.value, ast.Call) and isinstance(target, (ast.Name, ast.Attribute)):
                    word = target.id if isinstance(target, ast.Name) else target.attr
                    program.bindings[word] = program.full(node.value.func)


def _reach(program: Program) -> None:
    """Find what is reached from functions that are no tests."""
    by_name: dict[str, list[Defined]] = {}
    for one in program.functions:
        by_name.setdefault(one.name, []).append(one)
        program.readers.update(one.names)
    waiting = [one for one in program.functions if not _is_test(one)]
    program.reached = {id(one.node) for one in waiting}
    while waiting:
        one = waiting.pop()
        program.calls += one.calls
        if not one.is_kernel:
            program.names |= one.names - {one.name}
            program.arguments |= {argument.arg for argument in one.node.args.args} - {"self", "cls"}
        for name in one.names:
            for other in by_name.get(name, ()):
                if id(other.node) not in program.reached:
                    program.reached.add(id(other.node))
                    waiting.append(other)
    program.calls.sort(key=lambda call: call.line)


def _is_test(function: Defined) -> bool:
    name = function.name.lower()
    is_named_so = bool(_TESTING.fullmatch(name)) and not _KERNELS_WORD.search(name)
    return is_named_so and not function.owner and not function.is_kernel


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _by_expressions(source: Source) -> Program:
    """The same without a tree: calls, imports and assigned attributes alone."""
    code = source.code
    program = Program(aliases=dict(_USUAL))
    lines = _Lines(code)
    for found in _IMPORT.finditer(code):
        program.imports.append((found[1], lines.at(found.start(1))))
        if found[2]:
            program.aliases[found[2]] = found[1]
    for found in _CALL.finditer(code):
        program.calls.append(Called(_expanded(program, found[1]), lines.at(found.start(1))))
    for found in _ASSIGNED.finditer(code):
        program.assigned.append((_expanded(program, found[1]), lines.at(found.start(1))))
    return program


class _Lines:
    """Numbers of lines, for positions that only grow."""

    def __init__(self, text: str) -> None:
        self._text, self._position, self._line = text, 0, 1

    def at(self, position: int) -> int:
        if position < self._position:
            self._position, self._line = 0, 1
        self._line += self._text.count("\n", self._position, position)
        self._position = position
        return self._line


def _expanded(program: Program, name: str) -> str:
    first, dot, rest = name.partition(".")
    return program.aliases.get(first, first) + dot + rest
