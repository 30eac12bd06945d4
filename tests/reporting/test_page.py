"""The report page: its content, and in a real browser that it draws and answers."""

import base64
import json
import re
import shutil
import warnings

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

import nearfield as nf
from nearfield import webpage
from nearfield.reporting.numbers import typeset
from nearfield.reporting.page import maps
from nearfield.reporting.page.learnt import _meter
from nearfield.reporting.page.packing import STEPS, pack
from nearfield.reporting.page.slices import base_of
from nearfield.reporting.page.svg import Chart, Scale, fitted
from nearfield.sources import ArraySource

from ..warned import few_features

pytestmark = pytest.mark.usefixtures("few_probes_in_module", "coarse_maps")
CELLS = maps.CELLS
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": 0.09, "random_state": 0}
HOSTILE = "<script>alert('x')</script>"


def data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 8, (n, d))
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def plane():
    X, y = data(2000, 2)
    return nf.LocalGPRegressor(**FIXED, n_scales=1, tolerance=1e-2).fit(X, y)


@pytest.fixture(scope="module")
def page_of_plane(plane):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maps, "CELLS", CELLS)
        return webpage.build(plane, *data(300, 2, seed=1), columns=[HOSTILE, "y & z"], target="<b>height</b>")


@pytest.fixture(scope="module")
def page_of_line():
    X, y = data(80, 1)
    return webpage.build(nf.ExactGPRegressor(**FIXED).fit(X, y), X, y)


@pytest.fixture(scope="module")
def page_of_millions():
    """Targets that differ in the ninth digit."""
    X, y = data(80, 1)
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1e-4, noise_variance=1e-5).fit(X, 1e6 + 1e-2 * y)
    return webpage.build(model, X, 1e6 + 1e-2 * y)


@pytest.fixture(scope="module")
def page_of_space():
    X, y = data(400, 4)
    return webpage.build(nf.LocalGPRegressor(**FIXED, n_scales=1).fit(X, y))


@pytest.fixture(scope="module")
def page_of_globe():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-180, 180, 150), np.degrees(np.arcsin(rng.uniform(-1, 1, 150)))])
    given = {"length_scale": 2000.0, "signal_variance": 1.0, "noise_variance": 0.01, "metric": "sphere"}
    return webpage.build(nf.ExactGPRegressor(**given).fit(X, np.sin(np.radians(2 * X[:, 1]))))


@pytest.fixture(scope="module")
def page_of_columns():
    """Eighteen columns, each with a length scale of its own and a long name."""
    X, y = data(200, 18)
    scales = {"length_scale": np.geomspace(1, 1e4, 18), "signal_variance": 1.0, "noise_variance": 0.09}
    return webpage.build(
        nf.ExactGPRegressor(**scales).fit(X, y), columns=[f"a rather long name {i}" for i in range(18)]
    )


def content(page):
    """What the script is given."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def unpack(packed):
    """The numbers again, as the script sees them."""
    steps = np.frombuffer(base64.b64decode(packed["data"]), dtype="<u2").astype(np.float64)
    values = packed["lo"] + steps / STEPS * (packed["hi"] - packed["lo"])
    return np.where(steps > STEPS, np.nan, values)


# ---- parts -------------------------------------------------------------------------------------------------------


def test_packed_numbers_come_back():
    values = np.array([-3.0, 0.1, np.nan, 1e3, np.inf])
    back = unpack(json.loads(json.dumps(pack(values))))
    np.testing.assert_allclose(back[[0, 1, 3]], values[[0, 1, 3]], atol=0.5 * 1003 / 65534 * 1.001)
    assert np.isnan(back[[2, 4]]).all()
    np.testing.assert_array_equal(unpack(pack(np.full(3, 7.5))), 7.5)
    np.testing.assert_array_equal(unpack(pack(np.full(2, np.nan))), np.nan)


def test_an_axis_around_equal_values_is_not_empty():
    for scale in (Scale.around([3.0, 3.0], "x"), Scale.around([0.0], "x")):
        assert scale.low < scale.high
        assert scale.ticks()


@pytest.mark.parametrize("text", ["", "short", "rainfall in June (mm a day)"])
def test_labels_that_have_room_stay_whole(text):
    assert fitted(text, 256) == text


@pytest.mark.parametrize("letter", ["a", "M", "気"])
def test_long_labels_are_cut_to_the_room_they_have(letter):
    cut = fitted(letter * 100, 256)
    assert cut.endswith("…")
    assert 15 < len(cut) < 35
    assert len(fitted(letter * 100, 346)) > len(cut)


def test_charts_place_points_where_they_belong():
    chart = Chart(Scale(0, 10, "a<b"), Scale(0, 1, "y"), '"quoted"')
    chart.dots([5], [0.5], "dots")
    svg = chart.svg()
    assert "M227.0 128.0h0" in svg  # the middle of 68 to 386, and of 12 to 244
    assert "a&lt;b" in svg
    assert 'aria-label="&quot;quoted&quot;"' in svg


@pytest.mark.parametrize("aspect", [1e-9, 0.7, 1.0, 2.0, 1e9])
def test_grids_of_maps_stay_small(aspect, monkeypatch):
    monkeypatch.setattr(maps, "CELLS", CELLS)
    nx, ny = maps.grid_shape(aspect)
    assert 0.4 <= nx / ny <= 2.6
    assert nx * ny <= 72_000


# ---- content -----------------------------------------------------------------------------------------------------


def test_names_from_strangers_are_only_text(page_of_plane):
    assert HOSTILE not in page_of_plane
    assert "<b>height" not in page_of_plane
    assert content(page_of_plane)["map"]["names"] == [HOSTILE, "y & z"]


def test_the_page_is_small_and_asks_for_nothing(page_of_plane, page_of_line, page_of_space):
    for page in (page_of_plane, page_of_line, page_of_space):
        assert len(page.encode()) < 2_000_000
        assert not re.search(r"""(src|href|action)\s*=\s*["'](?!data:|#)""", page.split("<script", 1)[0])
        assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in page


def test_the_page_says_what_the_report_says(plane, page_of_plane):
    report = plane.report_
    for text in (report.method, report.reason, f"{report.n_probes} probes", "0.61", typeset(report.divergence, 2)):
        assert text in page_of_plane
    assert page_of_plane.count(" (chosen)</span>") == 1


def test_the_map_is_the_predictions(plane, page_of_plane):
    shown = content(page_of_plane)["map"]
    (nx, ny), ((x0, x1), (y0, y1)) = shown["shape"], shown["bounds"]
    column, row = nx // 3, ny // 4
    point = [[x0 + (column + 0.5) / nx * (x1 - x0), y0 + (row + 0.5) / ny * (y1 - y0)]]
    mean, std = plane.predict(point, return_std=True)
    step = (shown["mean"]["hi"] - shown["mean"]["lo"]) / 65534
    assert unpack(shown["mean"])[row * nx + column] == pytest.approx(mean[0], abs=step)
    assert unpack(shown["std"])[row * nx + column] == pytest.approx(std[0], abs=step)
    assert shown["centres"]["n"] == len(plane.centers_)


@pytest.fixture(scope="module")
def noisy():
    """A model whose noise has another size in each place."""
    X, y = data(300, 2)
    y = y + np.random.default_rng(1).standard_normal(300) * np.exp(0.35 * X[:, 1] - 2)
    given = {**FIXED, "noise": "local", "likelihood": "gaussian"}
    return nf.LocalGPRegressor(**given).fit(X, y)


@pytest.fixture(scope="module")
def page_of_noisy(noisy):
    return webpage.build(noisy, *data(600, 2, seed=2))


def test_a_layer_of_noise_where_it_is_local(noisy, page_of_noisy, page_of_plane):
    field = content(page_of_noisy)["map"]
    (nx, ny), ((x0, x1), (y0, y1)) = field["shape"], field["bounds"]
    noise = unpack(field["noise"]).reshape(ny, nx)
    row, column = ny // 3, nx // 4
    place = [[x0 + (column + 0.5) / nx * (x1 - x0), y0 + (row + 0.5) / ny * (y1 - y0)]]
    assert noise[row, column] == pytest.approx(np.sqrt(noisy.predict_noise(place))[0], rel=1e-3)
    assert noise[-1].mean() > 2 * noise[0].mean()
    assert "noise" not in content(page_of_plane)["map"]


def test_coverage_by_region_and_by_value(page_of_noisy, page_of_plane):
    assert "regions of the map, between" in page_of_noisy
    assert "Coverage by region, in per cent" in page_of_noisy
    assert "Coverage by predicted value" in page_of_noisy
    assert "Coverage by" not in page_of_plane  # 300 observations are too few to be split


def test_a_variogram_of_one_distance(page_of_plane, page_of_globe, page_of_columns):
    for page, unit in ((page_of_plane, ""), (page_of_globe, " (km)"), (page_of_columns, " (length scales)")):
        section = re.search(r">Variogram</h2>(.*?)</section>", page, re.S)[1]
        assert section.count('<svg class="plot"') == 1
        assert f">distance{unit}</text>" in section
        assert re.search(r"they are (<strong>)?[\d.]+ %", section)
        assert re.search(
            r'aria-label="Variogram: half the mean squared difference of two values, .+ at .+, .+ at', section
        )


def test_no_variogram_without_one_distance_or_data():
    X, y = data(100, 2)
    scales = {"length_scale": [[1.0, 2.0], [4.0, 3.0]], "signal_variance": [1.0, 1.0], "noise_variance": 0.1}
    streamed = nf.LocalGPRegressor(**FIXED, spacing=1.5, radius=2.5, features=nf.TaylorFeatures(5))
    models = [
        nf.ExactGPRegressor(**scales).fit(X, y),
        nf.ExactGPRegressor(**FIXED).fit(X[:10], y[:10]),
        nf.ExactGPRegressor(**FIXED).fit(np.ones((30, 2)), y[:30]),
        streamed.fit(ArraySource(X, y, sample_size=50)),
    ]
    for model in models:
        assert "Variogram" not in webpage.build(model, X, y)


def test_dots_far_from_the_curve_are_explained():
    X, y = data(200, 2)
    given = {"signal_variance": 1.0, "noise_variance": 0.09, "length_scale": 1.0}
    page = webpage.build(nf.ExactGPRegressor(**given).fit(X, y + 3 * X[:, 0]))
    assert "dots that rise above the curve suggest a trend" in page
    page = webpage.build(nf.ExactGPRegressor(**{**given, "signal_variance": 9.0}).fit(X, y))
    assert "the model leaves room for larger variations" in page


def test_words_about_the_kernel_are_those_of_its_family():
    X, y = data(60, 1)
    page = webpage.build(nf.ExactGPRegressor(**FIXED, kernel="matern12").fit(X, y))
    assert "one length scale apart, values correlate by 0.37, two apart by 0.14, three apart by 0.05" in page


def test_slices_go_through_the_medians(page_of_space):
    X, y = data(400, 4)
    model = nf.LocalGPRegressor(**FIXED, n_scales=1).fit(X, y)
    slices = content(page_of_space)["slices"]
    assert [shown["name"] for shown in slices] == ["x0", "x1", "x2", "x3"]
    shown = slices[2]
    point = np.median(X, axis=0)
    point[2] = shown["x"][1]
    assert unpack(shown["mean"])[-1] == pytest.approx(model.predict([point])[0], abs=1e-4)
    pictures = re.findall(r"<figure class=\"slice\".*?</figure>", page_of_space, re.S)
    heights = {tuple(re.findall(r"text-anchor=\"end\">(.*?)<", picture)) for picture in pictures}
    assert len(pictures) == 4
    assert len(heights) == 1  # one vertical axis for all


def test_slices_go_through_a_category_that_exists():
    rng = np.random.default_rng(0)
    town = np.eye(4)[rng.choice(4, 101, p=[0.2, 0.4, 0.2, 0.2])] * (1 + 1e-15)
    height = rng.uniform(0, 1, 101)
    base = base_of(np.column_stack([height, town]))
    assert base.tolist() == [np.median(height), 0, 1, 0, 0]


def towns(n=300, seed=0, kinds=("sea", "hill <b>", "plain")):
    """Height and a category a row, as the command line encodes it; targets differ by category."""
    rng = np.random.default_rng(seed)
    which = rng.choice(len(kinds), n)
    X = np.column_stack([rng.uniform(0, 3, n), np.eye(len(kinds))[which]])
    y = np.sin(X[:, 0]) + 2.0 * which + 0.1 * rng.standard_normal(n)
    return X, y, ["height", *(f"town={kind}" for kind in kinds)]


def test_categories_stand_side_by_side():
    X, y, columns = towns()
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=4.0, noise_variance=0.01).fit(X, y)
    page = webpage.build(model, X, y, columns=columns)
    assert [shown["name"] for shown in content(page)["slices"]] == ["height"]
    (chart,) = re.findall(r"<figure><svg (?!class).*?</svg></figure>", page, re.S)
    base = base_of(X)
    expected = []
    for j in (1, 2, 3):
        point = base.copy()
        point[1:], point[j] = 0, 1
        expected.append(typeset(model.predict([point])[0]))
    said = re.search(r'aria-label="target by town: (.*?), with 95 % intervals"', chart)[1]
    assert said == f"sea {expected[0]}, hill &lt;b&gt; {expected[1]}, plain {expected[2]}"
    assert ">hill &lt;b&gt;</text>" in chart
    assert chart.count('class="curve"') == 3


def test_many_categories_are_cut_to_the_most_common():
    X, y, columns = towns(kinds=[f"k{i}" for i in range(12)])
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=4.0, noise_variance=0.01).fit(X, y)
    page = webpage.build(model, X, y, columns=columns)
    assert "town (8 most common of 12)" in page


def test_columns_that_are_no_categories_of_one_are_slices():
    X, y, columns = towns()
    X[0, 1:] = 1  # all at once: these are flags, and no categories
    model = nf.ExactGPRegressor(length_scale=1.0, signal_variance=4.0, noise_variance=0.01).fit(X, y)
    assert len(content(webpage.build(model, X, y, columns=columns))["slices"]) == 4


def test_estimates_on_a_bound_are_named_by_column():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (200, 3))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nf.ExactGPRegressor(ard=True, random_state=0).fit(X, y)
    assert model.learned_.on_bounds
    page = webpage.build(model, X, y, columns=["height", "width", "depth"])
    assert "On a bound of what was allowed: length scale of width = " in page


def test_scores_and_charts_are_of_the_data(plane, page_of_plane, page_of_space):
    X, y = data(300, 2, seed=1)
    assert typeset(nf.metrics.rmse(y, plane.predict(X))) in page_of_plane
    assert "Calibration." in page_of_plane
    assert "Calibration." not in page_of_space


def test_a_projection_draws_a_map_of_other_inputs():
    X = np.random.default_rng(0).standard_normal((200, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    model = nf.ExactGPRegressor(**FIXED).fit(X, X[:, 2])

    def to_inputs(p):
        lon, lat = np.radians(p).T
        return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    def from_inputs(p):
        return np.degrees(np.column_stack([np.arctan2(p[:, 1], p[:, 0]), np.arcsin(p[:, 2])]))

    sphere = webpage.Projection(("lon", "lat"), ((-180, 180), (-90, 90)), to_inputs, from_inputs)
    shown = content(webpage.build(model, projection=sphere, inverse=lambda z: z**3))["map"]
    (nx, ny), top = shown["shape"], unpack(shown["mean"])[-1]
    mean, std = model.predict(to_inputs(np.array([[180 - 180 / nx, 90 - 90 / ny]])), return_std=True)
    assert top == pytest.approx(mean[0] ** 3, abs=1e-4)
    assert unpack(shown["std"])[-1] == pytest.approx(((mean + std) ** 3 - (mean - std) ** 3)[0] / 2, abs=1e-4)
    assert shown["words"][0] == "median"


@few_features
def test_models_of_every_kind_have_a_page(page_of_line):
    assert "<p>None: this is the exact Gaussian process.</p>" in page_of_line
    X, y = data(60, 3)
    features = nf.FeatureGPRegressor(nf.FourierFeatures(32, random_state=0), ard=False, **FIXED).fit(X, y)
    assert "nats of KL per test point from the exact Gaussian process" in webpage.build(features, X, y)
    several = nf.LocalGPRegressor(**{**FIXED, "length_scale": [1.0, 2.0, 3.0]}).fit(X, np.column_stack([y, y]))
    page = webpage.build(several, X, np.column_stack([y, y]))
    assert "2 targets" in page
    assert '<th scope="row">x2</th><td>3</td>' in page


def test_models_at_the_edges_have_a_page():
    X = np.arange(12.0).reshape(6, 2) ** 1.5
    certain = nf.ExactGPRegressor(length_scale=1.0, signal_variance=1.0, noise_variance=0.0).fit(X, X[:, 0])
    assert "coverage" in webpage.build(certain, X, X[:, 0])  # with no noise at all
    flat = nf.ExactGPRegressor(**FIXED).fit(np.ones((5, 1)), np.zeros(5))
    assert "<svg" in webpage.build(flat, np.ones((1, 1)), [0.0])  # nothing varies, and there is one observation
    X, y = data(60, 2)
    foreign = nf.FeatureGPRegressor(Nystroem(n_components=20, random_state=0)).fit(X, y)
    assert "length scale of its own" in webpage.build(foreign, X, y)
    wide = nf.ExactGPRegressor(**FIXED).fit(np.random.default_rng(0).standard_normal((40, 30)), np.arange(40.0))
    assert "6 more columns are not shown" in webpage.build(wide)


@few_features
def test_what_does_not_fit_together_is_refused(plane):
    with pytest.raises(ValueError, match="2 columns"):
        webpage.build(plane, columns=["a"])
    with pytest.raises(ValueError, match="y was given without X"):
        webpage.build(plane, y=[1.0])
    with pytest.raises(ValueError, match="features"):
        webpage.build(plane, np.ones((5, 3)), np.ones(5))
    with pytest.raises(ValueError, match="features"):
        webpage.build(plane, np.ones((5, 3)))
    with pytest.raises(ValueError, match="inconsistent"):
        webpage.build(plane, np.ones((5, 2)), np.ones(4))
    with pytest.raises(TypeError, match=r"X must be rows in memory, as an array or a DataFrame\. Got ArraySource"):
        webpage.build(plane, ArraySource(*data(5, 2)))
    X, y = data(60, 3)
    features = nf.FeatureGPRegressor(nf.FourierFeatures(32, random_state=0), **FIXED).fit(X, y)
    with pytest.raises(ValueError, match="give X"):
        webpage.build(features)


def test_a_model_that_forgot_its_training_data_has_a_page():
    X, y = data(30, 1)
    model = nf.LocalGPRegressor(**FIXED).fit(X, y).partial_fit(ArraySource(X[:0], y[:0]), forget=True)
    assert "trained on the inputs" not in webpage.build(model, X, y)


def test_a_file_is_written_whole_or_not_at_all(plane, tmp_path):
    target = tmp_path / "report.html"
    plane.to_html(target, title="A & B")
    assert "<h1>A &amp; B</h1>" in target.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="columns"):
        plane.to_html(target, columns=["a"])
    with pytest.raises(FileNotFoundError):
        plane.to_html(tmp_path / "nowhere" / "report.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


# ---- in a browser ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        pytest.skip("no chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Open HTML in a tab; at the end, nothing may have been asked for or complained about."""
    troubles, tabs = [], []

    def open_page(html, **options):
        (tmp_path / "page.html").write_text(html, encoding="utf-8")
        tab = browser.new_page(**{"viewport": {"width": 1000, "height": 800}, **options})
        address = (tmp_path / "page.html").as_uri()
        tab.on("console", lambda message: troubles.append(message.text))
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        tab.on(
            "request", lambda r: troubles.append(r.url) if r.url != address and not r.url.startswith("data:") else None
        )
        tab.goto(address)
        tabs.append(tab)
        return tab

    yield open_page
    for tab in tabs:
        tab.close()
    assert troubles == []


def colours(tab):
    """Number of different colours on the canvas."""
    return tab.evaluate(
        """() => { const c = document.getElementById("canvas");
        const d = new Uint32Array(c.getContext("2d").getImageData(0, 0, c.width, c.height).data.buffer);
        return new Set(d).size; }"""
    )


def view(tab):
    return tab.evaluate("() => { const d = document.getElementById('canvas').dataset; return [+d.x, +d.y, +d.zoom]; }")


def test_only_the_own_script_runs(browser, page_of_line, tmp_path):
    smuggled = "<script>document.title = 'bad'</script><img src=x onerror=\"document.title = 'bad'\">"
    (tmp_path / "page.html").write_text(page_of_line.replace("<h1>", smuggled + "<h1>"), encoding="utf-8")
    tab = browser.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    tab.locator(".slice svg").hover()
    assert tab.title() != "bad"
    assert tab.locator(".slice output").inner_text().startswith("x0 = ")
    tab.close()


def test_the_map_is_drawn_and_answers_the_pointer(visit, plane, page_of_plane):
    tab = visit(page_of_plane)
    assert colours(tab) > 500
    canvas = tab.locator("#canvas")
    canvas.hover(position={"x": 300, "y": 250})
    said = tab.locator("#readout").inner_text()
    values = [float(v.replace("\N{MINUS SIGN}", "-")) for v in re.findall(r"[−\d.]+(?=[,:]|$)", said)]  # noqa: RUF001
    x, y, mean, std = values
    expected = plane.predict([[x, y]], return_std=True)
    assert mean == pytest.approx(expected[0][0], abs=0.05)
    assert std == pytest.approx(expected[1][0], abs=0.02)
    assert tab.locator("#tip").is_visible()
    assert HOSTILE in tab.locator("#tip").inner_text()
    tab.mouse.move(5, 5)
    assert not tab.locator("#tip").is_visible()


def test_the_map_zooms_at_the_pointer_and_is_dragged(visit, page_of_plane):
    tab = visit(page_of_plane)
    tab.locator("#canvas").hover(position={"x": 300, "y": 250})
    before = tab.locator("#readout").inner_text()
    tab.mouse.wheel(0, -600)
    tab.wait_for_function("document.getElementById('canvas').dataset.zoom > 1.5")
    coordinates = [re.findall(r"[\d.]+", text)[0] for text in (before, tab.locator("#readout").inner_text())]
    assert float(coordinates[0]) == pytest.approx(float(coordinates[1]), abs=0.02)  # what was under it still is
    x, y, zoom = view(tab)
    box = tab.locator("#canvas").bounding_box()
    tab.mouse.move(box["x"] + 400, box["y"] + 200)
    tab.mouse.down()
    tab.mouse.move(box["x"] + 340, box["y"] + 230, steps=4)
    tab.mouse.up()
    moved = view(tab)
    assert moved[0] > x
    assert moved[1] > y
    assert moved[2] == zoom


def test_the_map_obeys_buttons_and_keys(visit, page_of_plane):
    tab = visit(page_of_plane)
    tab.get_by_role("button", name="Zoom in").click()
    tab.get_by_role("button", name="Zoom in").click()
    assert view(tab)[2] == pytest.approx(1.6**2, abs=0.01)
    tab.get_by_role("button", name="Zoom out").click()
    assert view(tab)[2] == pytest.approx(1.6, abs=0.01)
    tab.locator("#canvas").focus()
    x, y, _ = view(tab)
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("ArrowDown")
    assert view(tab)[0] > x
    assert view(tab)[1] < y
    assert "mean" in tab.locator("#readout").inner_text()
    tab.keyboard.press("0")
    assert view(tab)[2] == 1


def test_the_map_shows_other_layers(visit, page_of_plane):
    tab = visit(page_of_plane)
    picture = "document.getElementById('canvas').toDataURL()"
    seen = {tab.evaluate(picture)}
    tab.locator(".choice").get_by_text("standard deviation").click()
    seen.add(tab.evaluate(picture))
    assert "standard deviation of <b>height</b>" in tab.locator("#what").inner_text()
    for name in ("training points", "centres"):
        tab.get_by_label(name).check()
        seen.add(tab.evaluate(picture))
    assert len(seen) == 4


def test_the_map_shows_noise_where_there_is_a_layer_of_it(visit, page_of_noisy, page_of_plane):
    tab = visit(page_of_noisy)
    tab.locator(".choice").get_by_text("noise").click()
    assert tab.locator("#what").text_content() == "standard deviation of the noise of target"
    tab.locator("#canvas").hover()
    assert ", noise " in tab.locator("#readout").text_content()
    assert visit(page_of_plane).locator(".choice").get_by_text("noise").count() == 0


def test_a_pinch_zooms(visit, page_of_plane):
    tab = visit(page_of_plane)
    tab.evaluate(
        """() => { const c = document.getElementById("canvas"), b = c.getBoundingClientRect();
        c.setPointerCapture = () => {};
        const send = (type, id, x) => c.dispatchEvent(new PointerEvent(type,
            { pointerId: id, pointerType: "touch", clientX: b.left + x, clientY: b.top + 150, bubbles: true }));
        send("pointerdown", 1, 200); send("pointerdown", 2, 300);
        send("pointermove", 2, 400); send("pointerup", 1, 200); send("pointerup", 2, 400); }"""
    )
    assert view(tab)[2] == pytest.approx(2, abs=0.01)


def test_slices_answer_the_pointer_and_keys(visit, page_of_space):
    tab = visit(page_of_space)
    figure = tab.locator(".slice").nth(1)
    figure.locator("svg").hover()
    said = figure.locator("output").inner_text()
    assert said.startswith("x1 = ")
    figure.focus()
    tab.keyboard.press("ArrowRight")
    assert figure.locator("output").inner_text() != said


@pytest.mark.parametrize("name", ["page_of_plane", "page_of_line", "page_of_space"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_readable_on_a_phone(visit, request, name, scheme):
    tab = visit(request.getfixturevalue(name), viewport={"width": 375, "height": 700}, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 375
    sizes = tab.evaluate("[...document.querySelectorAll('svg text')].map(t => t.getBoundingClientRect().height)")
    assert min(sizes) > 8
    back, ink = tab.evaluate("(s => [s.backgroundColor, s.color])(getComputedStyle(document.body))")
    dark = sum(map(int, re.findall(r"\d+", back)[:3])) < sum(map(int, re.findall(r"\d+", ink)[:3]))
    assert dark == (scheme == "dark")


@pytest.mark.parametrize(
    ("name", "n_pictures"),
    [("page_of_plane", 5), ("page_of_line", 4), ("page_of_millions", 4), ("page_of_globe", 1), ("page_of_columns", 1)],
)
def test_words_in_pictures_are_whole_and_apart(visit, request, name, n_pictures):
    tab = visit(request.getfixturevalue(name))
    pictures = tab.evaluate(
        """() => [...document.querySelectorAll(".plot")].map(svg => [svg, ...svg.querySelectorAll("text")].map(e => {
        const b = e.getBoundingClientRect(); return [b.left, b.right, b.top, b.bottom]; }))"""
    )
    assert len(pictures) == n_pictures
    for frame, *words in pictures:
        assert len(words) > 8
        for i, (left, right, top, bottom) in enumerate(words):
            assert frame[0] <= left < right <= frame[1]
            assert frame[2] <= top < bottom <= frame[3]
            for other in words[:i]:  # boxes of words have room above and below the letters
                assert right <= other[0] or other[1] <= left or bottom <= other[2] + 6 or other[3] - 6 <= top


def test_the_page_prints(visit, page_of_plane):
    tab = visit(page_of_plane, color_scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not tab.locator(".tools").is_visible()
    assert tab.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("measured", [1e-9, 1e-4, 6e-4, 9.9e-4, 1e-3, 1.1e-3, 2e-3, 5.0])
def test_the_labels_of_the_meter_keep_apart_and_inside(measured):
    spans = []
    for x, side, text in re.findall(r'x="([\d.]+)" y="13" text-anchor="(\w+)">(\w+)<', _meter(measured, 1e-5, 1e-3)):
        width = 7.2 * len(text)
        left = float(x) - (width if side == "end" else 0)
        spans.append((left, left + width))
    (first, second) = sorted(spans)
    assert first[0] >= 0
    assert first[1] + 5 < second[0]
    assert second[1] <= 460
