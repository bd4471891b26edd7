"""Maker of general dialogues: the user hands over records or a text and comes back to them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from gatesight.tiny.corpora.draft import OWN, Draft, dialogue
from gatesight.tiny.corpora.generators import TELLERS
from gatesight.tiny.corpora.sources import WORDNET, Gloss
from gatesight.tiny.corpora.worlds import FIRST, SURNAMES, TRADES, sentence, town


def general_instruction(rng: random.Random, glosses: Sequence[Gloss]) -> Draft:
    """A chat in which the user hands over records or a text and comes back to them with questions."""
    kind = rng.choice(["contacts", "shop", "text", "glossary"])
    if kind == "glossary":
        return Draft(dialogue(_lesson(rng, glosses)), "WordNet 3.0 (wordnet-base), dialogue generated", WORDNET)
    turns = {"contacts": _contacts, "shop": _shop, "text": _reading}[kind](rng)
    return Draft(dialogue(turns), f"generated: {kind} dialogue", OWN)


def _contacts(rng: random.Random) -> list[tuple[str, str]]:
    count = rng.randint(11, 14)
    rows = [
        (f"{a} {b}", rng.choice(TRADES), town(rng), f"{rng.randint(200, 999)}-{rng.randint(1000, 9999)}")
        for a, b in zip(rng.sample(FIRST, count), rng.sample(SURNAMES, count), strict=True)
    ]
    listing = "\n".join(f"{name}, {trade}, {place}, phone {phone}" for name, trade, place, phone in rows)
    turns = [
        (
            f"Here is my address book. Please keep it in mind.\n{listing}",
            f"I have noted all {count} entries. What would you like to know?",
        )
    ]
    for name, trade, place, phone in rng.sample(rows, count):
        turns.append(
            rng.choice(
                [
                    (f"What is {name}'s phone number?", f"{name} can be reached at {phone}."),
                    (f"Where does {name} live, and what is the trade?", f"{name} lives in {place}; trade: {trade}."),
                    (f"Who has the number {phone}?", f"That is the number of {name}, {trade} in {place}."),
                    (
                        f"Write a short note to {name} asking for a visit.",
                        f"Dear {name},\n\nI hope that all is well in {place}. Could you visit me next week? As a {trade} you will know "
                        f"what to do. I shall call {phone} to fix the day.\n\nKind regards",
                    ),
                    (
                        f"Who else is a {trade}?",
                        _list([n for n, t, _, _ in rows if t == trade and n != name], "Nobody else in your list."),
                    ),
                ]
            )
        )
    return turns


def _list(names: Sequence[str], nobody: str) -> str:
    return f"{', '.join(names)}." if names else nobody


def _shop(rng: random.Random) -> list[tuple[str, str]]:
    goods = rng.sample(
        "candles ropes paintbrushes nails soaps lamps brooms buckets gloves ladders hinges tiles screws notebooks hammers baskets".split(),
        12,
    )
    stock = {
        item: (rng.randint(3, 90), rng.randint(2, 40), f"shelf {rng.choice('ABCDEF')}{rng.randint(1, 9)}")
        for item in goods
    }
    listing = "\n".join(
        f"- {item}: {n} in stock, {price} crowns each, {shelf}" for item, (n, price, shelf) in stock.items()
    )
    turns = [(f"This is the stock list of my shop:\n{listing}\nAnswer my questions from it.", "Certainly. Ask away.")]
    for item in rng.sample(goods, 12):
        n, price, shelf = stock[item]
        sold, kind = rng.randint(1, n), rng.random()
        if kind < 0.3:
            turns.append(
                (f"Where do I find the {item} and what do they cost?", f"The {item}: {shelf}, {price} crowns each.")
            )
        elif kind < 0.6:
            stock[item] = (n - sold, price, shelf)
            turns.append(
                (
                    f"I sold {sold} {item} today.",
                    f"Noted: {n} - {sold} = {n - sold} left, and {sold} x {price} = {sold * price} crowns.",
                )
            )
        elif kind < 0.8:
            few = [f"{i} ({m})" for i, (m, _, _) in stock.items() if m < n]
            turns.append(
                (f"Of what do we have fewer than of {item}?", _list(few, "Of nothing.") + f" Of {item} there are {n}.")
            )
        else:
            turns.append(
                (
                    f"What are all the {item} worth?",
                    f"There are {n} at {price} crowns: {n} x {price} = {n * price} crowns.",
                )
            )
    return turns


def _reading(rng: random.Random) -> list[tuple[str, str]]:
    passage = rng.choice(TELLERS)(rng, 1500)
    text, facts = "\n".join(passage.paragraphs), list(dict.fromkeys(passage.facts))
    turns = [(f"Read this text, called “{passage.title}”:\n\n{text}", "I have read it. What would you like to know?")]
    for question, answer in rng.sample(facts, len(facts)) + rng.sample(facts, len(facts)):
        name = next(iter(re.findall(r"(?<= )[A-Z]\w+", question)), None)
        lines = re.split(r"(?<=\.) ", " ".join(passage.paragraphs))
        quote = next((line for line in lines if name and name in line and answer in line), "")
        reason = f" The text says: “{quote}”" if quote and rng.random() < 0.4 else ""
        turns.append((question, f"{sentence(answer)}{reason}"))
    return turns


def _lesson(rng: random.Random, glosses: Sequence[Gloss]) -> list[tuple[str, str]]:
    known: list[Gloss] = []
    turns = []
    for gloss in rng.sample(glosses, 24):
        word = gloss.words[0]
        turns.append(
            (
                rng.choice(
                    [f"What does “{word}” mean?", f"Explain the word “{word}”.", f"And “{word}”?"][: 3 if known else 2]
                ),
                f"“{word}” means: {gloss.definition}. You could say: “{gloss.examples[0]}”.",
            )
        )
        known.append(gloss)
        if len(known) > 3 and rng.random() < 0.6:
            old = rng.choice(known[:-1])
            turns.append(
                rng.choice(
                    [
                        (f"Which of the words so far means “{old.definition}”?", f"That was “{old.words[0]}”."),
                        (f"Give me the example of “{old.words[0]}” again.", f"“{old.examples[0]}”."),
                        ("List the words in order.", ", ".join(g.words[0] for g in known) + "."),
                    ]
                )
            )
    return turns
