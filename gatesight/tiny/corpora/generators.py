"""Makers of generated prose and of questions on a passage, in several forms and languages."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from gatesight.tiny.corpora.draft import OWN, Draft, words
from gatesight.tiny.corpora.languages import LANGUAGES, Tongue
from gatesight.tiny.corpora.records import gazetteer, minutes
from gatesight.tiny.corpora.sources import POSTGRESQL, PUBLIC_DOMAIN, WORDNET, Gloss
from gatesight.tiny.corpora.worlds import FIRST, SURNAMES, Passage, sentence, story

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
    for line in re.split(r"(?<=[.!?])(?<!Mr\.)(?<!Mrs\.) ", " ".join(passage.paragraphs)):
        if 60 < len(line) < 220 and line[0].isupper() and not re.search(r'["()]', line):
            pieces = line.split()
            for cut in (len(pieces) // 3, len(pieces) // 2, 2 * len(pieces) // 3):
                question = f"How does the sentence go on: “{' '.join(pieces[:cut])} …”?"
                passage.facts.append((question, f"“… {' '.join(pieces[cut:])}”"))
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
    text = "\n\n".join([passage.title, *passage.paragraphs])
    form = rng.choice([("Question: ", "\nAnswer:"), ("Q: ", "\nA:"), ("", "\n→")])
    parts, before = [], f"{text}\n\n"
    for question, answer in _draw(rng, list(dict.fromkeys(passage.facts)), 60):
        opening = question.split()[:2]
        asked, answered = _form(rng, question, answer, [a for q, a in passage.facts if q.split()[:2] == opening])
        parts.append(f"{before}{form[0]}{asked}{form[1]}")
        before = f" {answered}\n\n"
    return Draft(parts, source, license)


def _draw(rng: random.Random, facts: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """``count`` facts, none of them again before half of the others; nothing of fewer than four."""
    drawn: list[tuple[str, str]] = []
    while len(facts) >= 4 and len(drawn) < count:
        recent = drawn[-(len(facts) // 2) :]
        drawn.append(rng.choice([fact for fact in facts if fact not in recent]))
    return drawn


def _form(rng: random.Random, question: str, answer: str, answers: Sequence[str]) -> tuple[str, str]:
    """The question as it is, with choices, or as one to be confirmed or denied."""
    kind = rng.random()
    alike = sorted({a for a in answers if a != answer and len(a) < 50})
    if kind < 0.55 or len(alike) < 3 or len(answer) > 50:
        return question, sentence(answer)
    if kind < 0.8:
        choices = [answer, *rng.sample(alike, 3)]
        rng.shuffle(choices)
        right = choices.index(answer)
        options = " ".join(f"({letter}) {choice}" for letter, choice in zip("abcd", choices, strict=True))
        return f"{question} {options}", f"({'abcd'[right]}) {answer}"
    guess = rng.choice([answer, rng.choice(alike)])
    verdict = "Yes" if guess == answer else "No"
    return f"{question} Is it {_quoted(guess)}?", f"{verdict}, the answer is {_quoted(answer)}."


def _quoted(text: str) -> str:
    return text if text.startswith("“") else f"“{text}”"


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
    ways = [(pair, forward) for pair in chosen for forward in (True, False)]
    for (english, translated), forward in rng.sample(ways, len(ways)):
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
        before = f" {sentence(answer)}\n\n"
    return parts
