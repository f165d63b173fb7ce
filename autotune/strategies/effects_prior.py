"""What is thought of a space before anything was measured in it: how large effects may be.

log(score) is a sum of effects, each normal about 0: of each feature of a candidate, of pairs of
features of which one is a large knob's, and of the candidate for itself. How large effects are
differs from machine to machine, so there are several hypotheses, each a set of deviations. As
covariances of candidates: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006),
2.7 (linear) and 4.2.4 (products).
"""

from itertools import product

import numpy as np

from autotune.space.knob import Effect
from autotune.strategies.knob_features import Matrix, Rows

DEVIATIONS = {
    Effect.LARGE: (0.3, 0.1, 0.03),
    Effect.MEDIUM: (0.06, 0.03, 0.01),
    Effect.SMALL: (0.02, 0.005),
}
"""How far a value of such a knob may take log(samples/s) from the default's, one standard
deviation. The first is what `effect` in the knobs' files stands for; on many machines most settings
do less."""
TOGETHER = (1.5, 0.5, 0.1)
"""What a feature does beside one of a large knob, as a share of what it may do by itself."""
OWN = 0.03
"""What a candidate has beyond all sums. It is the same in each hypothesis, so that none overrules
what a candidate's own launches read again and again."""
LEVEL = 1.0
"""How far the baseline may be from the mean of all readings."""
HYPOTHESES: Matrix = np.array(list(product(*DEVIATIONS.values(), TOGETHER)))
"""A row each: the deviations of large, medium and small features, and the share together."""


def covariance(one: Rows, other: Rows, hypotheses: Matrix) -> Matrix:
    """Of effects without a candidate's own: (hypotheses, candidates of one, of other)."""
    plain = [one[effect] @ other[effect].T for effect in DEVIATIONS]
    return _sum(plain, one[Effect.LARGE] ** 2 @ (other[Effect.LARGE] ** 2).T, hypotheses)


def variance(rows: Rows, hypotheses: Matrix) -> Matrix:
    """The same of each candidate with itself: (hypotheses, candidates)."""
    plain = [(rows[effect] ** 2).sum(axis=1) for effect in DEVIATIONS]
    return _sum(plain, (rows[Effect.LARGE] ** 4).sum(axis=1), hypotheses)


def _sum(plain: list[Matrix], squared: Matrix, hypotheses: Matrix) -> Matrix:
    large, medium, small = plain
    # Products of sums are sums over pairs; among large features each pair is in the square twice,
    # and each feature with itself, which is no pair.
    pairs = [(large**2 - squared) / 2, large * medium, large * small]
    alone, together = hypotheses[:, :3] ** 2, hypotheses[:, 3:] ** 2
    factors = np.hstack([np.full_like(together, LEVEL**2), alone, together * alone])
    terms = np.stack([np.ones_like(large), large, medium, small, *pairs])
    return np.tensordot(factors, terms, axes=1)
