"""Makers of the corpora of generated text: prose, questions on a passage in several forms and languages, and dialogues on records."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from gatesight.tiny.corpora.draft import OWN, Draft, dialogue, words
from gatesight.tiny.corpora.languages import LANGUAGES, Tongue
from gatesight.tiny.corpora.records import gazetteer, minutes
from gatesight.tiny.corpora.sources import POSTGRESQL, PUBLIC_DOMAIN, WORDNET, Gloss
from gatesight.tiny.corpora.worlds import FIRST, SURNAMES, TRADES, Passage, story, town

TELLERS: tuple[Callable[[random.Random, int], Passage], ...] = (story, gazetteer, minutes)


def synthetic_prose(rng: random.Random) -> Draft:
    """A story, a gazetteer or minutes, as plain text."""
    teller = rng.choice([story, story, gazetteer, minutes])
    passage = teller(rng, 5200)
    return Draft(words("\n\n".join([passage.title, *passage.paragraphs])), f"generated: {teller.__name__}", OWN)


def glossary(rng: random.Random, glosses: Sequence[Gloss], size: int) -> Passage:
    """Definitions with examples, and questions from word to meaning and back."""
    passage = Passage("From the Glossary")
    seen: set[str] = set()
    while sum(map(len, passage.paragraphs)) < size:
        gloss = rng.choice(glosses)
        if gloss.words[0] in seen:
            continue
        seen.add(gloss.words[0])
        also = f" (also: {', '.join(gloss.words[1:3])})" if len(gloss.words) > 1 else ""
        passage.paragraphs.append(f"{gloss.words[0]}{also}: {gloss.definition}. For example: “{gloss.examples[0]}”.")
        passage.facts += [
            (f"What does “{gloss.words[0]}” mean here?", gloss.definition),
            (f"Which word is explained as “{gloss.definition}”?", gloss.words[0]),
            (f"Which example is given for “{gloss.words[0]}”?", f"“{gloss.examples[0]}”"),
        ]
    return passage


def cloze(rng: random.Random, title: str, paragraphs: Sequence[str], size: int) -> Passage:
    """Consecutive paragraphs of a novel, and sentences of theirs to complete."""
    start = rng.randrange(len(paragraphs) - 40)
    passage = Passage(f"From {title}, by Jane Austen")
    for paragraph in paragraphs[start:]:
        passage.paragraphs.append(paragraph)
        if sum(map(len, passage.paragraphs)) > size:
            break
    for sentence in re.split(r"(?<=[.!?])(?<!Mr\.)(?<!Mrs\.) ", " ".join(passage.paragraphs)):
        if 60 < len(sentence) < 220 and sentence[0].isupper() and not re.search(r'["()]', sentence):
            pieces = sentence.split()
            half = len(pieces) // 2
            question = f"How does the sentence go on: “{' '.join(pieces[:half])} …”?"
            passage.facts.append((question, f"“… {' '.join(pieces[half:])}”"))
    return passage


def diverse_qa(rng: random.Random, glosses: Sequence[Gloss], novels: dict[str, list[str]]) -> Draft:
    """A passage, then short questions, yes-or-no questions, multiple choice and sentences to complete."""
    kind, size = rng.choice(["story", "gazetteer", "minutes", "glossary", "cloze"]), rng.randint(1300, 1900)
    source, license = f"generated: {kind}", OWN
    if kind == "glossary":
        passage, source, license = (
            glossary(rng, glosses, size),
            "WordNet 3.0 (wordnet-base), questions generated",
            WORDNET,
        )
    elif kind == "cloze":
        title = rng.choice(list(novels))
        passage = cloze(rng, title, novels[title], size)
        source, license = f"Jane Austen, {title} (r-cran-janeaustenr), questions generated", PUBLIC_DOMAIN
    else:
        passage = {"story": story, "gazetteer": gazetteer, "minutes": minutes}[kind](rng, size)
    text, facts = "\n\n".join([passage.title, *passage.paragraphs]), list(dict.fromkeys(passage.facts))
    rng.shuffle(facts)
    while len(facts) < 40:  # asked again in another form
        facts += rng.sample(facts, len(facts))
    form = rng.choice([("Question: ", "\nAnswer:"), ("Q: ", "\nA:"), ("", "\n→")])
    parts, before = [], f"{text}\n\n"
    for question, answer in facts:
        kind = question.split()[:2]
        asked, answered = _form(rng, question, answer, [a for q, a in passage.facts if q.split()[:2] == kind])
        parts.append(f"{before}{form[0]}{asked}{form[1]}")
        before = f" {answered}\n\n"
    return Draft(parts, source, license)


def _form(rng: random.Random, question: str, answer: str, answers: Sequence[str]) -> tuple[str, str]:
    """The question as it is, with choices, or as one to be confirmed or denied."""
    kind = rng.random()
    alike = sorted({a for a in answers if a != answer and len(a) < 50})
    if kind < 0.55 or len(alike) < 3 or len(answer) > 50:
        return question, _sentence(answer)
    if kind < 0.8:
        choices = [answer, *rng.sample(alike, 3)]
        rng.shuffle(choices)
        right = choices.index(answer)
        options = " ".join(f"({letter}) {choice}" for letter, choice in zip("abcd", choices, strict=True))
        return f"{question} {options}", f"({'abcd'[right]}) {answer}"
    guess = rng.choice([answer, rng.choice(alike)])
    verdict = "Yes" if guess == answer else "No"
    return f"{question} Is it “{guess}”?", f"{verdict}, the answer is “{answer}”."


def _sentence(answer: str) -> str:
    return f"{answer[0].upper()}{answer[1:]}" + ("" if answer.endswith((".", "!", "?", "”")) else ".")


def translated_qa(rng: random.Random, catalogues: dict[str, list[tuple[str, str]]]) -> Draft:
    """Questions in German, French, Spanish or Italian: on translated sentences, or on people described in that language."""
    code = rng.choice(list(LANGUAGES))
    tongue = LANGUAGES[code]
    if rng.random() < 0.5:
        parts = _translations(rng, tongue, catalogues[code])
        return Draft(
            parts, f"PostgreSQL 15 message catalogue, {tongue.name} (postgresql-15), questions generated", POSTGRESQL
        )
    return Draft(_register(rng, tongue), f"generated: {tongue.name} register", OWN)


def _translations(rng: random.Random, tongue: Tongue, pairs: Sequence[tuple[str, str]]) -> list[str]:
    start = rng.randrange(len(pairs) - 60)
    chosen = rng.sample(pairs[start : start + 60], 9)  # neighbours share words
    text = "\n".join(f"{english}\n{translated}\n" for english, translated in chosen)
    parts, before = [], f"{tongue.heading}\n\n{text}\n"
    for english, translated in rng.choices(chosen, k=14):
        forward = rng.random() < 0.5
        question = (tongue.into if forward else tongue.back).format(english if forward else translated)
        parts.append(f"{before}{question}\n–")
        before = f" {translated if forward else english}\n\n"
    return parts


def _register(rng: random.Random, tongue: Tongue) -> list[str]:
    people = [f"{a} {b}" for a, b in zip(rng.sample(FIRST, 9), rng.sample(SURNAMES, 9), strict=True)]
    lines, facts = [], []
    for name in people:
        city, year, thing, day = (
            rng.choice(tongue.cities),
            str(rng.randint(1931, 2004)),
            rng.choice(tongue.things),
            rng.choice(tongue.days),
        )
        lines.append(rng.choice(tongue.lines).format(name=name, city=city, year=year, thing=thing, day=day))
        facts += [(q.format(name=name), a) for q, a in zip(tongue.questions, (city, year, thing, day), strict=True)]
    parts, before = [], "\n".join([tongue.title, *lines, "", ""])
    for question, answer in rng.sample(facts, len(facts)):
        parts.append(f"{before}{question}\n–")
        before = f" {_sentence(answer)}\n\n"
    return parts


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
        where = next((p for p in passage.paragraphs if answer in p), "")
        quote = next((s for s in re.split(r"(?<=\.) ", where) if answer in s), "")
        reason = f" The text says: “{quote}”" if quote and rng.random() < 0.4 else ""
        turns.append((question, f"{_sentence(answer)}{reason}"))
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
