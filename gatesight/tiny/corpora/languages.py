"""Wordings in four languages for questions and for a register of people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tongue:
    """A language; the placeholders are ``name``, ``city``, ``year``, ``thing`` and ``day``."""

    name: str
    heading: str
    into: str
    back: str
    title: str
    lines: tuple[str, ...]
    questions: tuple[str, str, str, str]
    """About the city, the year, the thing and the day."""
    cities: tuple[str, ...]
    things: tuple[str, ...]
    days: tuple[str, ...]


LANGUAGES = {
    "de": Tongue(
        "German",
        "Englische Meldungen und ihre deutsche Übersetzung",
        "Wie heißt „{}“ auf Deutsch?",
        "Welche englische Meldung wird mit „{}“ übersetzt?",
        "Aus dem Mitgliederbuch des Vereins",
        (
            "{name} wohnt in {city}, ist dem Verein {year} beigetreten, kommt immer am {day} und bringt dann {thing} mit.",
            "Seit {year} gehört auch {name} aus {city} dazu; man sieht sich am {day}, und nie fehlt {thing}.",
            "Im Jahr {year} kam {name} in den Verein. Wohnort: {city}. Tag: {day}. Im Schrank liegt {thing} bereit.",
        ),
        (
            "Wo wohnt {name}?",
            "Seit wann ist {name} im Verein?",
            "Was bringt {name} mit?",
            "An welchem Tag kommt {name}?",
        ),
        ("Lübeck", "Kassel", "Graz", "Bern", "Ulm", "Weimar", "Görlitz", "Passau", "Emden", "Trier", "Linz"),
        (
            "eine Geige",
            "eine Kamera",
            "eine Lupe",
            "eine alte Karte",
            "eine Laterne",
            "eine Trompete",
            "eine Landkarte",
        ),
        ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    ),
    "fr": Tongue(
        "French",
        "Messages anglais et leur traduction française",
        "Comment dit-on « {} » en français ?",
        "Quel message anglais est traduit par « {} » ?",
        "Extrait du registre de l'association",
        (
            "{name} habite à {city}, fait partie de l'association depuis {year}, vient le {day} et apporte toujours {thing}.",
            "Depuis {year}, {name}, de {city}, vient chaque {day} et n'oublie jamais {thing}.",
            "En {year}, l'association a accueilli {name}. Ville : {city}. Jour : {day}. Objet apporté : {thing}.",
        ),
        (
            "Où habite {name} ?",
            "Depuis quand {name} fait-il ou fait-elle partie de l'association ?",
            "Qu'apporte {name} ?",
            "Quel jour vient {name} ?",
        ),
        ("Nantes", "Dijon", "Reims", "Tours", "Brest", "Nancy", "Colmar", "Metz", "Lyon", "Rouen", "Namur"),
        (
            "un violon",
            "une loupe",
            "une lanterne",
            "un appareil photo",
            "une vieille carte",
            "une trompette",
            "un échiquier",
        ),
        ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    ),
    "es": Tongue(
        "Spanish",
        "Mensajes en inglés y su traducción al español",
        "¿Cómo se dice «{}» en español?",
        "¿Qué mensaje en inglés se traduce por «{}»?",
        "Del libro de registro de la asociación",
        (
            "{name} vive en {city}, pertenece a la asociación desde {year}, viene el {day} y trae siempre {thing}.",
            "Desde {year}, {name}, de {city}, viene cada {day} y nunca olvida {thing}.",
            "En {year} la asociación recibió a {name}. Ciudad: {city}. Día: {day}. Objeto: {thing}.",
        ),
        (
            "¿Dónde vive {name}?",
            "¿Desde cuándo pertenece {name} a la asociación?",
            "¿Qué trae {name}?",
            "¿Qué día viene {name}?",
        ),
        ("Burgos", "Cádiz", "León", "Murcia", "Toledo", "Oviedo", "Cuenca", "Lugo", "Soria", "Girona", "Rosario"),
        (
            "un violín",
            "una lupa",
            "una linterna",
            "una cámara",
            "un mapa antiguo",
            "una trompeta",
            "un tablero de ajedrez",
        ),
        ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    ),
    "it": Tongue(
        "Italian",
        "Messaggi inglesi e la loro traduzione italiana",
        "Come si dice «{}» in italiano?",
        "Quale messaggio inglese si traduce con «{}»?",
        "Dal registro dell'associazione",
        (
            "{name} vive a {city}, fa parte dell'associazione dal {year}, viene di {day} e porta sempre {thing}.",
            "Dal {year} {name}, di {city}, viene ogni {day} e non dimentica mai {thing}.",
            "Nel {year} l'associazione ha accolto {name}. Città: {city}. Giorno: {day}. Oggetto: {thing}.",
        ),
        (
            "Dove vive {name}?",
            "Da quando {name} fa parte dell'associazione?",
            "Che cosa porta {name}?",
            "In quale giorno viene {name}?",
        ),
        ("Lucca", "Parma", "Siena", "Trento", "Lecce", "Bari", "Pavia", "Udine", "Cuneo", "Ferrara", "Lugano"),
        (
            "un violino",
            "una lente",
            "una lanterna",
            "una macchina fotografica",
            "una vecchia mappa",
            "una tromba",
            "una scacchiera",
        ),
        ("lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"),
    ),
}
