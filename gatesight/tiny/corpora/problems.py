"""Maker of mathematical dialogues: problems worked step by step, and follow-ups that change a number and reuse the rest."""

from __future__ import annotations

import random
from fractions import Fraction

from gatesight.tiny.corpora.draft import OWN, Draft, dialogue
from gatesight.tiny.corpora.worlds import FIRST


def math_instruction(rng: random.Random) -> Draft:
    """A chat of problems solved step by step; follow-ups change one number and reuse the rest."""
    turns: list[tuple[str, str]] = []
    for problem in rng.sample([_shopping, _journey, _interest, _mixture, _garden, _work], 6):
        turns += problem(rng, rng.choice(FIRST))
    total = len(turns)
    turns.append(("How many questions have I asked so far, without this one?", f"{total}."))
    return Draft(dialogue(turns), "generated: problems", OWN)


def _share(total: int, count: int) -> str:
    """A division and its reduced result, if that is another."""
    reduced = str(Fraction(total, count))
    return reduced if reduced == f"{total}/{count}" else f"{total}/{count} = {reduced}"


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
            f"in {t} + {u} = {hours} hours.\n\nThe average speed is {_share(total, hours)} km/h.",
        ),
        (
            f"How far is it if the second part takes {delay} hour{'s' if delay > 1 else ''} longer?",
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
            f"There are {x} + {y} = {x + y} litres.\n\nThe strength is {_share(salt, x + y)} per cent.",
        ),
        (
            f"Then {more} litres of pure water are added. How strong is it now?",
            f"The salt stays {salt}; there are {x + y} + {more} = {x + y + more} litres.\n\n"
            f"Now the strength is {_share(salt, x + y + more)} per cent.",
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
