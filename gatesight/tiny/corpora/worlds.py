"""Invented people, towns and things, and stories about them whose later sentences return to what happened before."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FIRST = (
    "Agnes Anton Aurora Bastian Beatrix Bruno Cecily Conrad Dagmar Dorian Edith Emeric Flora Fabian Greta Gideon Harriet Hector Ida Ivo "
    "Judith Jasper Katya Kasimir Leonora Lucian Mabel Magnus Nadine Nestor Olive Orson Petra Quentin Rosalind Rufus Sabine Silas Thea "
    "Tobias Ursula Valentin Wanda Willem Yvette Zacharias"
).split()
"""Women and men in turn."""

SURNAMES = (
    "Ashdown Barrow Carver Dunmore Ellery Farrow Gantry Hollis Ingram Jessop Kestrel Lorimer Marsh Northcote Oakes Pemberton Quill Rook "
    "Sorrel Tarrant Underhill Vane Whitlock Yarrow"
).split()
TRADES = (
    "baker clockmaker ferryman schoolteacher apothecary carpenter gardener tailor printer beekeeper blacksmith glazier librarian "
    "surveyor potter weaver"
).split()
PLACES = (
    "old mill;harbour office;churchyard;market hall;schoolhouse;boathouse;upper orchard;town library;railway station;lighthouse;"
    "bakery;stone bridge;village inn;glasshouse;post office;quarry"
).split(";")
LOOKS = (
    "brass silver blue cracked green wooden striped heavy gilded leather red ivory rusty copper painted velvet".split()
)
THINGS = "key lantern map notebook compass teapot violin umbrella medal telescope music-box locket saddle chessboard kettle ledger".split()
HIDING = "under a loose floorboard;behind the tall cupboard;in a drawer lined with newspaper;beneath a pile of sacks;on the highest shelf"
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
WEATHER = (
    "A thin rain had been falling since dawn.;The wind had gone round to the east.;It was warm for the season.;Fog lay over the river.;"
    "The first frost had whitened the roofs.;The streets were dry and full of dust.;Toward noon the clouds broke."
).split(";")
STARTS = "Ald Bren Cor Dun Els Fenn Gar Hav Isk Jor Kel Lund Mar Nor Ost Pel Quar Ros Sil Tor Ull Ver Wex Yar".split()
ENDINGS = "bury by dale field ford gate ham holm mere minster mouth stead ton wick".split()


@dataclass
class Passage:
    """A text and what may be asked about it."""

    title: str
    paragraphs: list[str] = field(default_factory=list)
    facts: list[tuple[str, str]] = field(default_factory=list)
    """Questions and their answers, single words or phrases of the text."""


@dataclass
class Person:
    """Someone who keeps a trade, a place and a thing through a story."""

    name: str
    she: bool
    trade: str
    place: str
    thing: str

    @property
    def her(self) -> str:
        return "her" if self.she else "his"

    @property
    def subject(self) -> str:
        return "she" if self.she else "he"


def town(rng: random.Random) -> str:
    return rng.choice(STARTS) + rng.choice(ENDINGS)


def towns(rng: random.Random, count: int) -> list[str]:
    """Different names of towns."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[town(rng)] = None
    return list(found)


def sentence(answer: str) -> str:
    """An answer with a capital at its beginning and a stop at its end."""
    return f"{answer[0].upper()}{answer[1:]}" + ("" if answer.endswith((".", "!", "?", "”")) else ".")


def cast(rng: random.Random, count: int) -> list[Person]:
    """People of whom no two share a name, a trade, a place or a thing."""
    names = rng.sample(range(len(FIRST)), count)
    trades, places = rng.sample(TRADES, count), rng.sample(PLACES, count)
    things = [
        f"{look} {thing}" for look, thing in zip(rng.sample(LOOKS, count), rng.sample(THINGS, count), strict=True)
    ]
    return [
        Person(FIRST[n], n % 2 == 0, trade, place, thing)
        for n, trade, place, thing in zip(names, trades, places, things, strict=True)
    ]


class Story:
    """A small town over a week or two: who holds each thing, where it lies, and what has happened so far."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.town = town(rng)
        self.people = cast(rng, rng.randint(4, 6))
        self.passage = Passage(f"The {self.people[0].thing.title()} of {self.town}")
        self.holder = {p.thing: p for p in self.people}
        self.spot = {p.thing: p.place for p in self.people}
        self.past: list[str] = []
        self.told: list[str] = []

    def tell(self, size: int) -> Passage:
        """Paragraphs of at least ``size`` characters in all."""
        out = self.passage.paragraphs
        out.append(self._opening())
        day, week = self.rng.randrange(7), 0
        while sum(map(len, out)) < size:
            name = DAYS[day % 7]
            self.when = when = f"On {name}" if week < 7 else f"On the second {name}" if week < 14 else "Some days later"
            events: list[str] = []
            for _ in range(self.rng.randint(2, 3)):
                event = self.rng.choice([self._lend, self._carry, self._hide, self._ask, self._recall, self._work])
                if sentence := event():
                    events.append(sentence)
            if events:
                weather = "" if self.rng.random() < 0.6 else f"{self.rng.choice(WEATHER)} "
                out.append(f"{weather}{when}, {' '.join(events)}")
            step = self.rng.randint(1, 2)
            day, week = day + step, week + step
        for thing, person in self.holder.items():
            owner = next(p for p in self.people if p.thing == thing)
            self.passage.facts.append((f"Who had the {thing} at the end?", person.name))
            self.passage.facts.append((f"Where was the {thing} last?", f"at the {self.spot[thing]}"))
            self.passage.facts.append((f"To whom does the {thing} belong?", f"to {owner.name}, the {owner.trade}"))
        return self.passage

    def _opening(self) -> str:
        lines = [f"In {self.town} everybody knew everybody's business."]
        for p in self.people:
            lines.append(
                self.rng.choice(
                    [
                        f"{p.name} the {p.trade} could be found most mornings at the {p.place}, and never without {p.her} {p.thing}.",
                        f"{p.name} was a {p.trade}, worked near the {p.place}, and owned a {p.thing} that had been {p.her} grandmother's.",
                        f"The {p.trade}, whose name was {p.name}, spent {p.her} days at the {p.place} and was proud of {p.her} {p.thing}.",
                    ]
                )
                .replace("a apoth", "an apoth")
                .replace("a ivory", "an ivory")
            )
            self.passage.facts.append((f"What is {p.name}'s trade?", p.trade))
            self.passage.facts.append((f"Who was the {p.trade} of {self.town}?", p.name))
        return " ".join(lines)

    def _two(self) -> tuple[Person, Person]:
        a, b = self.rng.sample(self.people, 2)
        return a, b

    def _note(self, clause: str) -> None:
        self.past.append(clause)

    def _held(self, person: Person) -> list[str]:
        return [thing for thing, p in self.holder.items() if p is person]

    def _lend(self) -> str:
        a, b = self._two()
        if not (held := self._held(a)):
            return ""
        thing = self.rng.choice(held)
        self.holder[thing], self.spot[thing] = b, b.place
        owner = next(p for p in self.people if p.thing == thing)
        self._note(f"{a.name} had given the {thing} to {b.name} at the {b.place}")
        if self.when.startswith("On"):
            self.passage.facts.append(
                (f"From whom did {b.name} get the {thing} {self.when.replace('On', 'on')}?", a.name)
            )
        if owner is b:
            return f"{a.name} came to the {b.place} and gave {b.name} back the {thing}, with many thanks."
        if owner is a:
            return f"{a.name} lent {b.name} {a.her} {thing}, and {b.name} took it at once to the {b.place}."
        return f"{a.name} passed the {thing}, which was {owner.name}'s, on to {b.name}, who kept it at the {b.place}."

    def _carry(self) -> str:
        person, place = self.rng.choice(self.people), self.rng.choice(PLACES)
        if not (held := self._held(person)):
            return ""
        thing = self.rng.choice(held)
        before, self.spot[thing] = self.spot[thing], place
        if before == place:
            return ""
        self._note(f"{person.name} had carried the {thing} to the {place}")
        reason = self.rng.choice(
            ["to have it mended", "to show it to a stranger", "because the roof leaked", "without saying why"]
        )
        return f"{person.name} carried the {thing} from the {before} to the {place} {reason}."

    def _hide(self) -> str:
        person, where = self.rng.choice(self.people), self.rng.choice(HIDING.split(";"))
        if not (held := self._held(person)):
            return ""
        thing = self.rng.choice(held)
        if any(thing in clause and "hidden" in clause for clause in self.past[-6:]):
            return ""
        self._note(f"{person.name} had hidden the {thing} {where} at the {self.spot[thing]}")
        return f"{person.name} hid the {thing} {where} at the {self.spot[thing]} and told nobody."

    def _ask(self) -> str:
        a, b = self._two()
        thing = self.rng.choice(list(self.spot))
        holder = self.holder[thing]
        who = "I have" if holder is b else "you have" if holder is a else f"{holder.name} has"
        return f'"Where is the {thing}?" asked {a.name}. "{who[0].upper()}{who[1:]} it," said {b.name}, "and it is at the {self.spot[thing]}."'

    def _recall(self) -> str:
        a, b = self._two()
        choices = [clause for clause in self.past[-8:] if clause not in self.told]
        if not choices:
            return ""
        clause = self.rng.choice(choices)
        self.told.append(clause)
        actor, deed = clause.split(" ", 1)
        who = a.subject if actor == a.name else b.subject if actor == b.name else actor
        if actor == b.name:
            return f"{a.name} reminded {b.name} that {who} {deed}."
        return self.rng.choice(
            [
                f"{a.name} told {b.name} that {who} {deed}.",
                f"{a.name} still remembered how {who} {deed}.",
                f"{a.name} spoke at the {a.place} of how {who} {deed}.",
            ]
        )

    def _work(self) -> str:
        a, b = self._two()
        return self.rng.choice(
            [
                f"{a.name} the {a.trade} worked late at the {a.place}, and {b.name} brought {'her' if a.she else 'him'} soup.",
                f"{a.name} and {b.name} met at the {a.place} and quarrelled about the {b.thing}.",
                f"{b.name} waited an hour at the {b.place}, but the {a.trade} did not come; {a.subject} had stayed at the {a.place}.",
                f"{a.name} asked the {b.trade} for advice, for nobody in {self.town} knew more than {b.name}.",
            ]
        )


def story(rng: random.Random, size: int) -> Passage:
    """People of a small town who lend, hide and look for their things."""
    return Story(rng).tell(size)
