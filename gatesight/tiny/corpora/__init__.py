"""Nine small corpora that mirror the nine subsets of the paper's data, and the program that builds them.

Each is a Parquet file ``<name>.parquet`` beside this module with the columns ``doc_id``, ``text``, ``source`` and ``license``. They are
read by :mod:`gatesight.recording.corpora`; how they are made stands in :mod:`gatesight.tiny.corpora.build`.
"""

from __future__ import annotations

NAMES = (
    "prose",
    "synthetic_prose",
    "diverse_qa",
    "translated_qa",
    "math_text",
    "code",
    "code_instruction",
    "general_instruction",
    "math_instruction",
)
"""The corpora, in the order of the paper's list of subsets."""
