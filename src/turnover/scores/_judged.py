"""Scores beside their noise: p-values, significance, confidence intervals."""

import numpy as np

from turnover.errors import ScoresError

from ._about import method_of
from ._arrays import Floats, closed
from ._content import Content
from .significance import (
    FEWEST_REPLICAS,
    Bools,
    Noise,
    checked_level,
    discoveries,
    interval_tails,
    noise_of,
    normal_limit,
    null_p_values,
    student_limit,
)

_NOISE_HINT = (
    "Train 3 replicas or more (turnover.wrap(..., replicas=3), or an ensemble of models), or keep the scores of "
    "null ids: turnover.Influence does, as null=."
)


class JudgedContent(Content):
    """What scores hold, judged by the scores of null ids, or by the standard errors of replicas."""

    def p_values(self) -> Floats:
        """Return how probable scores as far out are without any influence, two-sided, in the shape of values.

        A training instance that does nothing to a query is one more null id. So where their scores are kept
        (`null`), the p-value is the share of them that lie as far from their mean, in either direction; beyond the
        furthest tenth it follows a tail fitted to that tenth, as their bell curve would be far too narrow. With fewer
        than 100 null ids p-values are plain ranks, at least 1 / (j + 1): the fewer there are, the less is significant.
        The p-value of a failed pair is NaN.

        Raises:
            ScoresError: the scores of null ids are not kept; those of influence functions have none. Replicas tell
                what is significant there, by `significant` and `interval`.

        Example:
            >>> from turnover.scores import Scores
            >>> null = np.random.default_rng(0).normal(size=1000)
            >>> Scores([0.1, 2.0, 9.0], ids=[7, 8, 9], null=null).p_values().round(2)
            array([0.88, 0.04, 0.  ], dtype=float32)
        """
        if self._null is None:
            method = method_of(self.provenance)
            made = f", made by {method!r}," if method else ""
            raise ScoresError(
                f"p-values need the scores of null ids, and these{made} have none. With 3 replicas or more "
                ".interval() and .significant() tell what is significant; p-values come with "
                "turnover.Influence(model, estimator='tod') of a model with masks."
            )
        values = self.values
        if values.ndim == 2:
            return null_p_values(values, self._null)
        return null_p_values(values[:, None], self._null[:, None])[:, 0]

    def significant(self, level: float = 0.05, *, correct: bool = True) -> Bools:
        """Tell which scores are significant, in the shape of values.

        By their p-values where the scores of null ids are kept. Else by replicas, which see far less: significant is
        what has a confidence interval (`interval`) that excludes 0.

        Among thousands of rows some lie far out by chance. With the correction of Benjamini and Hochberg, over the
        rows of each query, at most the share `level` of what is marked is expected to be noise; if all of a query is
        noise, anything at all is marked with probability `level` at most. Intervals are widened by the same rule.

        Args:
            level: that share.
            correct: False marks every p-value up to `level`, or every interval of level 1 − `level` that excludes 0,
                and so that share of all noise.

        Raises:
            ScoresError: level is not between 0 and 1, or noise is not known.

        Example:
            >>> from turnover.scores import Scores
            >>> null = np.random.default_rng(0).normal(size=1000)
            >>> Scores([0.1, 2.0, 9.0], ids=[7, 8, 9], null=null).significant()
            array([False, False,  True])
        """
        level = checked_level(level)
        if self._null is None:
            tails = interval_tails(self.values, *self._errors("marks of significance", null_spread=False))
        else:
            tails = self.p_values()
        if not correct:
            return tails <= level
        return discoveries(tails.reshape(len(tails), -1), level).reshape(tails.shape)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return the lower and upper ends of confidence intervals, each in the shape of values.

        With 3 replicas or more they are the standard error times the limit of Student's distribution with replicas − 1
        degrees of freedom; else the standard deviation of j null ids times √(1 + 1 / j) and the limit with j − 1
        degrees, which is close for 95 % and not for 99.9 %. They are about the mean score over trainings and masks,
        each pair for itself.

        Args:
            level: share of intervals that hold what they are about.

        Raises:
            ScoresError: level is not between 0 and 1, or standard errors are not known.

        Example:
            >>> from turnover.scores import Scores
            >>> low, high = Scores([1.0], ids=[7], stderr=[0.5], replicas=8).interval()
            >>> low.round(2), high.round(2)
            (array([-0.18], dtype=float32), array([2.18], dtype=float32))
        """
        level = checked_level(level)
        stderr, df = self._errors("intervals", null_spread=True)
        limit = normal_limit(1 - level) if df is None else student_limit(1 - level, df)
        values, reach = self.values.astype(np.float64), limit * stderr.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # inf − inf is NaN, as it should be
            return closed((values - reach).astype(np.float32)), closed((values + reach).astype(np.float32))

    @property
    def noise(self) -> Noise:
        """Return how much of the standard deviation of scores is noise, for each query or as one number.

        Raises:
            ScoresError: noise is not known.

        Example:
            >>> from turnover.scores import Scores
            >>> scores = Scores([4.0, -4.0, 0.0], ids=[7, 8, 9], null_spread=2.0)
            >>> scores.noise
            noise is 0.50 of the standard deviation of scores, signal 75% of their variance
        """
        return noise_of(self._values, self._stderr, self._null_spread)

    def _errors(self, what: str, *, null_spread: bool) -> tuple[Floats, int | None]:
        """Return standard errors and the degrees of freedom of their t, None for a normal distribution; or raise."""
        if self._stderr is not None and self.replicas != 2:
            return self._stderr.whole, self.replicas - 1 if self.replicas >= FEWEST_REPLICAS else None
        if null_spread and self._null_spread is not None:
            if self._null is None:
                return np.broadcast_to(self._null_spread, self.shape), None
            # The noise of a score and that of the mean of the null ids, which was subtracted.
            count = len(self._null)
            return np.broadcast_to(self._null_spread * np.sqrt(1 + 1 / count), self.shape), count - 1
        if self.replicas == 2:
            raise ScoresError(f"{what} need a standard error, and 2 replicas are too few for one. {_NOISE_HINT}")
        spread = self._null_spread is not None
        known = "only the standard deviation of null ids, whose tails may be of any weight," if spread else "nothing"
        raise ScoresError(f"{what} need to know the noise of these scores, and there is {known} to tell. {_NOISE_HINT}")
