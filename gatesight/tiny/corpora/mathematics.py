"""Makers of the mathematical corpora: derivations whose later steps rest on numbered results, and worked problems with follow-ups."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from gatesight.tiny.corpora.draft import OWN, Draft, dialogue, words
from gatesight.tiny.corpora.worlds import FIRST

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


def _earlier(rng: random.Random, values: dict[str, int]) -> tuple[str, int]:
    name = rng.choice([n for n in values if 0 < values[n] < 500])
    return name, values[name]


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
        (a, va), (b, vb) = _earlier(rng, values), _earlier(rng, values)
        k, name = rng.randint(2, 5), _new(rng, values)
        lines.append(
            f"Put {name} = {k}{a} + {b}. By {_reference(sheet, a)} and {_reference(sheet, b)} this is {k} · {va} + {vb}, so"
        )
        lines.append(_define(sheet, values, name, k * va + vb))
    return "Definitions", lines


def _system(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    (a, va), x, y = _earlier(rng, values), rng.randint(1, 9), rng.randint(1, 9)
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
    equation = f"x² {_signed(b)}x {_signed(c)} = 0"
    lines = [
        f"The equation {equation} has the discriminant ({b})² - 4 · ({c}) = {disc}, whose root is {math.isqrt(disc)}."
    ]
    lines += [f"Its solutions are ({-b} - {math.isqrt(disc)})/2 = {r} and ({-b} + {math.isqrt(disc)})/2 = {s}."]
    lines += [f"Check: the sum is {r + s}, the negative of {b}; the product is {c}. The larger solution is used below:"]
    return "A quadratic equation", [*lines, _define(sheet, values, name, s)]


def _signed(value: int) -> str:
    return f"- {-value}" if value < 0 else f"+ {value}"


def _progression(rng: random.Random, sheet: Sheet, values: dict[str, int]) -> tuple[str, list[str]]:
    (a, va), d, n, name = _earlier(rng, values), rng.randint(2, 9), rng.randint(5, 12), _new(rng, values)
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
    p, q, (a, va) = rng.choice([2, 3, 5]), rng.choice([7, 11, 13]), _earlier(rng, values)
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
    p, q, (a, va), name = rng.randint(2, 5), rng.randint(1, 9), _earlier(rng, values), _new(rng, values)
    small = va % 7
    lines = [
        f"Expand ({p}x + {q})² = {p * p}x² + {2 * p * q}x + {q * q}.",
        f"The remainder of {a} = {va} {_reference(sheet, a)} modulo 7 is {small}.",
    ]
    lines += [
        f"At x = {small} the polynomial is {p * p} · {small * small} + {2 * p * q} · {small} + {q * q}, that is ({p * small + q})²:"
    ]
    return "A polynomial", [*lines, _define(sheet, values, name, (p * small + q) ** 2)]


def math_instruction(rng: random.Random) -> Draft:
    """A chat of problems solved step by step; follow-ups change one number and reuse the rest."""
    turns: list[tuple[str, str]] = []
    for problem in rng.sample([_shopping, _journey, _interest, _mixture, _garden, _work], 6):
        turns += problem(rng, rng.choice(FIRST))
    total = len(turns)
    turns.append(("How many questions have I asked so far, without this one?", f"{total}."))
    return Draft(dialogue(turns), "generated: problems", OWN)


def _shopping(rng: random.Random, name: str) -> list[tuple[str, str]]:
    (x, y), (m, n) = (
        rng.sample("pens apples tickets stamps cups books".split(), 2),
        (rng.randint(3, 12), rng.randint(2, 9)),
    )
    a, b, note = rng.randint(2, 9), rng.randint(3, 15), 300
    cost = m * a + n * b
    less = cost - n * b + (n - 1) * b
    return [
        (
            f"{name} buys {m} {x} at {a} crowns each and {n} {y} at {b} crowns each, and pays with {note} crowns. How much comes back?",
            f"The {x} cost {m} · {a} = {m * a} crowns.\n\nThe {y} cost {n} · {b} = {n * b} crowns.\n\n"
            f"Together that is {m * a} + {n * b} = {cost}.\n\n{name} gets back {note} - {cost} = {note - cost} crowns.",
        ),
        (
            f"And if {name} had taken one fewer of the {y}?",
            f"Then the cost falls by {b}: {cost} - {b} = {less}.\n\n{note} - {less} = {note - less} crowns come back.",
        ),
        (f"What did the {x} alone cost?", f"{m} · {a} = {m * a} crowns, as found in the first step."),
    ]


def _journey(rng: random.Random, name: str) -> list[tuple[str, str]]:
    v, w, t, u = rng.randint(4, 20) * 5, rng.randint(2, 12) * 5, rng.randint(2, 6), rng.randint(2, 5)
    total, hours, delay = v * t + w * u, t + u, rng.randint(1, 3)
    return [
        (
            f"{name} drives {t} hours at {v} km/h and then {u} hours at {w} km/h. How far is that, and what is the average speed?",
            f"First part: {t} · {v} = {v * t} km.\n\nSecond part: {u} · {w} = {w * u} km.\n\nTotal: {v * t} + {w * u} = {total} km "
            f"in {t} + {u} = {hours} hours.\n\nThe average speed is {total}/{hours} = {Fraction(total, hours)} km/h.",
        ),
        (
            f"How far is it if the second part takes {delay} hours longer?",
            f"The first part stays {v * t} km.\n\nThe second becomes {u + delay} · {w} = {w * (u + delay)} km.\n\nTotal: {total + w * delay} km.",
        ),
    ]


def _interest(rng: random.Random, name: str) -> list[tuple[str, str]]:
    sum_, rate = rng.randint(2, 40) * 10000, rng.choice([2, 5, 10, 20])
    first = sum_ * rate // 100
    second = Fraction((sum_ + first) * rate, 100)
    return [
        (
            f"{name} puts {sum_} crowns in a bank at {rate}% a year. What is there after two years, with interest on interest?",
            f"Year 1: {rate}% of {sum_} is {first}, so there are {sum_ + first}.\n\nYear 2: {rate}% of {sum_ + first} is {second}.\n\n"
            f"After two years there are {sum_ + first} + {second} = {sum_ + first + second} crowns.",
        ),
        (
            "And without interest on interest?",
            f"Then each year brings {first}, and there are {sum_} + 2 · {first} = {sum_ + 2 * first} crowns, "
            f"which is {second - first} fewer.",
        ),
    ]


def _mixture(rng: random.Random, name: str) -> list[tuple[str, str]]:
    x, y, a, b = rng.randint(2, 9), rng.randint(2, 9), rng.randint(5, 30), rng.randint(31, 80)
    salt, more = x * a + y * b, rng.randint(1, 6)
    return [
        (
            f"{name} mixes {x} litres of {a}% brine with {y} litres of {b}% brine. How strong is the mixture?",
            f"Counted in hundredths of a litre, the salt is {x} · {a} + {y} · {b} = {x * a} + {y * b} = {salt}.\n\n"
            f"There are {x} + {y} = {x + y} litres.\n\nThe strength is {salt}/{x + y} = {Fraction(salt, x + y)} per cent.",
        ),
        (
            f"Then {more} litres of pure water are added. How strong is it now?",
            f"The salt stays {salt}; there are {x + y} + {more} = {x + y + more} litres.\n\n"
            f"{salt}/{x + y + more} = {Fraction(salt, x + y + more)} per cent.",
        ),
    ]


def _garden(rng: random.Random, name: str) -> list[tuple[str, str]]:
    w, ratio, path = rng.randint(4, 30), rng.randint(2, 5), rng.randint(1, 3)
    length = w * ratio
    outer = (w + 2 * path) * (length + 2 * path)
    return [
        (
            f"{name}'s garden is {ratio} times as long as it is wide, and its fence is {2 * (w + length)} metres long. What is its area?",
            f"Let the width be w; the length is {ratio}w.\n\nThe fence is 2(w + {ratio}w) = {2 * (1 + ratio)}w = {2 * (w + length)}, so w = {w}.\n\n"
            f"The length is {ratio} · {w} = {length}, and the area {w} · {length} = {w * length} square metres.",
        ),
        (
            f"A path {path} metres wide is laid around the outside. What is the area of the path?",
            f"With the path the sides are {w} + {2 * path} = {w + 2 * path} and {length} + {2 * path} = {length + 2 * path}.\n\n"
            f"Together: {w + 2 * path} · {length + 2 * path} = {outer}.\n\nThe path alone: {outer} - {w * length} = {outer - w * length} square metres.",
        ),
    ]


def _work(rng: random.Random, name: str) -> list[tuple[str, str]]:
    a, b = rng.sample([3, 4, 5, 6, 8, 10, 12, 15], 2)
    other, rate = rng.choice([n for n in FIRST if n != name]), Fraction(1, a) + Fraction(1, b)
    return [
        (
            f"{name} paints a hall in {a} hours, {other} in {b}. How long do they need together?",
            f"In an hour {name} paints 1/{a} and {other} 1/{b} of the hall.\n\nTogether that is 1/{a} + 1/{b} = {rate}.\n\n"
            f"They need 1 : ({rate}) = {1 / rate} hours.",
        ),
        (
            f"{other} leaves after one hour. How long does {name} still need?",
            f"After an hour {rate} is done and 1 - {rate} = {1 - rate} is left.\n\n{name} paints 1/{a} an hour and needs "
            f"{(1 - rate) * a} hours more.",
        ),
    ]
