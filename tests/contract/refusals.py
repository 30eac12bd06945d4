"""All that is refused, and what the refusal says: nothing else may raise, and all of this must.

A row with neither `given` nor `unless` is of every combination; with `given`, of those that have all these options; and
with `unless`, of those that have none of these.
"""

from __future__ import annotations

from typing import NamedTuple

from .cases import JOINT, KINDS

ALL = "everything"
OF_JOINT = JOINT
OF_LOCAL = tuple(kind for kind in KINDS if kind not in JOINT)


class Refusal(NamedTuple):
    """What is refused, by which regressors, and words of the message, which name the option."""

    promises: str | tuple[str, ...]
    words: str
    kinds: tuple[str, ...] = (*OF_JOINT, *OF_LOCAL)
    given: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


REFUSALS = (
    # Options that do not go together, at the fit.
    Refusal(ALL, "unexpected keyword argument 'target'", OF_JOINT, given=("target",)),
    Refusal(
        ALL,
        "'target' parameter of LocalGPRegressor must be 'identity' for several targets",
        OF_LOCAL,
        given=("target", "two targets"),
    ),
    Refusal(
        ALL,
        "'anisotropy' parameter of .*'rotated' is for coordinates in a plane or in space, and metric='sphere'",
        given=("rotated", "sphere"),
    ),
    Refusal(
        ALL,
        "'anisotropy' parameter of .*'rotated' is for coordinates in a plane or in space, and metric='sphere'",
        given=("rotated", "geometry"),
    ),
    # Attributes of options that were not taken.
    Refusal("rotation", "anisotropy='rotated'", unless=("rotated",)),
    Refusal(
        "drift_coef", "fitted with a drift of columns, as by drift='linear'", unless=("drift", "categories", "groups")
    ),
    Refusal("group_effects", "fitted with groups", unless=("groups",)),
    # Transformed targets have no covariances and no slopes in closed form.
    Refusal("predict_with_covariance", "return_cov=True needs target='identity'", OF_LOCAL, given=("target",)),
    Refusal("predict_gradient", "predict_gradient needs target='identity'", OF_LOCAL, given=("target",)),
    # A mean model does not tell its slopes.
    Refusal("predict_gradient", "'mean' parameter of .* has no gradient", given=("mean",)),
    # Unknown coefficients are not among what the likelihood of local models, and profiles, integrate over.
    Refusal(
        ("log_marginal_likelihood", "gradient_of_the_likelihood"),
        "without groups and drift, and this one has groups",
        OF_LOCAL,
        given=("groups",),
    ),
    Refusal(
        ("log_marginal_likelihood", "gradient_of_the_likelihood"),
        "without groups and drift, and this one has drift",
        OF_LOCAL,
        given=("drift",),
    ),
    Refusal(
        ("log_marginal_likelihood", "gradient_of_the_likelihood"),
        "without groups and drift, and this one has drift",
        OF_LOCAL,
        given=("categories",),
    ),
    Refusal("profile_likelihood", "profile_likelihood is for models without groups", given=("groups",)),
    Refusal("gradient_of_the_likelihood", "for models without groups", OF_JOINT, given=("groups",)),
    Refusal("gradient_of_the_likelihood", "without groups and drift", ("feature",), given=("drift",)),
    Refusal("gradient_of_the_likelihood", "without groups and drift", ("feature",), given=("categories",)),
    # A file of a feature model holds sums, and no rows.
    Refusal("left_out_of_a_file", "keeps no training rows, which left-out predictions need", ("feature",)),
    Refusal("predict_grid_where_the_data_are", "does not keep its training data; give axes", ("feature",)),
)


def refusal_of(kind: str, options: frozenset[str], promise: str) -> Refusal | None:
    """The first row of the table that is about a promise of a combination; None where it is to be kept."""
    for row in REFUSALS:
        about = row.promises == ALL or promise in ((row.promises,) if isinstance(row.promises, str) else row.promises)
        if about and kind in row.kinds and options.issuperset(row.given) and not options & set(row.unless):
            return row
    return None
