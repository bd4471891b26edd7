"""Maker of mathematical text: derivations whose later steps rest on earlier results, named by their numbers."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from gatesight.tiny.corpora.draft import OWN, Draft, words

Sheet = list[str]
"""The numbered results of a text so far, each a statement such as ``a = 7``."""


def math_text(rng: random.Random) -> Draft:
    """Sections of a text book; each derives results, numbers them and uses earlier ones by their numbers."""
    sheet: Sheet = []
    values: dict[str, int] = {}
    out = [rng.choice(["Worked derivations", "Notes on calculation", "Lecture notes", "A chain of exercises, solved"])]
    sections = [_definitions, _system, _euclid, _quadratic, _progression, _averages, _divisors, _polynomial]
    order = [_definitions, *rng.sample(sections, len(sections)), *rng.sample(sections, len(sections))]
    for number, section in enumerate(order, 1):
        title, lines = section(rng, sheet, values)
        out.append(f"\n{number}. {title}\n" + "\n".join(lines))
    return Draft(words("\n".join(out)), "generated: derivations", OWN)


def _number(sheet: Sheet, statement: str) -> str:
    sheet.append(statement)
    return f"{statement}    ({len(sheet)})"


def _earlier(rng: random.Random, values: dict[str, int], count: int = 1) -> list[tuple[str, int]]:
    return rng.sample([(name, value) for name, value in values.items() if 0 < value < 500], count)


def _new(rng: random.Random, values: dict[str, int]) -> str:
    letters = [c for c in "abcdefghkmnpqrstuvwz" if c not in values]
    return rng.choice(letters) if letters else f"a_{len(values)}"


def _reference(sheet: Sheet, name: str) -> str:
    return next(f"({i})" for i, s in enumerate(sheet, 1) if s.startswith(f"{name} ="))


def _define(sheet: Sheet, values: dict[str, int], name: str, value: int) -> str:
    values[name] = value
    return _number(sheet, f"{name} = {value}")


def _definitions(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    lines = []
    for _ in range(2):
        name, value = _new(rng, values), rng.randint(2, 12)
        lines.append(f"Let {_define(sheet, values, name, value)}")
    for _ in range(rng.randint(2, 3)):
        (a, va), (b, vb) = _earlier(rng, values, 2)
        k, name = rng.randint(2, 5), _new(rng, values)
        lines.append(
            f"Put {name} = {k}{a} + {b}. By {_reference(sheet, a)} and {_reference(sheet, b)} this is {k} · {va} + {vb}, so"
        )
        lines.append(_define(sheet, values, name, k * va + vb))
    return "Definitions", lines


def _system(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    [(a, va)], x, y = _earlier(rng, values), rng.randint(1, 9), rng.randint(1, 9)
    p, q = rng.randint(2, 6), rng.randint(2, 6)
    s, t = p * x + y, x + q * y
    name = _new(rng, values)
    lines = [
        f"Solve {p}x + y = {s} and x + {q}y = {t}.",
        f"From the first equation y = {s} - {p}x. Put this into the second:",
    ]
    lines += [f"x + {q}({s} - {p}x) = {t}", f"{q * s} - {p * q - 1}x = {t}", f"{p * q - 1}x = {q * s - t}", f"x = {x}"]
    lines += [
        f"and therefore y = {s} - {p} · {x} = {y}. We call {name} the product xy plus {a} of {_reference(sheet, a)}: {x * y} + {va}."
    ]
    return "Two equations", [*lines, _define(sheet, values, name, x * y + va)]


def _euclid(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    g = rng.randint(2, 15)
    m, n = g * rng.randint(20, 60), g * rng.randint(5, 19)
    lines, a, b = [f"To find the greatest common divisor of {m} and {n}, divide again and again:"], m, n
    while b:
        lines.append(f"{a} = {a // b} · {b} + {a % b}")
        a, b = b, a % b
    name = _new(rng, values)
    lines.append(
        f"The last remainder that is not 0 is {a}; hence gcd({m}, {n}) = {a} and lcm({m}, {n}) = {m} · {n} / {a} = {m * n // a}. Let"
    )
    return "The algorithm of Euclid", [*lines, _define(sheet, values, name, a)]


def _quadratic(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    r, s = rng.randint(-9, 9), rng.randint(1, 9)
    r, s = min(r, s), max(r, s)
    b, c, name = -(r + s), r * s, _new(rng, values)
    disc = b * b - 4 * c
    equation = f"x² {_signed(b)}x {_signed(c)} = 0".replace(" 1x", " x").replace("+ 0x ", "").replace(" + 0 =", " =")
    lines = [
        f"The equation {equation} has the discriminant ({b})² - 4 · ({c}) = {disc}, whose root is {math.isqrt(disc)}."
    ]
    lines += [f"Its solutions are ({-b} - {math.isqrt(disc)})/2 = {r} and ({-b} + {math.isqrt(disc)})/2 = {s}."]
    lines += [f"Check: the sum is {r + s}, the negative of {b}; the product is {c}. The larger solution is used below:"]
    return "A quadratic equation", [*lines, _define(sheet, values, name, s)]


def _signed(value: int) -> str:
    return f"- {-value}" if value < 0 else f"+ {value}"


def _progression(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    [(a, va)], d, n, name = _earlier(rng, values), rng.randint(2, 9), rng.randint(5, 12), _new(rng, values)
    last = va + (n - 1) * d
    terms = ", ".join(str(va + i * d) for i in range(4))
    lines = [
        f"An arithmetic progression begins with {a} = {va} from {_reference(sheet, a)} and has the difference {d}: {terms}, …"
    ]
    lines += [
        f"Its term number {n} is {va} + {n - 1} · {d} = {last}.",
        f"The sum of the first {n} terms is {n}({va} + {last})/2:",
    ]
    return "A progression", [*lines, _define(sheet, values, name, n * (va + last) // 2)]


def _averages(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    known = rng.sample(list(values), min(3, len(values)))
    data = [values[n] for n in known] + [rng.randint(1, 40) for _ in range(4)]
    data.append((-sum(data)) % (len(data) + 1) + (len(data) + 1))
    named = ", ".join(f"{n} {_reference(sheet, n)}" for n in known)
    mean, ordered, name = sum(data) // len(data), sorted(data), _new(rng, values)
    middle = Fraction(ordered[(len(data) - 1) // 2] + ordered[len(data) // 2], 2)
    lines = [f"Take the numbers {', '.join(map(str, data))}, of which the first are {named}."]
    lines += [f"In order they are {', '.join(map(str, ordered))}; the median is {middle}."]
    lines += [f"Their sum is {sum(data)}, and there are {len(data)} of them, so the mean is {sum(data)}/{len(data)}:"]
    return "Mean and median", [*lines, _define(sheet, values, name, mean)]


def _divisors(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    p, q, [(a, va)] = rng.choice([2, 3, 5]), rng.choice([7, 11, 13]), _earlier(rng, values)
    i, name = rng.randint(2, 4), _new(rng, values)
    n, found = p**i * q, sorted(d * e for d in (p**k for k in range(i + 1)) for e in (1, q))
    lines = [
        f"Since {n} = {p}^{i} · {q}, it has ({i} + 1)(1 + 1) = {len(found)} divisors: {', '.join(map(str, found))}."
    ]
    lines += [
        f"Their sum is {sum(found)}. Divided by {va}, which is {a} by {_reference(sheet, a)}, the sum leaves the remainder"
    ]
    return "Divisors", [*lines, _define(sheet, values, name, sum(found) % va)]


def _polynomial(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    p, q, [(a, va)], name = rng.randint(2, 5), rng.randint(1, 9), _earlier(rng, values), _new(rng, values)
    small = va % 7
    lines = [
        f"Expand ({p}x + {q})² = {p * p}x² + {2 * p * q}x + {q * q}.",
        f"The remainder of {a} = {va} {_reference(sheet, a)} modulo 7 is {small}.",
    ]
    lines += [
        f"At x = {small} the polynomial is {p * p} · {small * small} + {2 * p * q} · {small} + {q * q}, that is ({p * small + q})²:"
    ]
    return "A polynomial", [*lines, _define(sheet, values, name, (p * small + q) ** 2)]
