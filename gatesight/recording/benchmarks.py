"""Names of long-context benchmarks: documents that hold one are not recorded, so that nothing is learnt from a test.

The paper leaves them out too, without giving its list; this one would rather leave out a document too many.
"""

from __future__ import annotations

import re

IN_ANY_CASE = (
    r"(?:mm)?long-?bench",  # and LongBench v2, LongBench-Chat, …
    r"clongeval",
    r"longmemeval",
    r"longgenbench",
    r"scbench",
    r"infini(?:te|ty)[ -]?bench",
    r"∞-?bench",
    r"needle-?bench",
    r"needles?[\s_-]+in[\s_-]+(?:a|the)[\s_-]+haystack",
    r"niah_\w+",  # names of tasks, as in niah_multikey_3
    r"ruler[ _-]?\d+k",
    r"babilong",
    r"zero-?scrolls",
    r"repoqa",
    r"long[ -]?range[ -]arena",
)
"""No other word looks like these."""

AS_WRITTEN = (
    r"RULER",  # a ruler and the Ruler of Spain may stay
    r"HELMET",
    r"NIAH",  # Niah is a national park
    r"MRCR",
    r"NoLiMa",
    r"LooGLE",
    r"LV?-Eval",
    r"L-?CiteEval",
    r"SCROLLS",
    r"NoCha",
    r"Loong",
    r"GraphWalks",
)
"""Words of their own in this very case."""

_NAMES = re.compile(
    rf"(?<![^\W_])(?:(?i:{'|'.join(IN_ANY_CASE)})|(?:{'|'.join(AS_WRITTEN)})(?![^\W\d_]))",
)


def named_benchmark(text: str) -> str | None:
    """The first name of a long-context benchmark in ``text``, as it is written there; ``None`` if there is none."""
    return match.group() if (match := _NAMES.search(text)) else None
