import sys

import numpy as np
import pytest
import sklearn
from scipy.special import ndtri
from sklearn.exceptions import NotFittedError

import nearfield as nf

FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09}
X = np.random.default_rng(0).uniform(0, 6, (50, 2))
Y = np.sin(X)


def test_a_frame_has_the_index_of_its_data():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {i}" for i in range(50)])
    model = nf.ExactGPRegressor(**FIXED).fit(frame, Y[:, 0])
    with pytest.warns(FutureWarning, match="predict_frame includes noise .* say include_noise=True"):
        answer = model.predict_frame(frame[10:13], level=0.8)
    mean, std = model.predict(frame[10:13], return_std=True, include_noise=True)
    assert list(answer.index) == ["row 10", "row 11", "row 12"]
    assert list(answer) == ["mean", "std", "lower", "upper"]
    np.testing.assert_allclose(answer["std"], std)
    np.testing.assert_allclose(answer["upper"], mean + ndtri(0.9) * std)
    np.testing.assert_allclose(answer["lower"] + answer["upper"], 2 * mean)
    with pytest.raises(ValueError, match="names"):
        model.predict_frame(frame[["b", "a"]], include_noise=True)
    for level in (95, "a", None):
        with pytest.raises(ValueError, match="'level' argument must lie between 0 and 1"):
            model.predict_frame(frame, level=level, include_noise=True)


def test_a_frame_of_several_targets():
    pytest.importorskip("pandas")
    model = nf.ExactGPRegressor(**FIXED).fit(X, Y)
    answer = model.predict_frame(X[:3], include_noise=False)
    mean, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(answer["mean_1"], mean[:, 1])
    np.testing.assert_allclose(answer["std_0"], std[:, 0])
    assert len(answer.columns) == 8


def test_without_pandas_one_sentence_says_what_to_install(monkeypatch):
    model = nf.ExactGPRegressor(**FIXED).fit(X, Y)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        model.predict_frame(X)


def test_a_model_fitted_on_tensors_is_refused():
    """On a GPU, pandas failed to read the answers; `predict_grid` and `to_html` refused before."""
    pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    points = torch.tensor(X)
    model = nf.ExactGPRegressor(**FIXED).fit(points, torch.tensor(Y[:, 0]))
    with pytest.raises(ValueError, match="predict_frame needs a model fitted on NumPy arrays"):
        model.predict_frame(points)
    with pytest.raises(ValueError, match="The page needs a model fitted on NumPy arrays"):
        nf.webpage.build(model)


def test_a_frame_needs_a_fit_before_anything_else():
    pytest.importorskip("pandas")
    with pytest.raises(NotFittedError):
        nf.ExactGPRegressor(**FIXED).predict_frame(X, level=95)


def test_a_frame_of_rows_whose_number_is_not_known_yet():
    """Dask does not know how many rows its frames have, and pandas asked."""
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = nf.LocalGPRegressor(**FIXED).fit(frame, Y[:, 0])
    answer = model.predict_frame(dd.from_pandas(frame, npartitions=2), include_noise=True)
    np.testing.assert_allclose(answer, model.predict_frame(frame, include_noise=True))


def test_the_repr_names_what_was_changed():
    assert repr(nf.LocalGPRegressor(tolerance=0.01)) == "LocalGPRegressor(tolerance=0.01)"


def test_notebooks_show_the_report_of_a_fitted_model():
    model = nf.LocalGPRegressor(**FIXED)
    before = model._repr_mimebundle_()["text/html"]
    assert "chosen because" not in before
    model.fit(X, Y)
    after = model._repr_mimebundle_()["text/html"]
    assert "sk-estimator" in after  # scikit-learn's diagram
    assert f"<td style='text-align:left'>{model.report_.reason}</td>" in after
    assert model._repr_html_() == after or "chosen because" in model._repr_html_()
    with sklearn.config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"]


def test_notebooks_show_the_hyperparameters_of_models_without_a_report():
    model = nf.ExactGPRegressor(length_scale=[1.0, 2.5], noise_variance=0.09, signal_variance=1.0).fit(X, Y)
    shown = model._repr_mimebundle_()["text/html"]
    assert "<pre>    length scale\nx0             1\nx1           2.5</pre>" in shown


def test_feature_maps_have_a_short_repr_and_reports_their_degree():
    given = {**FIXED, "spacing": 1.0, "radius": 4.0}
    model = nf.LocalGPRegressor(**given, features=nf.TaylorFeatures(6), random_state=0).fit(X, Y)
    assert repr(model.feature_map_) == "LocalFeatures(Taylor of degree 6, 28 columns)"
    assert model.report_.degrees == (6,)
    assert "28 Taylor features of degree 6 each" in str(model.report_)
    two = {**given, "length_scale": [1.0, 3.0], "signal_variance": [0.5, 0.5], "n_scales": 2}
    model = nf.LocalGPRegressor(**two, features=nf.TaylorFeatures(6), random_state=0).fit(X, Y)
    assert repr(model.feature_map_) == "LocalFeatures(Taylor of degree 6, 6, 56 columns)"
    model = nf.LocalGPRegressor(**given, features=nf.MaclaurinFeatures(32), random_state=0).fit(X, Y)
    assert repr(model.feature_map_) == "LocalFeatures(Maclaurin, 32 columns)"
    assert model.report_.degrees == ()


def test_a_report_is_a_table_in_notebooks():
    report = nf.LocalGPRegressor(**FIXED).fit(X, Y).report_
    assert report._repr_html_().startswith("<table><caption")
    assert "chosen because" in report._repr_html_()


def test_a_page_without_a_path_is_given_back_and_shown_in_a_frame():
    model = nf.ExactGPRegressor(**FIXED).fit(X[:, :1], Y[:, 0])
    page = model.to_html()
    assert page.startswith("<!doctype html>")
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "<script" not in page._repr_html_()
