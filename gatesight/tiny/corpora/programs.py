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
    uses: str
    """What it calls, as "calls `a` and `b`"; empty if nothing."""
    gives: str
    """What it returns or yields, as "returns `a` or `b`"; empty if that takes too long to say."""


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
    arguments = tuple(a.arg for a in (*node.args.args, *node.args.kwonlyargs) if a.arg != "self")
    return Function(node.name, owner, summary, body, arguments, _uses(node), _gives(node))


def _uses(node: ast.FunctionDef) -> str:
    calls = list(dict.fromkeys(ast.unparse(c.func) for c in ast.walk(node) if isinstance(c, ast.Call)))
    short = [call for call in calls if len(call) < 40][:5]
    return f"calls{'' if short == calls else ', among others,'} {_names(short)}" if short else ""


def _gives(node: ast.FunctionDef) -> str:
    found: dict[str, list[str]] = {"yields": [], "returns": []}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Return) and inner.value is not None:
            found["returns" if isinstance(inner, ast.Return) else "yields"].append(ast.unparse(inner.value))
    verb = "yields" if found["yields"] else "returns"
    values = list(dict.fromkeys(found[verb]))
    if not values:
        return "returns nothing"
    return f"{verb} {_names(values, 'or')}" if len(values) < 5 and max(map(len, values)) < 40 else ""


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
    more = "".join(f" It {said}." for said in (function.uses, function.gives) if said)
    return f"```python\n{function.code}\n```\n\n`{function.name}` {takes}.{more}"


def _names(names: Sequence[str], joint: str = "and") -> str:
    quoted = [f"`{n}`" for n in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {joint} {quoted[-1]}"


def _question(rng: random.Random, function: Function) -> tuple[str, str]:
    name = function.name
    choices = [
        (f"What was `{name}` for?", f"{function.summary[0].upper()}{function.summary[1:]}."),
        (f"Which arguments does `{name}` take?", f"{_names(function.arguments)}." if function.arguments else "None."),
    ]
    if function.uses:
        choices.append((f"What does `{name}` call?", f"It {function.uses}."))
    if function.gives:
        choices.append((f"What does `{name}` {function.gives.split('s ')[0]}?", f"It {function.gives}."))
    return rng.choice(choices)
