"""What all feature maps have in common as scikit-learn transformers."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfield import FourierFeatures, MaclaurinFeatures, PolynomialSketch, TaylorFeatures

MAPS = [
    FourierFeatures(20),
    FourierFeatures(21, sampling="orthogonal"),
    FourierFeatures(20, sampling="structured"),
    TaylorFeatures(3),
    PolynomialSketch(20),
    PolynomialSketch(20, sampling="gaussian"),
    PolynomialSketch(21, sampling="tensor_srht", degree=3),
    MaclaurinFeatures(20),
    MaclaurinFeatures(20, sampling="tensor_srht", exact_degrees=0),
    MaclaurinFeatures(20, allocation="random"),
]
RANDOM_MAPS = [m for m in MAPS if "random_state" in m.get_params()]


def points(n=40, d=5, seed=0):
    return np.random.RandomState(seed).standard_normal((n, d))


def seeded(estimator):
    takes_a_seed = "random_state" in estimator.get_params()
    return clone(estimator).set_params(random_state=0) if takes_a_seed else clone(estimator)


@parametrize_with_checks(
    [
        FourierFeatures(random_state=0),
        FourierFeatures(sampling="orthogonal", random_state=0),
        TaylorFeatures(),
        PolynomialSketch(random_state=0),
        PolynomialSketch(sampling="tensor_srht", random_state=0),
        MaclaurinFeatures(random_state=0),
        MaclaurinFeatures(sampling="tensor_srht", exact_degrees=0, random_state=0),
        MaclaurinFeatures(allocation="random", random_state=0),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", MAPS, ids=str)
def test_works_in_a_pipeline(estimator):
    X = points(200)
    y = np.sin(X[:, 0]) + X[:, 1]
    model = make_pipeline(StandardScaler(), seeded(estimator), Ridge(1e-3)).fit(X, y)
    assert np.all(np.isfinite(model.predict(points(10, seed=1))))
    assert model[:-1].get_feature_names_out()[0] == type(estimator).__name__.lower() + "0"


@pytest.mark.parametrize("estimator", MAPS, ids=str)
def test_pandas_in_and_out_with_names(estimator):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(), columns=list("abcde"), index=range(100, 140))
    features = seeded(estimator).set_output(transform="pandas").fit(frame)
    result = features.transform(frame)
    assert isinstance(result, pd.DataFrame)
    assert list(result.columns) == list(features.get_feature_names_out())
    assert len(set(result.columns)) == features.map_.n_components
    assert list(features.feature_names_in_) == list("abcde")
    pd.testing.assert_index_equal(result.index, frame.index)
    np.testing.assert_allclose(result.to_numpy(), seeded(estimator).fit_transform(frame.to_numpy()), atol=1e-14)


@pytest.mark.parametrize("estimator", MAPS, ids=str)
def test_float32_is_kept_and_close_to_float64(estimator):
    X = points()
    features = seeded(estimator).fit(X)
    single, double = features.transform(X.astype(np.float32)), features.transform(X)
    assert single.dtype == np.float32
    assert double.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-4)
    assert seeded(estimator).fit_transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("estimator", RANDOM_MAPS, ids=str)
def test_reproducible_from_random_state(estimator):
    X = points()

    def features(random_state):
        return clone(estimator).set_params(random_state=random_state).fit_transform(X)

    np.testing.assert_array_equal(features(3), features(3))
    np.testing.assert_array_equal(features(3), features(np.random.RandomState(3)))
    assert estimator.get_params().get("exact_degrees") == "auto" or not np.array_equal(features(3), features(4))


@pytest.mark.parametrize("estimator", RANDOM_MAPS, ids=str)
def test_global_random_state_is_neither_used_nor_changed(estimator):
    X = points()
    before = np.random.get_state()  # noqa: NPY002
    first = seeded(estimator).fit_transform(X)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    np.random.seed(123)  # noqa: NPY002
    np.testing.assert_array_equal(seeded(estimator).fit_transform(X), first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", MAPS, ids=str)
def test_inputs_and_parameters_are_not_modified(estimator, dtype):
    X = points().astype(dtype)
    before = X.copy()
    features = seeded(estimator)
    if "length_scale" in features.get_params():
        features.set_params(length_scale=np.linspace(1, 2, 5))
    X.flags.writeable = False
    first = features.fit(X).transform(X)
    first[:] = 0  # what was handed out is the caller's own
    np.testing.assert_array_equal(X, before)
    assert np.any(features.transform(X) != 0)
    if "length_scale" in features.get_params():
        np.testing.assert_array_equal(features.length_scale, np.linspace(1, 2, 5))


KERNEL_MAPS = [FourierFeatures, TaylorFeatures, MaclaurinFeatures]
ALL_MAPS = [*KERNEL_MAPS, PolynomialSketch]


def refused(estimator, words, X=None):
    """Fitting fails with one sentence that opens as given and tells what it got."""
    with pytest.raises(ValueError, match=words) as caught:
        estimator.fit(points() if X is None else X)
    message = str(caught.value)
    assert "\n" not in message
    assert type(estimator).__name__ in message


@pytest.mark.parametrize("cls", KERNEL_MAPS)
@pytest.mark.parametrize(
    "value", [0, 0.0, -1.0, np.inf, np.nan, None, "long", [1.0, 2.0], [1, 1, 1, 1, 0], [[1.0] * 5]], ids=repr
)
def test_bad_length_scale(cls, value):
    words = re.escape("The 'length_scale' parameter of ") + r"\w+ must be a positive number, or 5 of them .* Got .*\.$"
    refused(cls(length_scale=value), words)


@pytest.mark.parametrize("cls", KERNEL_MAPS)
@pytest.mark.parametrize("value", [0, -2.0, np.inf, np.nan, None, "large", True], ids=repr)
def test_bad_variance(cls, value):
    refused(
        cls(variance=value), rf"^The 'variance' parameter of \w+ must be a positive, finite number\. Got {value!r}\.$"
    )


@pytest.mark.parametrize(
    ("cls", "name"),
    [
        (FourierFeatures, "n_components"),
        (PolynomialSketch, "n_components"),
        (MaclaurinFeatures, "n_components"),
        (TaylorFeatures, "degree"),
        (PolynomialSketch, "degree"),
        (MaclaurinFeatures, "max_degree"),
    ],
)
@pytest.mark.parametrize("value", [0, -1, 2.5, "many", None, True], ids=repr)
def test_bad_counts_and_degrees(cls, name, value):
    words = rf"^The '{name}' parameter of \w+ must be an integer of at least 1\. Got {value!r}\.$"
    refused(cls(**{name: value}), words)


@pytest.mark.parametrize(
    ("cls", "name", "options"),
    [
        (FourierFeatures, "sampling", "'gaussian', 'orthogonal', 'structured'"),
        (PolynomialSketch, "sampling", "'gaussian', 'rademacher', 'tensor_srht'"),
        (MaclaurinFeatures, "sampling", "'gaussian', 'rademacher', 'tensor_srht'"),
        (MaclaurinFeatures, "allocation", "'optimal', 'random'"),
    ],
)
@pytest.mark.parametrize("value", ["Gauss", None, 3], ids=repr)
def test_bad_options(cls, name, options, value):
    refused(cls(**{name: value}), rf"^The '{name}' parameter of \w+ must be one of {options}\. Got {value!r}\.$")


@pytest.mark.parametrize("value", [-1, 4, 1.5, "all", None, True], ids=repr)
def test_bad_exact_degrees(value):
    words = r"^The 'exact_degrees' parameter of \w+ must be 'auto' or an integer from 0 to max_degree=3\. Got .*\.$"
    refused(MaclaurinFeatures(exact_degrees=value, max_degree=3), words)


def test_more_exact_degrees_than_columns():
    words = r"'exact_degrees' parameter .* degree 3 in 5 columns needs 56 monomials, but n_components=50\.$"
    refused(MaclaurinFeatures(50, exact_degrees=3), words)


def test_degree_with_too_many_monomials():
    refused(
        TaylorFeatures(30), r"'degree' parameter of TaylorFeatures is too large: degree 30 in 5 columns needs 324632"
    )


@pytest.mark.parametrize("cls", [TaylorFeatures, MaclaurinFeatures])
@pytest.mark.parametrize("value", ["median", 3.0, [1.0, 2.0], list("abcde"), [np.nan] * 5, [[1], [2, 3]]], ids=repr)
def test_bad_center(cls, value):
    words = r"^The 'center' parameter of \w+ must be 'mean', None or 5 finite numbers\. Got .*\.$"
    refused(cls(center=value), words)


@pytest.mark.parametrize("cls", ALL_MAPS)
def test_text_is_refused(cls):
    pd = pytest.importorskip("pandas")
    words = rf"^Input X of {cls.__name__} must hold numbers only\. Got (column 'colour': )?'red'; encode such values as"
    text = [["red", 1.0], ["blue", 2.0]]
    refused(cls(), words, text)
    refused(cls(), words, np.array(text, dtype=object))
    refused(cls(), words, pd.DataFrame(text, columns=["colour", "size"]))
    fitted = seeded(cls()).fit(points(d=2))
    with pytest.raises(ValueError, match=words):
        fitted.transform(text)


@pytest.mark.parametrize("cls", ALL_MAPS)
@pytest.mark.parametrize(("value", "words"), [(np.nan, "Input X contains NaN"), (np.inf, "Input X contains infinity")])
def test_missing_and_infinite_values_are_refused(cls, value, words):
    X = points()
    X[3, 2] = value
    with pytest.raises(ValueError, match=words):
        cls().fit(X)
    fitted = seeded(cls()).fit(points())
    with pytest.raises(ValueError, match=words):
        fitted.transform(X)


@pytest.mark.parametrize("cls", ALL_MAPS)
def test_wrong_number_of_columns_is_refused(cls):
    fitted = seeded(cls()).fit(points(d=5))
    with pytest.raises(ValueError, match=f"X has 4 features, but {cls.__name__} is expecting 5 features as input"):
        fitted.transform(points(d=4))


@pytest.mark.parametrize("cls", ALL_MAPS)
def test_transform_needs_fit(cls):
    with pytest.raises(ValueError, match=f"This {cls.__name__} instance is not fitted yet"):
        cls().transform(points())
