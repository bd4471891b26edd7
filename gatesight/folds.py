"""Folds of leave-one-corpus-out: each is named after the corpus that it never sees."""

from __future__ import annotations

from collections.abc import Sequence

from gatesight.errors import GateSightError

LOCO = "loco"
NONE = "none"
"""The fold that holds nothing out: the one that is exported and served."""


def plan_folds(fold: str, corpora: Sequence[str]) -> list[str]:
    """The folds that ``fold=…`` asks for: every corpus in turn and :data:`NONE`, only :data:`NONE`, or one corpus.

    Raises:
        GateSightError: there is no such corpus, none is left to train on, or a corpus bears the name of a choice.
    """
    if reserved := {LOCO, NONE} & set(corpora):
        raise GateSightError(f"a corpus cannot be named '{min(reserved)}', which means a choice of folds: rename it.")
    if fold == NONE:
        return [NONE]
    if fold != LOCO and fold not in corpora:
        raise GateSightError(f"fold={fold}: choose {LOCO}, {NONE} or a corpus of the recording ({', '.join(corpora)}).")
    if len(corpora) < 2:
        raise GateSightError(
            f"fold={fold}: the recording holds only the corpus '{corpora[0]}', so none is left to train on; use fold={NONE}."
        )
    return [*corpora, NONE] if fold == LOCO else [fold]
