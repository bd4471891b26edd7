"""Invented records: a gazetteer and a council's minutes, in which later entries are compared with earlier ones."""

from __future__ import annotations

import random

from gatesight.tiny.corpora.worlds import FIRST, STARTS, SURNAMES, Passage, town, towns

CRAFTS = (
    "salted herring;blue glass;beeswax candles;church bells;woollen blankets;clay pipes;walnut furniture;paper;cider;copper kettles;"
    "oatcakes;sailcloth"
).split(";")
FEASTS = (
    "Lantern Night;the Goose Fair;the Feast of Boats;Bell Sunday;the Apple Walk;the Night of Kites;Snow Market".split(
        ";"
    )
)
SIGHTS = "a leaning clock tower;a covered bridge;a botanical garden;a museum of maps;a ruined abbey;a round market hall".split(
    ";"
)


def gazetteer(rng: random.Random, size: int) -> Passage:
    """Towns of an invented valley, described one after the other and compared with those described before."""
    river, people = f"{rng.choice(STARTS)}water", rng.sample(SURNAMES, 12)
    passage = Passage(f"Towns of the {river} Valley")
    seen: list[tuple[str, str, int]] = []
    for name, craft, sight, feast in zip(
        towns(rng, 12), rng.sample(CRAFTS, 12), rng.sample(SIGHTS * 2, 12), rng.sample(FEASTS * 2, 12), strict=True
    ):
        founder = f"{rng.choice(FIRST)} {people.pop()}"
        year, souls, miles = rng.randint(1120, 1790), rng.randrange(800, 40000, 50), rng.randint(3, 60)
        text = rng.choice(
            [
                f"{name} lies on the {river}, {miles} miles from the sea, and has {souls:,} inhabitants. It was founded in {year} by {founder}, "
                f"who brought the making of {craft} to the valley.",
                f"The town of {name}, founded by {founder} in {year}, stands {miles} miles above the mouth of the {river}. Its {souls:,} people "
                f"live mainly from {craft}.",
                f"Travellers know {name} for its {craft}. {founder} laid the first stone in {year}; today {souls:,} people live there, "
                f"{miles} miles from the sea.",
            ]
        )
        text += f" Visitors come to see {sight}" + rng.choice(
            [f" and to take part in {feast}.", f", most of all during {feast}."]
        )
        if seen:
            other, wares, population = rng.choice(seen)
            larger = "larger" if souls > population else "smaller"
            text += rng.choice(
                [
                    f" {name} is {larger} than {other}, from which it buys its {wares}.",
                    f" An old road joins it to {other}, whose {wares} and the {craft} of {name} are sold at the same fairs.",
                    f" Though {larger} than {other}, it never had a trade as famous as the {wares} made there.",
                ]
            )
        seen.append((name, craft, souls))
        passage.paragraphs.append(text)
        passage.facts += [
            (f"Who founded {name}?", founder),
            (f"In which year was {name} founded?", str(year)),
            (f"What is made in {name}?", craft),
            (f"How many people live in {name}?", f"{souls:,}"),
            (f"Which town is known for its {craft}?", name),
        ]
        if sum(map(len, passage.paragraphs)) > size:
            break
    while sum(map(len, passage.paragraphs)) < size:  # a journey back through the towns
        (a, wares, _), (b, other, _) = rng.sample(seen, 2)
        passage.paragraphs.append(
            rng.choice(
                [
                    f"From {a} the traveller who has bought his {wares} goes on to {b}, where {other} is to be had at half the price.",
                    f"A merchant who carries {wares} from {a} to {b} will find that {other} makes the best load for the way back.",
                    f"It is said in {b} that the {wares} of {a} would be worth nothing without the {other} of {b}.",
                ]
            )
        )
    return passage


MATTERS = (
    "the repair of the roof;new books for the library;the summer concert;a second ferry;the planting of lime trees;the heating of the schoolroom;"
    "the museum catalogue;street lamps on the quay;a prize for young painters;the flood wall;the bicycle shed;the town newspaper"
).split(";")


def minutes(rng: random.Random, size: int) -> Passage:
    """A council's minutes: every matter gets a speaker, a sum and a date; later ones and the list of tasks return to them."""
    place, names = town(rng), [f"{a} {b}" for a, b in zip(rng.sample(FIRST, 6), rng.sample(SURNAMES, 6), strict=True)]
    chair, clerk = names[:2]
    passage = Passage(f"Minutes of the Council of {place}")
    passage.paragraphs.append(f"Present: {', '.join(names)}. {chair} was in the chair and {clerk} kept the minutes.")
    passage.facts += [("Who was in the chair?", chair), ("Who kept the minutes?", clerk)]
    done: list[tuple[int, str, str, int, str]] = []
    months = "March April May June July September October November".split()
    for number, matter in enumerate(rng.sample(MATTERS, 9), 1):
        speaker, other = rng.sample(names[1:], 2)
        amount, date = rng.randrange(120, 9000, 10), f"{rng.randint(1, 28)} {rng.choice(months)}"
        text = f"{number}. {matter[0].upper()}{matter[1:]}. {speaker} reported that offers had come in and asked for {amount:,} crowns. "
        if others := [entry for entry in done if entry[2] != other]:
            _, earlier, who, sum_, _ = rng.choice(others)
            text += f"{other} remembered that {sum_:,} crowns had already been granted to {who} for {earlier}. "
        text += rng.choice(
            [
                f"The council granted the sum; {speaker} will report on {date}.",
                f"It was agreed, against the vote of {other}, to pay {amount:,} crowns. {speaker} is to see to it by {date}.",
                f"After a short debate the {amount:,} crowns were granted, and {speaker} promised to be ready on {date}.",
            ]
        )
        done.append((number, matter, speaker, amount, date))
        passage.paragraphs.append(text)
        passage.facts += [
            (f"Who is responsible for {matter}?", speaker),
            (f"How many crowns were granted for {matter}?", f"{amount:,}"),
            (f"When is {matter} to be reported on?", f"on {date}"),
        ]
        if sum(map(len, passage.paragraphs)) > 0.6 * size:
            break
    passage.paragraphs.append("List of tasks, in the order of their numbers:")
    passage.paragraphs += [
        f"{n}. {who}: {matter}, {amount:,} crowns, by {date}." for n, matter, who, amount, date in done
    ]
    for n, matter, who, amount, date in rng.sample(done, len(done)):
        passage.paragraphs.append(
            f"Letter to {who}. The council thanks you for taking on {matter} (number {n} of the minutes). The {amount:,} crowns will be "
            f"paid out by {clerk}; please report on {date}. Signed, {chair}."
        )
    return passage
