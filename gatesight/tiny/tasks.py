"""Generated documents: questions whose answers stand in the context, and texts that need a running state.

A document is token ids and, for each, the weight of its prediction in the loss: random facts cannot be predicted and hardly count, answers
count most. Retrieval documents hold more facts than a recurrent state can carry, so that they need attention; running-state documents
are followed best by a memory that is updated as the text goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gatesight.tiny.architecture import END_OF_TEXT
from gatesight.tiny.text import Library, Split

RANDOM, FRAME, FILLER, TEXT, ANSWER = 0.1, 0.3, 0.5, 1.0, 4.0
"""Weights: random facts, the wording around questions, text around facts, text, answers."""

USER, ASSISTANT, END = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"


@dataclass
class Document:
    """Token ids with loss weights; ``answers`` are the spans that must be predicted exactly."""

    library: Library
    ids: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, content: str | Sequence[int], weight: float = TEXT) -> Document:
        """Append text or ids; text of ``ANSWER`` weight becomes an answer span."""
        ids = self.library.encode(content) if isinstance(content, str) else list(content)
        if weight == ANSWER:
            self.answers.append((len(self.ids), len(self.ids) + len(ids)))
        self.ids += ids
        self.weights += [weight] * len(ids)
        return self


@dataclass(frozen=True)
class Scribe:
    """What a generator writes with: a source of randomness, a library and which part of it, a length, a number of questions."""

    rng: random.Random
    library: Library
    split: Split
    length: int
    questions: int = 4

    def page(self) -> Document:
        return Document(self.library)

    def pick(self, items: Sequence[str]) -> str:
        return self.rng.choice(items)

    def word(self) -> str:
        return self.rng.choice(self.library.facts[self.split].words)

    def key(self) -> str:
        """A name to ask by: words joined in some way, or a hexadecimal code."""
        kind = self.rng.random()
        if kind < 0.5:
            return f"{self.word()}-{self.word()}"
        if kind < 0.7:
            return self.word()
        if kind < 0.85:
            return f"{self.rng.getrandbits(32):08x}"
        return f"{self.word()}_{self.rng.randint(0, 99)}"

    def keys(self, count: int) -> list[str]:
        """``count`` different keys."""
        found: dict[str, None] = {}
        while len(found) < count:
            found[self.key()] = None
        return list(found)

    def value(self, kind: float) -> str:
        """A number, a word, a code or two words, by ``kind`` in [0, 1]."""
        if kind < 0.55:
            return str(self.rng.randint(1_000, 9_999_999))
        if kind < 0.75:
            return self.word()
        return f"{self.rng.getrandbits(32):08x}" if kind < 0.88 else f"{self.word()} {self.word()}"

    def passage(self, length: int, source: str | None = None) -> list[int]:
        return self.library.passage(self.rng, max(1, length), self.split, source)

    def ask(self, page: Document, question: str, opening: str, answer: str, form: int | None = None) -> None:
        """A question and its answer, which begins with ``opening``, in one of several wordings."""
        before, after = FORMS[self.rng.randrange(len(FORMS)) if form is None else form]
        page.add(before.format(question=question, opening=opening), FRAME)
        page.add(f" {answer}", ANSWER).add(after, TEXT)


FORMS = [
    ("\nQuestion: {question}\nAnswer: {opening}", ".\n"),
    ("\nQ: {question}\nA:", "\n"),
    (f"\n{USER}{{question}}{END}{ASSISTANT}{{opening}}", f".{END}"),
    (f"\n{USER}{{question}}{END}{ASSISTANT}Answer:", END),
    ("\n{question} {opening}", ".\n"),
]

Generator = Callable[[Scribe], Document]

STATEMENTS = [  # statement, question, opening of the answer
    ("The pass key for {k} is {v}. Remember it.", "What is the pass key for {k}?", "The pass key for {k} is"),
    ("The secret code of {k} is {v}.", "What is the secret code of {k}?", "The secret code of {k} is"),
    ("{k} was assigned the label {v}.", "Which label was {k} assigned?", "{k} was assigned the label"),
    ("The ticket {k} costs {v} coins.", "How much does the ticket {k} cost?", "The ticket {k} costs"),
    ("In the ledger, {k} is entered as {v}.", "How is {k} entered in the ledger?", "{k} is entered as"),
    ("Record {k}: {v};", "Look up record {k}.", "Record {k}:"),
    ("Der geheime Code von {k} ist {v}.", "Was ist der geheime Code von {k}?", "Der geheime Code von {k} ist"),
    ("Le prix de {k} est de {v} euros.", "Quel est le prix de {k} ?", "Le prix de {k} est de"),
    ("El código de {k} es {v}.", "¿Cuál es el código de {k}?", "El código de {k} es"),
    ("Il codice di {k} è {v}.", "Qual è il codice di {k}?", "Il codice di {k} è"),
    ('def get_{k}():\n    return "{v}"\n', "What does get_{k}() return?", "get_{k}() returns"),
    ('    "{k}": "{v}",\n', 'What is config["{k}"]?', '"{k}":'),
]

TABLES = [  # head, row, question, opening
    ("JSON data:\n{", '"{k}": "{v}", ', 'Value of "{k}"', '"{k}":'),
    ("", "{k} -> {v}\n", "What does {k} map to?", "{k} ->"),
    ("| key | value |\n", "| {k} | {v} |\n", "What is the value in row {k}?", "| {k} |"),
    ("", "{k}: {v}\n", "Look up {k}.", "{k}:"),
    ("key,value\n", "{k},{v}\n", "Which value follows {k}?", "{k},"),
    ("d = {}\n", 'd["{k}"] = "{v}"\n', 'What is d["{k}"]?', 'd["{k}"] ='),
]

PEOPLE = (
    "Anna Boris Clara David Elena Felix Greta Hugo Irene Jonas Klara Liam Maria Nadia Oscar Petra Quinn Rosa Simon Tessa Ulrich Vera "
    "Walter Yara Amir Bella Carlos Diana Emil Farah Goran Hanna Ivan Julia Kofi Lena Marco Nora Omar Paula Ravi Sofia Tomas Uma Victor"
).split()
PLACES = (
    "kitchen garden cellar attic library hall stable tower chapel office workshop market harbor forest bridge".split()
)
THINGS = "key lamp book coin ring map cup rope box clock knife letter apple stone flute mirror basket candle hat drum".split()
CITIES = "Paris Rome Lisbon Oslo Cairo Lima Tokyo Delhi Berlin Madrid Vienna Prague Dublin Athens Boston Geneva Kyoto".split()


def needles(
    scribe: Scribe, count: int | None = None, statement: int | None = None, form: int | None = None
) -> Document:
    """Facts of one wording scattered over text, then questions about some of them."""
    rng, page = scribe.rng, scribe.page()
    said, question, opening = STATEMENTS[rng.randrange(len(STATEMENTS)) if statement is None else statement]
    count = max(1, min(count or rng.choice([1, 4, 8, 16, 32]), scribe.length // 60))
    kind = rng.random() if count > 1 else 0.0
    facts = {key: scribe.value(kind) for key in scribe.keys(count)}
    room = max(0, scribe.length - 30 * count - 45 * scribe.questions)
    cuts = [0, *sorted(rng.randint(0, room) for _ in range(count)), room]
    for (key, value), start, stop in zip(facts.items(), cuts, cuts[1:], strict=False):
        page.add(scribe.passage(stop - start) if stop > start else [], FILLER).add(
            f" {said.format(k=key, v=value)} ", RANDOM
        )
    page.add(scribe.passage(room - cuts[-2]) if room > cuts[-2] else [], FILLER)
    for key in rng.sample(list(facts), min(scribe.questions, count)):
        scribe.ask(page, question.format(k=key), opening.format(k=key), facts[key], form)
    return page


def table(scribe: Scribe, style: int | None = None, form: int | None = None) -> Document:
    """As many key-value rows as the length holds, then questions about some of them."""
    rng, page, kind = scribe.rng, scribe.page(), scribe.rng.random()
    head, row, question, opening = TABLES[rng.randrange(len(TABLES)) if style is None else style]
    facts: dict[str, str] = {}
    page.add(head, FRAME)
    while len(page) < scribe.length - 30 * scribe.questions or not facts:
        key, value = scribe.key(), scribe.value(kind)
        if key not in facts:
            facts[key] = value
            page.add(row.format(k=key, v=value), RANDOM)
    for key in rng.sample(list(facts), min(scribe.questions, len(facts))):
        scribe.ask(page, question.format(k=key), opening.format(k=key), facts[key], form)
    return page


def variables(scribe: Scribe, hops: int | None = None, form: int | None = None) -> Document:
    """Chains of assignments scattered over text: a variable's value is found by following its chain back."""
    rng, page = scribe.rng, scribe.page()
    first, later = rng.choice(
        [
            (" VAR {a} = {b}. ", " VAR {a} = VAR {b}. "),
            ("\n{a} = {b}\n", "\n{a} = {b}\n"),
            (" let {a} := {b}; ", " let {a} := {b}; "),
        ]
    )
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = iter(dict.fromkeys("".join(rng.choices(letters, k=4)) for _ in range(80)))
    chains = []
    for _ in range(rng.choice([1, 2, 3])):
        length = 1 + (hops or rng.choice([1, 2, 3, 4]))
        chains.append((str(rng.randint(10_000, 99_999)), [next(names) for _ in range(length)]))
    order = [c for c, (_, chain) in enumerate(chains) for _ in chain]
    rng.shuffle(order)
    gap = max(0, scribe.length - 16 * len(order) - 25 * scribe.questions) // len(order)
    done = [0] * len(chains)
    for c in order:
        value, chain = chains[c]
        page.add(scribe.passage(int(gap * rng.uniform(0.4, 1.6))) if gap > 4 else [], FILLER)
        wording, source = (later, chain[done[c] - 1]) if done[c] else (first, value)
        page.add(wording.format(a=chain[done[c]], b=source), FRAME)
        done[c] += 1
    for value, chain in rng.sample(chains, min(scribe.questions, len(chains))):
        name = chain[-1] if hops else rng.choice(chain)
        scribe.ask(page, f"What is the value of {name}?", f"{name} =", value, form)
    return page


def copies(scribe: Scribe) -> Document:
    """Spans of random tokens or of text that come back after a while."""
    rng, page = scribe.rng, scribe.page()
    size = rng.choice([16, 32, 64, 128])
    while len(page) < scribe.length:
        noise = rng.random() < 0.4
        span = [rng.randrange(4, scribe.library.vocabulary) for _ in range(size)] if noise else scribe.passage(size)
        page.add(span, RANDOM)
        if rng.random() < 0.5:
            page.add(scribe.passage(rng.randint(4, 2 * size)), FRAME)
        start = rng.randint(0, size // 2)
        page.add(span[start : start + 4], RANDOM).add(span[start + 4 :], 2.0)
    return page


def quotes(scribe: Scribe, source: str | None = None) -> Document:
    """A passage, then its own sentences asked for by their first words."""
    rng, page = scribe.rng, scribe.page()
    passage = scribe.passage(max(80, scribe.length - 50 * scribe.questions), source)
    page.add(passage)
    before, middle, after = rng.choice(
        [
            ("\nContinue the passage: ", " ... ", "\n"),
            (f"\n{USER}What comes after these words? ", f"...{END}{ASSISTANT}", END),
        ]
    )
    for _ in range(scribe.questions):
        start, cue = rng.randint(0, max(0, len(passage) - 40)), rng.randint(6, 10)
        page.add(before, FRAME).add(passage[start : start + cue], RANDOM).add(middle, FRAME)
        page.add(passage[start + cue : start + cue + rng.randint(8, 24)], 2.0).add(after)
    return page


def definitions(scribe: Scribe, form: int | None = None) -> Document:
    """Words with their meanings, asked for in both directions."""
    rng, page = scribe.rng, scribe.page()
    told: list[tuple[str, str]] = []
    joint = scribe.pick([": ", " - ", " means "])
    while len(page) < scribe.length - 40 * scribe.questions or not told:
        word, gloss = rng.choice(scribe.library.facts[scribe.split].glosses)
        told.append((word, gloss))
        page.add(f"{word}{joint}{gloss}.\n")
    for word, gloss in rng.sample(told, min(scribe.questions, len(told))):
        if rng.random() < 0.5:
            scribe.ask(page, f"What does {word} mean?", "It means", gloss, form)
        else:
            scribe.ask(page, f'Which word means "{gloss}"?', "The word is", word, form)
    return page


def translations(scribe: Scribe, form: int | None = None) -> Document:
    """English sentences with their translations, some of which are asked for again."""
    rng, page = scribe.rng, scribe.page()
    told: list[tuple[str, str]] = []
    pairs = scribe.library.facts[scribe.split].pairs
    language = scribe.pick(list(pairs))
    while len(page) < scribe.length - 60 * scribe.questions or not told:
        english, foreign = rng.choice(pairs[language])
        told.append((english, foreign))
        page.add(f"English: {english}\n{language}: {foreign}\n")
    for english, foreign in rng.sample(told, min(scribe.questions, len(told))):
        scribe.ask(page, f"Translate into {language}: {english}", f"{language}:", foreign, form)
    return page


def story(scribe: Scribe, form: int | None = None) -> Document:
    """People with a home town and a belonging walk from place to place; questions on what was and on what is."""
    rng, page = scribe.rng, scribe.page()
    people = rng.sample(PEOPLE, rng.randint(2, 6))
    origin = {p: rng.choice(CITIES) for p in people}
    owned = {p: f"{scribe.word()} {rng.choice(THINGS)}" for p in people}
    at: dict[str, str] = {}
    for p in people:
        page.add(f"{p} came from {origin[p]} and owned a {owned[p]}. ", FILLER)
    while len(page) < scribe.length - 30 * scribe.questions or not at:
        p, action = scribe.pick(people), rng.random()
        if action < 0.5 or p not in at:
            at[p] = scribe.pick([place for place in PLACES if place != at.get(p)])
            page.add(f"{p} {scribe.pick(['went to', 'walked to', 'ran to', 'returned to'])} the {at[p]}. ", FILLER)
        elif action < 0.7:
            page.add(f"{p} was still in the").add(f" {at[p]}", 2.0).add(". ")
        else:
            word, gloss = rng.choice(scribe.library.facts[scribe.split].glosses)
            page.add(f"{p} spoke about {word}, {gloss}. ")
    asked = [(f"Where is {p}?", f"{p} is in the", at[p]) for p in at]
    asked += [(f"Where did {p} come from?", f"{p} came from", origin[p]) for p in people]
    asked += [(f"What did {p} own?", f"{p} owned a", owned[p]) for p in people]
    for question, opening, answer in rng.sample(asked, min(scribe.questions, len(asked))):
        scribe.ask(page, question, opening, answer, form)
    return page


def ledger(scribe: Scribe) -> Document:
    """Purses that people fill and empty, the balance told after each change: a sum that must be carried along."""
    rng, page = scribe.rng, scribe.page()
    balance = {p: rng.randint(5, 60) for p in rng.sample(PEOPLE, rng.randint(1, 4))}
    page.add("".join(f"{p} has {b} coins. " for p, b in balance.items()), FILLER)
    while len(page) < scribe.length:
        p, change = scribe.pick(list(balance)), rng.randint(1, 9)
        if balance[p] + change > 99 or (rng.random() < 0.5 and balance[p] > change):
            balance[p] -= change
            page.add(f"{p} spent {change} and has", FILLER)
        else:
            balance[p] += change
            page.add(f"{p} earned {change} and has", FILLER)
        page.add(f" {balance[p]}", 2.0).add(". ")
        if rng.random() < 0.3:
            page.add(scribe.passage(rng.randint(8, 40)), FILLER).add("\n")
    return page


def voices(scribe: Scribe) -> Document:
    """A dialogue whose speakers keep to a habit each, a favourite word that ends all they say: a trait to be remembered throughout."""
    rng, page = scribe.rng, scribe.page()
    habit = {p: scribe.word() for p in rng.sample(PEOPLE, rng.randint(2, 8))}
    seen: set[str] = set()
    while len(page) < scribe.length:
        p = scribe.pick(list(habit))
        page.add(f"{p}: ", FILLER).add(scribe.passage(rng.randint(8, 30)), FILLER)
        page.add(f", {habit[p]}", 2.0 if p in seen else RANDOM).add("!\n")
        seen.add(p)
    return page


def scopes(scribe: Scribe) -> Document:
    """Nested blocks that close in order, each by the name that opened it: a stack."""
    rng, page = scribe.rng, scribe.page()
    stack: list[str] = []
    while len(page) < scribe.length:
        indent = "  " * len(stack)
        if len(stack) < 2 or (len(stack) < 7 and rng.random() < 0.4):
            stack.append(scribe.word())
            page.add(f"{indent}begin {stack[-1]}\n", FILLER)
        elif rng.random() < 0.5:
            page.add(f"{indent[2:]}end").add(f" {stack.pop()}", 2.0).add("\n")
        else:
            page.add(f"{indent}{scribe.word()} = {rng.randint(0, 99)}\n", RANDOM)
    return page


def arithmetic(scribe: Scribe) -> Document:
    """Sums, equations and small word problems, worked step by step, some as a dialogue."""
    page, chat = scribe.page(), scribe.rng.random() < 0.5
    while len(page) < scribe.length:
        question, steps, result = _exercise(scribe)
        page.add(f"{USER}{question}{END}{ASSISTANT}" if chat else f"{question} ", FILLER)
        page.add(f"{steps}{result}", 2.0).add(END if chat else "\n")
    return page


def _exercise(scribe: Scribe) -> tuple[str, str, str]:
    """A question, the steps of its solution and the result."""
    rng, kind = scribe.rng, scribe.rng.random()
    a, b = (rng.randint(2, 10 ** rng.choice([1, 2, 3])) for _ in range(2))
    if kind < 0.3:
        return f"{a} + {b} =", "", str(a + b)
    if kind < 0.5:
        x, m, c = rng.randint(-20, 40), rng.randint(2, 9), rng.randint(1, 50)
        return f"Solve {m}x + {c} = {m * x + c}.", f"{m}x = {m * x}, ", f"x = {x}"
    a, b, given = rng.randint(2, 60), rng.randint(2, 60), rng.randint(1, 20)
    given, person, thing = min(given, a + b), scribe.pick(PEOPLE), scribe.pick(THINGS)
    return (
        f"{person} has {a} {thing}s, buys {b} more and gives away {given}. How many {thing}s are left?",
        f"{a} + {b} = {a + b}. {a + b} - {given} = ",
        str(a + b - given),
    )


def plain(scribe: Scribe) -> Document:
    """Text as it is."""
    return scribe.page().add(scribe.passage(scribe.length))


RETRIEVAL: dict[Generator, float] = {
    needles: 0.28, table: 0.24, variables: 0.12, copies: 0.08, quotes: 0.1, definitions: 0.06, translations: 0.06, arithmetic: 0.06
}  # fmt: skip
STATE: dict[Generator, float] = {story: 0.4, ledger: 0.2, voices: 0.2, scopes: 0.2}


@dataclass(frozen=True)
class Mixture:
    """Shares of training tokens: retrieval tasks, running-state tasks, the rest plain text."""

    retrieval: float = 0.5
    state: float = 0.05

    def draw(self, rng: random.Random) -> Generator:
        kind = rng.random()
        if kind >= self.retrieval + self.state:
            return plain
        tasks = RETRIEVAL if kind < self.retrieval else STATE
        return rng.choices(list(tasks), list(tasks.values()))[0]

    def row(self, rng: random.Random, library: Library, length: int, longest: int) -> Document:
        """``length`` tokens of documents, each at most ``longest``, one after the other."""
        row = Document(library)
        while len(row) < length:
            room = min(length - len(row), longest)
            size = room if rng.random() < 0.5 else rng.randint(min(96, room), room)
            questions = rng.choice([2, 4, 6] if size < 1500 else [4, 8, 12])
            generator = self.draw(rng) if size >= 160 else plain
            document = generator(Scribe(rng, library, "train", size, questions))
            row.ids += [*document.ids, END_OF_TEXT]
            row.weights += [*document.weights, FRAME]
        del row.ids[length:], row.weights[length:]
        return row


EVALUATION: dict[str, Generator] = {
    "needle": lambda s: needles(s, 1, 0, 0),
    "multi-key": lambda s: needles(s, 16, 1, 0),
    "key-value JSON": lambda s: table(s, 0, 0),
    "key-value lines": lambda s: table(s, 1, 1),
    "variables, 1 hop": lambda s: variables(s, 1, 0),
    "variables, 4 hops": lambda s: variables(s, 4, 0),
    "story": lambda s: story(s, 0),
}
"""Tasks of fixed wording, measured by exact match of their answers."""
