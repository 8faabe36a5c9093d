"""The three questions that compared methods answer alike."""

from abc import ABC, abstractmethod
from typing import Any

from turnover.scores import Scores
from turnover.training import TrainingRecipe

from .rows_and_queries import Question


class AnswersQuestions(ABC):
    """Opens questions about a recipe's rows, and leaves the answer to the method."""

    def __init__(self, recipe: TrainingRecipe) -> None:
        self._recipe = recipe

    def pairwise(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows, queries]: what each training row does to each query's loss.

        Args:
            queries: a tuple (inputs, targets) in the form of the recipe's.
            ids: instance ids of the rows to score; None: all rows.
            progress: show a bar; None: on a terminal.
        """
        return self._answer(Question.of("pairs", self._recipe, ids, queries), progress)

    def mean(self, queries: Any, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: the mean influence of each training row on a set of queries.

        Args:
            queries: as for `pairwise`.
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        return self._answer(Question.of("mean", self._recipe, ids, queries), progress)

    def self_influence(self, *, ids: Any = None, progress: bool | None = None) -> Scores:
        """Return Scores [rows]: what each training row does to its own loss.

        Args:
            ids: as for `pairwise`.
            progress: as for `pairwise`.
        """
        return self._answer(Question.of("self", self._recipe, ids), progress)

    @abstractmethod
    def _answer(self, question: Question, progress: bool | None) -> Scores:
        """Return the scores of a question."""
