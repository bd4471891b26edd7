"""Makers of the corpora of code, from Python's standard library: modules cut at definitions, and tasks solved by its functions."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gatesight.tiny.corpora.draft import Draft, dialogue
from gatesight.tiny.corpora.sources import PSF, definitions

LIBRARY = "Python 3.11 standard library (libpython3.11-stdlib)"


@dataclass(frozen=True)
class Function:
    """A short documented function or method."""

    name: str
    owner: str
    summary: str
    code: str
    arguments: tuple[str, ...]
    calls: tuple[str, ...]
    returns: tuple[str, ...]


def code(rng: random.Random, modules: dict[str, str]) -> Draft:
    """A module from one of its definitions on."""
    name = rng.choice(list(modules))
    lines = modules[name].splitlines(keepends=True)
    starts = [line for line, _ in definitions(modules[name]) if sum(map(len, lines[line:])) > 3500] or [0]
    text = "".join(lines[rng.choice(starts) :])[:9000]
    return Draft(re.findall(r"\s*\S+", text), f"{LIBRARY}: {name}", PSF)


def functions(source: str) -> list[Function]:
    """The documented functions and methods of a module that have 4 to 30 lines."""
    found = []
    for _, node in definitions(source):
        owner = node.name if isinstance(node, ast.ClassDef) else ""
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef) and (function := _function(source, inner, owner)):
                found.append(function)
    return found


def _function(source: str, node: ast.FunctionDef, owner: str) -> Function | None:
    doc = ast.get_docstring(node)
    length = (node.end_lineno or 0) - node.lineno
    if not doc or node.decorator_list or not 4 <= length <= 30:
        return None
    summary = " ".join(doc.split("\n\n")[0].split()).rstrip(".")
    if not 20 < len(summary) < 220 or not summary[0].isupper() or re.search(r"=>|->|^\S+\(", summary):
        return None
    lines = source.splitlines()[node.lineno - 1 : node.end_lineno]
    body = "\n".join(line[node.col_offset :] for line in lines)
    calls = [ast.unparse(c.func) for c in ast.walk(node) if isinstance(c, ast.Call)]
    returns = [ast.unparse(r.value) for r in ast.walk(node) if isinstance(r, ast.Return) and r.value is not None]
    arguments = tuple(a.arg for a in (*node.args.args, *node.args.kwonlyargs) if a.arg != "self")
    return Function(node.name, owner, summary, body, arguments, _short(calls), _short(returns))


def _short(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(t for t in dict.fromkeys(texts) if len(t) < 40)[:5]


def code_instruction(rng: random.Random, library: dict[str, list[Function]]) -> Draft:
    """Tasks from one module, each answered by its function; questions on what was written before come in between."""
    name = rng.choice([n for n, found in library.items() if len(found) >= 5])
    chosen = rng.sample(library[name], min(9, len(library[name])))
    turns, written = [], []
    for function in chosen:
        turns.append((_task(rng, function, name), _solution(function)))
        written.append(function)
        if rng.random() < 0.8:
            turns.append(_question(rng, rng.choice(written)))
    for function in rng.sample(written, len(written)):
        turns.append(_question(rng, function))
        turns.append((f"Show me `{function.name}` once more.", f"```python\n{function.code}\n```"))
    return Draft(dialogue(turns), f"{LIBRARY}: {name}, dialogue generated", PSF)


def _task(rng: random.Random, function: Function, module: str) -> str:
    kind = (
        f"method `{function.name}` of the class `{function.owner}`" if function.owner else f"function `{function.name}`"
    )
    return rng.choice(
        [
            f"Write the Python {kind}. It should do this: {function.summary}.",
            f"In `{module}` I need a {kind}, described as: “{function.summary}.” Please write it.",
            f"Please implement the {kind} ({function.summary}).",
        ]
    )


def _solution(function: Function) -> str:
    takes = f"takes {_names(function.arguments)}" if function.arguments else "takes no further arguments"
    uses = f" It calls {_names(function.calls)}." if function.calls else ""
    gives = f" It returns {_names(function.returns, 'or')}." if function.returns else " It returns nothing."
    return f"```python\n{function.code}\n```\n\n`{function.name}` {takes}.{uses}{gives}"


def _names(names: Sequence[str], joint: str = "and") -> str:
    quoted = [f"`{n}`" for n in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {joint} {quoted[-1]}"


def _question(rng: random.Random, function: Function) -> tuple[str, str]:
    name = function.name
    choices = [
        (f"What was `{name}` for?", f"{function.summary[0].upper()}{function.summary[1:]}."),
        (f"Which arguments does `{name}` take?", f"{_names(function.arguments)}." if function.arguments else "None."),
    ]
    if function.calls:
        choices.append((f"What does `{name}` call?", f"It calls {_names(function.calls)}."))
    if function.returns:
        choices.append((f"What does `{name}` return?", f"It returns {_names(function.returns, 'or')}."))
    return rng.choice(choices)
