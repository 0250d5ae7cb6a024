"""Rules about Python sources."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from otel_kernel_trace.suspicion.libraries import (
    LIBRARY_CALL,
    LIBRARY_LAYER,
    LIBRARY_METHOD,
    is_by_hand,
)
from otel_kernel_trace.suspicion.model import Examined, Suspicion
from otel_kernel_trace.suspicion.program import Called, Defined, Program, program_of

Rule = Callable[[Examined, Program], Iterator[Suspicion]]

_REFERENCE_NAME: Final = re.compile(
    r"(?:.{0,60}[._])?(?:reference|ref|fallback|eager|baseline|native|golden)(?:_\w{1,60})?", re.IGNORECASE
)
_STREAM: Final = re.compile(
    r"(?:torch|cupy)\.(?:cuda|npu)\.(?:Stream|ExternalStream|stream)|torch_npu\.npu\.(?:Stream|stream)"
    r"|(?:numba\.cuda|cuda)\.stream|cupy\.cuda\.Stream|.{0,60}(?:cuda|hip)StreamCreate\w*"
)
_JOINED: Final = ("wait_stream", "wait_event", "synchronize")
_WORKER: Final = re.compile(
    r"threading\.(?:Thread|Timer)|multiprocessing\.(?:Process|Pool)|_thread\.start_new_thread|os\.fork"
    r"|concurrent\.futures\.(?:Thread|Process)PoolExecutor"
)
_AWAITED: Final = ("join", "result", "shutdown", "map", "wait")
_PATCHED: Final = re.compile(
    r"(?:time|timeit|builtins|triton\.testing|numpy\.testing)\.\w+(?:\.\w+)*"
    r"|numpy\.(?:allclose|isclose|array_equal|abs|max|all|any)"
    r"|torch(?:_npu)?\.(?!backends\.|_dynamo\.|_inductor\.|(?:.{0,60}\.)?config\.)\w+(?:\.\w+)*"
)
_SETS_ATTRIBUTE: Final = re.compile(
    r"setattr\(\s{0,8}((?:torch|time|np|numpy|builtins|triton)(?:\.\w{1,60}){0,4})\s{0,8},"
)
_TOLERANCE: Final = re.compile(
    r"(?!self\.|cls\.)(?:.{1,80}\.)(?:rtol|atol|tolerance|__defaults__|__kwdefaults__)", re.IGNORECASE
)
_PEEKS: Final = re.compile(
    r"sys\._getframe|inspect\.(?:currentframe|stack|getouterframes)|gc\.get_(?:objects|referrers|referents)"
    r"|importlib\.import_module|importlib\.util\.spec_from_file_location|runpy\.run_(?:path|module)"
)
_FRAMEWORKS: Final = ("torch", "numpy", "mindspore", "tensorflow", "jax", "paddle")
_CONSTANTS: Final = re.compile(
    r"(?:torch|numpy|cupy)\.(?:zeros|ones|full|zeros_like|ones_like|full_like|tensor|array|asarray)"
)
_UNWRITTEN: Final = re.compile(r"(?:(?:torch|numpy|cupy)\.empty(?:_like|_strided)?|.{0,80}\.new_empty)")
_SUBCLASSED: Final = ("torch.Tensor", "numpy.ndarray", "torch.nn.Parameter")
_KERNEL_MARK: Final = {
    "triton": re.compile(r"\bjit\b"),
    "numba": re.compile(r"\b(?:n?jit|(?:gu)?vectorize|stencil|cfunc)\b"),
    "tilelang": re.compile(r"\b(?:prim_func|jit)\b"),
}


def reference_fallback(given: Examined, program: Program) -> Iterator[Suspicion]:
    """A handler of exceptions that computes the result some other way."""
    helpers = {one.name for one in program.functions if _uses_library(one, program)}
    for function in program.work():
        for node in ast.walk(function.node):
            for handler in node.handlers if isinstance(node, ast.Try) else ():
                line = _fallback_in(handler, program, helpers)
                if line is not None:
                    yield given.at(
                        line,
                        "reference_fallback",
                        "Where the kernel raises, a library or the reference computes the result, so that "
                        "a kernel that never ran may pass.",
                        "high",
                    )


def _fallback_in(handler: ast.ExceptHandler, program: Program, helpers: set[str]) -> int | None:
    for node in ast.walk(handler):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return node.lineno
        if isinstance(node, ast.Call):
            name = program.full(node.func)
            last = name.rpartition(".")[2]
            is_parents = isinstance(node.func, ast.Attribute) and _is_super(node.func.value)
            if _is_library(Called(name, node.lineno, node), program) or last in helpers or is_parents:
                return node.lineno
            if _REFERENCE_NAME.fullmatch(name):
                return node.lineno
    return None


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def library_call(given: Examined, program: Program) -> Iterator[Suspicion]:
    """A library does the work of a kernel that is to be written by hand."""
    if not is_by_hand(given.impl_type):
        return
    layers = {name for name, made in program.bindings.items() if LIBRARY_LAYER.fullmatch(made)}
    reason = f"A library does work that a kernel in {given.impl_type} is to do itself."
    for call in program.calls:
        last = call.name.rpartition(".")[2]
        if _is_library(call, program) or (last in layers and call.name.startswith(("self.", f"{last}"))):
            yield given.at(call.line, "library_call", reason)
    for function in program.work():
        for line in function.products:
            yield given.at(line, "library_call", reason)


def _uses_library(function: Defined, program: Program) -> bool:
    return bool(function.products) or any(_is_library(call, program) for call in function.calls)


def _is_library(call: Called, program: Program) -> bool:
    if LIBRARY_CALL.fullmatch(call.name):
        return True
    # A method of an argument, or of what a method returned: modules have functions of such names, too.
    value, _, method = call.name.rpartition(".")
    if not LIBRARY_METHOD.fullmatch(method) or call.node is None:
        return False
    of = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    return value in program.arguments or (isinstance(of, ast.Call) and isinstance(of.func, ast.Attribute))


def no_kernel(given: Examined, program: Program) -> Iterator[Suspicion]:
    """No kernel is defined in the language in which it is said to be."""
    language = given.impl_type.strip().lower()
    mark = next((mark for name, mark in _KERNEL_MARK.items() if language.startswith(name)), None)
    if mark is None or not given.source.text.strip():
        return
    if not given.source.is_python or not mark.search(given.source.code):
        yield Suspicion(
            "no_kernel", f"The source defines no kernel, and is said to be {language}.", confidence="high"
        )


def unused_kernel(given: Examined, program: Program) -> Iterator[Suspicion]:
    """Kernels are there, and nothing but tests calls one."""
    kernels = [one for one in program.functions if one.is_kernel]
    is_wrapped = any(not one.is_kernel and one.name for one in program.work())
    if kernels and is_wrapped and not any(one.name in program.names for one in kernels):
        yield given.at(
            kernels[0].node.lineno,
            "unused_kernel",
            "Nothing in the source launches the kernel that it defines.",
            "high",
        )
    for name, made in program.bindings.items():
        if made.endswith((".load_inline", "load_inline", "cpp_extension.load")) and name not in program.names:
            line = next((call.line for call in program.calls if call.name == made), 1)
            yield given.at(line, "unused_kernel", "The extension is compiled, and nothing uses it.", "high")


def empty_kernel(given: Examined, program: Program) -> Iterator[Suspicion]:
    """A kernel does nothing."""
    for function in program.functions:
        if function.is_kernel and all(_is_nothing(statement) for statement in function.node.body):
            yield given.at(function.node.lineno, "empty_kernel", "The kernel's body does nothing.", "high")


def _is_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_constant or isinstance(statement, ast.Pass)


def aliased_output(given: Examined, program: Program) -> Iterator[Suspicion]:
    """The result is an argument as it came, or memory that nothing has written."""
    for uses in _entries(program):
        if uses.returns_argument:
            yield given.at(
                uses.returns[0].lineno, "aliased_output", "What is returned is an argument as it came."
            )
        if all(_UNWRITTEN.fullmatch(uses.maker(node)) for node in uses.returns):
            yield given.at(
                uses.returns[0].lineno,
                "aliased_output",
                "What is returned is memory that nothing here has written; an allocator may hand out that of "
                "the reference's output.",
                "high",
            )


def hard_coded(given: Examined, program: Program) -> Iterator[Suspicion]:
    """The result is a constant."""
    for uses in _entries(program):
        if all(_is_constant(uses, node) for node in uses.returns):
            yield given.at(
                uses.returns[0].lineno,
                "hard_coded",
                "What is returned is a constant, whatever the input.",
                "high",
            )
        yield from _by_shape(given, uses.function)


def _is_constant(uses: _Uses, node: ast.Return) -> bool:
    maker = uses.maker(node)
    if maker.rpartition(".")[2] in ("tensor", "array", "asarray"):
        return bool(_CONSTANTS.fullmatch(maker)) and _is_literal(uses.call(node))
    return bool(_CONSTANTS.fullmatch(maker))


def _entries(program: Program) -> Iterator[_Uses]:
    """Functions that a program calls from outside and that return something."""
    for function in program.work():
        if function.name and program.is_entry(function) and (uses := _Uses(function, program)).returns:
            yield uses


def _by_shape(given: Examined, function: Defined) -> Iterator[Suspicion]:
    for node in ast.walk(function.node):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Compare)):
            continue
        sides = [node.test.left, *node.test.comparators]
        is_shape = any(_reads_shape(side) for side in sides) and any(_is_shape(side) for side in sides)
        is_equal = isinstance(node.test.ops[0], (ast.Eq, ast.In))
        last = node.body[-1]
        if is_shape and is_equal and isinstance(last, ast.Return) and not _calls_anything(node.body):
            yield given.at(
                node.lineno, "hard_coded", "For inputs of one shape the result is not computed.", "medium"
            )


def _reads_shape(node: ast.expr) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr in ("shape", "size") for one in ast.walk(node))


def _is_shape(node: ast.expr) -> bool:
    return isinstance(node, (ast.Tuple, ast.List)) and all(isinstance(one, ast.Constant) for one in node.elts)


def _calls_anything(body: list[ast.stmt]) -> bool:
    return any(isinstance(one, ast.Call) for statement in body for one in ast.walk(statement))


def _is_literal(call: ast.Call | None) -> bool:
    if call is None or not call.args:
        return False
    return all(
        isinstance(one, (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.UAdd, ast.Load))
        for one in ast.walk(call.args[0])
    )


class _Uses:
    """What a function does with its names."""

    def __init__(self, function: Defined, program: Program) -> None:
        self.function = function
        self.returns: list[ast.Return] = []
        self._program = program
        self._calls: dict[str, ast.Call] = {}
        """By name, the call that it is bound to."""
        # Reads, but those to return; and how often it is bound.
        self._reads: Counter[str] = Counter()
        self._bound: Counter[str] = Counter()
        for one in ast.walk(function.node):
            if isinstance(one, ast.Return) and one.value is not None:
                self.returns.append(one)
                if isinstance(one.value, ast.Name):
                    self._reads[one.value.id] -= 1
            elif isinstance(one, ast.Name):
                (self._reads if isinstance(one.ctx, ast.Load) else self._bound)[one.id] += 1
            elif isinstance(one, ast.Assign) and isinstance(one.value, ast.Call):
                for target in one.targets:
                    if isinstance(target, ast.Name):
                        self._calls[target.id] = one.value

    @property
    def returns_argument(self) -> bool:
        """Whether all that it returns is an argument with which it does nothing else."""
        arguments = {one.arg for one in self.function.node.args.args} - {"self", "cls"}
        return all(
            isinstance(one.value, ast.Name)
            and one.value.id in arguments
            and not self._reads[one.value.id]
            and not self._bound[one.value.id]
            for one in self.returns
        )

    def call(self, returned: ast.Return) -> ast.Call | None:
        """The call whose value is returned, where nothing else is done with it."""
        if isinstance(returned.value, ast.Call):
            return returned.value
        if not isinstance(returned.value, ast.Name):
            return None
        name = returned.value.id
        is_plain = not self._reads[name] and self._bound[name] == 1
        return self._calls.get(name) if is_plain else None

    def maker(self, returned: ast.Return) -> str:
        """The full name of what is called there; empty for none."""
        call = self.call(returned)
        return "" if call is None else self._program.full(call.func)

    def looked_up(self, name: str) -> str:
        """What a name was taken from by ``get``; empty where it was not."""
        call = self._calls.get(name)
        value, _, method = ("" if call is None else self._program.full(call.func)).rpartition(".")
        return value if method == "get" else ""


def cached_result(given: Examined, program: Program) -> Iterator[Suspicion]:
    """A result that is kept from an earlier call is returned."""
    for function in program.work():
        is_entry = program.is_entry(function)
        if is_entry and function.name and (line := _memoised(function, program)) is not None:
            yield given.at(line, "cached_result", "Results are kept by arguments and returned again.", "high")
        by_address = any(call.name.endswith(".data_ptr") or call.name == "id" for call in function.calls)
        if not (is_entry or by_address):
            continue
        uses = _Uses(function, program)
        for node in ast.walk(function.node):
            if isinstance(node, ast.If) and (kept := _kept_in(node, uses)):
                yield given.at(
                    kept, "cached_result", "A result that is kept from an earlier call is returned.", "high"
                )


def _memoised(function: Defined, program: Program) -> int | None:
    for decorator in function.node.decorator_list:
        name = program.full(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if name in ("functools.lru_cache", "functools.cache") and function.node.args.args:
            return decorator.lineno
    return None


def _kept_in(node: ast.If, uses: _Uses) -> int | None:
    """The line that returns what the test found kept."""
    tested = {ast.dump(one) for one in ast.walk(node.test) if isinstance(one, (ast.Name, ast.Attribute))}
    last = node.body[-1]
    if not isinstance(last, ast.Return) or last.value is None or len(node.body) > 2:
        return None
    value = last.value
    if (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in ("get", "clone")
    ):
        value = value.func.value
    if isinstance(value, ast.Subscript):
        return last.lineno if ast.dump(value.value) in tested and _is_membership(node.test) else None
    if isinstance(value, ast.Name):
        return last.lineno if ast.dump(value) in tested and uses.looked_up(value.id) else None
    is_kept = (
        isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self"
    )
    return last.lineno if is_kept and ast.dump(value) in tested else None


def _is_membership(test: ast.expr) -> bool:
    return any(isinstance(one, ast.In) for one in ast.walk(test))


def other_stream(given: Examined, program: Program) -> Iterator[Suspicion]:
    """Work goes to a stream that the clock may not wait for."""
    if any(call.name.rpartition(".")[2] in _JOINED for call in program.calls):
        return
    method = given.measurement.method
    for call in program.calls:
        if _STREAM.fullmatch(call.name):
            is_synchronised = method is not None and method.synchronised
            yield given.at(
                call.line,
                "other_stream",
                "Work goes to another stream and nothing here waits for it; a clock on the default stream "
                "does not see it.",
                "low" if is_synchronised else "high",
            )


def background_work(given: Examined, program: Program) -> Iterator[Suspicion]:
    """Work goes to a thread or process that nothing waits for."""
    if any(call.name.rpartition(".")[2] in _AWAITED for call in program.calls):
        return
    for call in program.calls:
        if _WORKER.fullmatch(call.name):
            yield given.at(
                call.line,
                "background_work",
                "Work goes to a thread or a process, and nothing here waits for it.",
            )


def patched_checker(given: Examined, program: Program) -> Iterator[Suspicion]:
    """What measures or compares is replaced."""
    reason = "It replaces a function that others use to measure, compare or compute."
    known = {name.partition(".")[0] for name, _ in program.imports}
    for name, line in program.assigned:
        if _PATCHED.fullmatch(name) and name.partition(".")[0] in known:
            yield given.at(line, "patched_checker", reason, "high")
    for number, line_of_code in enumerate(given.source.code.split("\n"), 1):
        if "setattr" in line_of_code and _SETS_ATTRIBUTE.search(line_of_code):
            yield given.at(number, "patched_checker", reason, "high")


def changed_tolerance(given: Examined, program: Program) -> Iterator[Suspicion]:
    """The tolerance of a comparison elsewhere is changed."""
    for name, line in program.assigned:
        if _TOLERANCE.fullmatch(name):
            yield given.at(line, "changed_tolerance", "It changes how exact a result has to be.", "high")


def reads_reference(given: Examined, program: Program) -> Iterator[Suspicion]:
    """It looks at the reference, or at what the checker has in memory."""
    for name, line in program.imports:
        module = name.split(".")[0]
        if module.endswith(tuple(f"_{framework}" for framework in _FRAMEWORKS)) or module in (
            "reference",
            "__main__",
        ):
            yield given.at(line, "reads_reference", "It imports the reference or the checker.", "high")
    for call in program.calls:
        if _PEEKS.fullmatch(call.name):
            yield given.at(
                call.line, "reads_reference", "It can reach the checker's frames, objects or modules.", "low"
            )
    defined = {one.name for one in program.classes}
    for one in program.classes:
        bases = [program.full(base) for base in one.bases]
        overrides = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in one.body)
        if "Model" in bases and not overrides:
            where = "" if "Model" in defined else ", which is not in the source"
            yield given.at(
                one.lineno, "reads_reference", f"It takes forward from the reference's class{where}.", "high"
            )


def copied_reference(given: Examined, program: Program) -> Iterator[Suspicion]:
    """A function is the reference's own."""
    if given.reference.tree is None:
        return
    theirs = {
        body: one.name
        for one in program_of(given.reference).functions
        if (body := _body_of(one)) and not one.name.startswith(("get_", "__init__"))
    }
    for function in program.work():
        if (name := theirs.get(_body_of(function))) is not None:
            yield given.at(
                function.node.lineno, "copied_reference", f"It is the reference's {name}, word for word."
            )


def _body_of(function: Defined) -> str:
    body = [one for one in function.node.body if not _is_nothing(one)] if function.name else []
    return ast.dump(ast.Module(body=body, type_ignores=[])) if any(map(_calls_or_computes, body)) else ""


def _calls_or_computes(statement: ast.stmt) -> bool:
    return any(isinstance(one, (ast.Call, ast.BinOp)) for one in ast.walk(statement))


def lazy_output(given: Examined, program: Program) -> Iterator[Suspicion]:
    """A tensor of its own may compute when it is compared, after the clock has stopped."""
    reason = "A tensor of its own class may compute only when it is compared."
    for one in program.classes:
        if any(program.full(base) in _SUBCLASSED for base in one.bases):
            yield given.at(one.lineno, "lazy_output", reason, "high")
    for call in program.calls:
        if call.name.endswith(("._make_subclass", "._make_wrapper_subclass", "Tensor.__new__")):
            yield given.at(call.line, "lazy_output", reason, "high")


RULES: Final[tuple[Rule, ...]] = (
    reference_fallback,
    library_call,
    no_kernel,
    unused_kernel,
    empty_kernel,
    aliased_output,
    hard_coded,
    cached_result,
    other_stream,
    background_work,
    patched_checker,
    changed_tolerance,
    reads_reference,
    copied_reference,
    lazy_output,
)
