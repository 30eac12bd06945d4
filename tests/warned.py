"""Marks for tests of other things, in which the library rightly warns of one: anything else it warns of is an error."""

import pytest

far_points = pytest.mark.filterwarnings("ignore:.* length scales outside of the data")
few_features = pytest.mark.filterwarnings("ignore:The model is .* nats of KL per point from the exact")
on_bounds = pytest.mark.filterwarnings("ignore:These estimates sit on a bound")
unlike_columns = pytest.mark.filterwarnings(r"ignore:Column \d+ spreads \d+ times as wide as column")
discrete_targets = pytest.mark.filterwarnings("ignore:y (takes two values only|holds small counts)")
