import re
import warnings
from dataclasses import replace

import numpy as np
import pytest

from nearfield import ExactGPRegressor, LocalGPRegressor, MaclaurinFeatures, TaylorFeatures, metrics
from nearfield.kernels import Kernel
from nearfield.local import by_radius as tuning
from nearfield.local import choices, iteration
from nearfield.local.by_radius import choose
from nearfield.local.choices import Request
from nearfield.local.exact_budget import exact_cost
from nearfield.local.neighbourhoods import TrainingSet
from nearfield.local.one_center import NestedSubsets, OneCenterSearch
from nearfield.local.plan import Plan
from nearfield.local.probes import make_neighbourhoods

from ..small import exact_at_most, exact_up_to

KERNEL = Kernel.gaussian(1.0)
NOISE = 0.09
FIXED = {"length_scale": 1.0, "signal_variance": 1.0, "noise_variance": NOISE, "random_state": 0}
N_TRAIN, N_TEST = 2200, 600
WIDTHS = {1: 45.0, 2: 11.0, 3: 5.5}


def draw(X, seed, n_waves=200):
    """A function from the prior, nearly: many waves with the frequencies of the Gaussian kernel."""
    rng = np.random.RandomState(seed)
    frequencies, phases = rng.standard_normal((n_waves, X.shape[1])), rng.uniform(0, 2 * np.pi, n_waves)
    return np.cos(X @ frequencies.T + phases) @ rng.standard_normal(n_waves) * (2 / n_waves) ** 0.5


def synthetic(n, d, width, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.uniform(0, width, (n, d))
    return X, draw(X, seed) + NOISE**0.5 * rng.standard_normal(n)


def clumped(n, d, seed=0):
    """Dense places and empty ones."""
    rng = np.random.RandomState(seed)
    middles = rng.uniform(0, 12, (20, d))
    X = middles[rng.randint(20, size=n)] + rng.uniform(0.2, 1.2, (n, 1)) * rng.standard_normal((n, d))
    return X, draw(X, seed) + NOISE**0.5 * rng.standard_normal(n)


class Case:
    """Data, the exact process on them, and what a local model should come near to."""

    def __init__(self, X, y):
        self.X, self.y, self.test = X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:]
        exact = ExactGPRegressor(**FIXED).fit(self.X, self.y)
        self.mean, self.std = exact.predict(self.test, return_std=True, include_noise=True)

    def divergence(self, model):
        mean, std = model.predict(self.test, return_std=True, include_noise=True)
        return metrics.kl_divergence(mean, std**2, self.mean, self.std**2).mean()


@pytest.fixture(scope="module", params=["1", "2", "3", "clumps"])
def case(request):
    n = N_TRAIN + N_TEST
    if request.param == "clumps":
        return Case(*clumped(n, 2))
    d = int(request.param)
    return Case(*synthetic(n, d, WIDTHS[d]))


# ---- the promise -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_the_tolerance_is_kept_and_the_report_is_right(case, tolerance):
    model = LocalGPRegressor(**FIXED, tolerance=tolerance).fit(case.X, case.y)
    report = model.report_
    truth = case.divergence(model)
    assert report.method != "the exact Gaussian process"
    assert truth <= tolerance
    assert report.divergence <= tolerance
    # If in doubt, on the safe side; centres of clumps are nearer to their points than those of a lattice.
    # What is far below the tolerance may hang on a single test point.
    assert truth / 3 <= max(report.divergence, tolerance / 100)
    assert report.divergence <= max(truth * 10, tolerance / 3)
    assert report.tolerance_met
    assert report.n_probes > 20


def test_one_centre_for_many_smooth_columns_keeps_the_promise_too(monkeypatch):
    monkeypatch.setattr(iteration, "MOST_PAIRS", 0)  # no exact mean, which would be the way
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 1.7, (N_TRAIN + N_TEST, 6))
    case = Case(X, draw(X, 0) + NOISE**0.5 * rng.standard_normal(len(X)))
    with exact_up_to(0):
        model = LocalGPRegressor(**FIXED, tolerance=1e-2).fit(case.X, case.y)
    truth = case.divergence(model)
    assert model.report_.n_centers == 1
    assert model.radius_ is None
    assert model.feature_map_ is not None
    assert truth <= 1e-2
    assert truth / 3 <= model.report_.divergence <= truth * 3


@pytest.mark.parametrize("seed", [0, 1])
def test_tight_clusters_that_shrink_to_a_few_averages_keep_the_promise(seed):
    """Averages in the place of the points are fewer than features, and would be solved exactly; the points are not."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(3, 2))[rng.integers(3, size=1800)] + 1e-3 * rng.uniform(size=(1800, 2))
    y = np.sin(X[:, 0]) + 0.03 * rng.standard_normal(1800)
    given = {"length_scale": 1.4, "signal_variance": 1.0, "noise_variance": 1e-3}
    local = LocalGPRegressor(**given, n_scales=1, tolerance=1e-3, random_state=0).fit(X, y)
    mean, std = local.predict(X, return_std=True, include_noise=True)
    exact = ExactGPRegressor(**given).fit(X, y).predict(X, return_std=True, include_noise=True)
    assert metrics.kl_divergence(mean, std**2, exact[0], exact[1] ** 2).mean() < 1e-3


@pytest.mark.usefixtures("few_probes")
def test_a_tighter_tolerance_costs_more():
    X, y = synthetic(2500, 2, 13.0)
    data = TrainingSet.of(X, y[:, None], np.full(len(X), NOISE))
    costs = []
    for tolerance in (1.0, 1e-2, 1e-3):
        choice = choose(KERNEL, data, Request(tolerance), 1, np.random.RandomState(0))
        costs.append(next(t.cost for t in choice.trials if t.candidate is choice.candidate))
        assert choice.distance.observations.mean <= tolerance
        assert choice.met
    assert costs[0] < costs[1] < costs[2] < exact_cost(2500)


@pytest.mark.usefixtures("few_probes")
def test_the_choice_is_the_cheapest_measured_that_meets_the_tolerance(monkeypatch):
    monkeypatch.setattr(tuning.RadiusSearch, "_gap_places", lambda search: search.data.X[:0])
    X, y = synthetic(2000, 2, 12.0)
    data = TrainingSet.of(X, y[:, None], np.full(len(X), NOISE))
    n_others = 0
    for seed in range(3):
        choice = choose(KERNEL, data, Request(1e-2, speeds=choices.Speeds(models=0.0)), 1, np.random.RandomState(seed))
        latest = {id(trial.candidate): trial for trial in choice.trials}  # some are measured again, at more probes
        chosen = latest.pop(id(choice.candidate))
        assert chosen.distance == choice.near_data
        limit = tuning.LUCKY_SHARE * tuning.RadiusSearch.share * 1e-2
        others = [trial for trial in latest.values() if trial.divergence + trial.error <= limit]
        n_others += len(others)
        assert all(chosen.cost <= trial.cost for trial in others)
    assert n_others > 0


# ---- confirmation ------------------------------------------------------------------------------------------------


class Recorder:
    """Makes neighbourhoods of probes, changes those that choose or those that confirm, and remembers them."""

    def __init__(self, flattered=None, worsened=None):
        self.flattered, self.worsened, self.sets, self.rows = flattered, worsened, [], []

    def __call__(self, kernel, data, rows, radius, n, n_jobs, rng, **further):
        choosing = not self.rows or np.array_equal(rows, self.rows[0])
        if choosing and self.flattered is not None:
            made = make_neighbourhoods(kernel, data, rows, radius, 5 * n, n_jobs, rng, **further)
            made = sorted(made, key=self.flattered)[:n]
        else:
            made = make_neighbourhoods(kernel, data, rows, radius, n, n_jobs, rng, **further)
        if not choosing and self.worsened is not None:
            made = [self.worsened(neighbourhood) for neighbourhood in made]
        self.sets.append(made)
        self.rows.append(rows)
        return made


def shifted(reference):
    return replace(reference, mean=reference.mean + 1.0)


def training_set(X, y):
    return TrainingSet.of(X, y[:, None], np.full(len(X), NOISE))


def assert_measured_at(choice, sets):
    """In the last of some sets of neighbourhoods, or in several where one was too small to tell."""
    probed = sets[-1]
    for earlier in sets[-2::-1]:
        if sum(p.n_probes for p in probed) >= choice.n_probes:
            break
        probed = [*earlier, *probed]
    values = np.stack([p.divergence(choice.candidate) for p in probed], axis=1)
    for figure, own in zip((choice.near_data.observations, choice.near_data.function), values, strict=True):
        np.testing.assert_allclose(figure.mean, own.mean(), rtol=1e-5)
        np.testing.assert_allclose(figure.error, own.std(ddof=1) / len(own) ** 0.5, rtol=1e-5)
    assert choice.n_probes == sum(p.n_probes for p in probed)


@pytest.mark.usefixtures("few_probes")
@pytest.mark.filterwarnings("ignore:tolerance")
@pytest.mark.parametrize("given", [{}, {"radius": 2.5}, {"radius": 1.0}], ids=str)
def test_the_figure_is_from_probes_that_had_no_part_in_the_choice(given):
    recorder = Recorder()
    data = training_set(*clumped(2000, 2))
    choice = choose(KERNEL, data, Request(1e-2, **given), 1, np.random.RandomState(0), worlds=recorder)
    assert len(recorder.sets) > 1
    assert_measured_at(choice, recorder.sets)
    last = recorder.rows.pop()
    assert not any(np.intersect1d(last, rows).size for rows in recorder.rows)


@pytest.mark.usefixtures("few_probes")
def test_what_only_looks_good_where_it_was_chosen_is_given_up():
    """The probes that choose are those where a small radius does well."""
    small = choices.Candidate(1.0, Plan(KERNEL, 2.0, None), "")
    data = training_set(*clumped(2500, 2))
    for seed in range(10):  # in one of them, what was chosen is not confirmed
        recorder = Recorder(flattered=lambda neighbourhood: neighbourhood.divergence(small)[0])
        choice = choose(KERNEL, data, Request(1e-3), 1, np.random.RandomState(seed), worlds=recorder)
        choosing = next(i for i, rows in enumerate(recorder.rows) if not np.array_equal(rows, recorder.rows[0]))
        if len(recorder.sets) - choosing > 1:
            break
    first_fresh = recorder.sets[choosing]
    rejected = [t.distance.observations.mean for t in choice.trials if not t.distance.within(1e-3)]
    at_first = [np.mean([p.divergence(t.candidate) for p in first_fresh], axis=0)[0] for t in choice.trials]
    assert len(recorder.sets) - choosing > 1  # more than one confirmation
    assert np.isclose(np.array(rejected)[:, None], at_first).any()
    assert choice.met
    assert choice.distance.within(1e-3)
    assert_measured_at(choice, recorder.sets)


@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("n_exact", [0, 12_000])
def test_a_choice_that_nothing_confirms(monkeypatch, n_exact):
    exact_at_most(monkeypatch, n_exact)
    recorder = Recorder(
        worsened=lambda neighbourhood: replace(neighbourhood, reference=shifted(neighbourhood.reference))
    )
    data = training_set(*synthetic(2000, 2, 12.0))
    choice = choose(KERNEL, data, Request(1e-2), 1, np.random.RandomState(0), worlds=recorder)
    if n_exact:
        assert choice.candidate.plan.is_exact
        assert choice.reason == "nothing cheaper meets the tolerance"
    else:
        assert not choice.met
        assert choice.reason == choices.CLOSEST
        assert choice.distance.observations.mean > 0.1
        assert_measured_at(choice, recorder.sets)


def test_one_centre_is_confirmed_on_other_subsets(monkeypatch):
    made = []

    def make(self, group):
        made.append((original(self, group), self.probe_rows[group]))
        return made[-1][0]

    original = OneCenterSearch.make_probed
    monkeypatch.setattr(OneCenterSearch, "make_probed", make)
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 1.0, (1800, 5))
    data = training_set(X, np.sin(X.sum(axis=1)) + NOISE**0.5 * rng.standard_normal(1800))
    with exact_up_to(0):
        choice = choose(KERNEL, data, Request(1e-2), 1, rng)
    assert len(made) >= 2
    ([last], rows) = made[-1]
    assert isinstance(last, NestedSubsets)
    found = (choice.near_data.observations.mean, choice.near_data.function.mean)
    np.testing.assert_allclose(found, last.divergence(choice.candidate), rtol=1e-9)
    assert choice.n_probes == last.n_probes
    assert not np.intersect1d(rows, made[0][1]).size


# ---- which way out -----------------------------------------------------------------------------------------------


def test_small_data_end_with_the_exact_process():
    X, y = synthetic(600, 2, 14.0)
    model = LocalGPRegressor(**FIXED).fit(X, y)
    exact = ExactGPRegressor(**FIXED).fit(X, y)
    test = np.random.RandomState(1).uniform(-2, 16, (200, 2))
    for found, expected in zip(model.predict(test, return_std=True), exact.predict(test, return_std=True), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)
    assert model.report_.divergence == 0
    assert model.report_.method == "the exact Gaussian process"
    assert model.radius_ is None
    assert model.feature_map_ is None


@pytest.mark.usefixtures("few_probes")
@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_smooth_data_end_with_one_centre(d):
    rng = np.random.RandomState(0)
    X = rng.uniform(0, 0.5, (2000, d))
    model = LocalGPRegressor(**FIXED).fit(X, X.sum(axis=1) + NOISE**0.5 * rng.standard_normal(2000))
    assert len(model.centers_) == 1
    assert model.report_.divergence <= 1e-3
    assert model.report_.n_components < 300


@pytest.mark.usefixtures("few_probes")
def test_what_neighbourhoods_cannot_do_the_exact_process_does(monkeypatch):
    monkeypatch.setattr(iteration, "MOST_PAIRS", 0)
    X, y = synthetic(1800, 3, 4.0)
    model = LocalGPRegressor(**FIXED, tolerance=1e-9).fit(X, y)
    assert model.report_.method == "the exact Gaussian process"
    assert model.report_.tolerance_met
    assert model.report_.reason == "nothing cheaper meets the tolerance"
    assert len(model.report_.trials) > 0


@pytest.mark.usefixtures("few_probes")
def test_what_neighbourhoods_cannot_do_an_exact_mean_does():
    X, y = synthetic(2000, 2, 12.0)
    model = LocalGPRegressor(**FIXED, tolerance=1e-7).fit(X[:1800], y[:1800])
    assert model.report_.exact_mean
    assert "solved for all data" in str(model.report_)
    exact = ExactGPRegressor(**FIXED).fit(X[:1800], y[:1800])
    mean, std = exact.predict(X[1800:], return_std=True, include_noise=True)
    np.testing.assert_allclose(model.predict(X[1800:]), mean, atol=1e-4 * std.min())
    answers = model.predict(X[1800:], return_std=True, include_noise=True)
    np.testing.assert_allclose(answers[0], mean, atol=1e-4 * std.min())
    np.testing.assert_allclose(answers[1], std, rtol=1e-2)


@pytest.mark.usefixtures("few_probes")
def test_a_tolerance_that_cannot_be_met_is_said_with_what_was_reached(monkeypatch):
    exact_at_most(monkeypatch, 1000)
    monkeypatch.setattr(iteration, "MOST_PAIRS", 0)
    X, y = synthetic(1800, 3, 4.0)
    with pytest.warns(UserWarning, match="tolerance=1e-09 could not be met") as caught:
        model = LocalGPRegressor(**FIXED, tolerance=1e-9).fit(X, y)
    message = str(caught[0].message)
    reached = float(re.search(r"predictions are (\S+) nats", message).group(1))
    np.testing.assert_allclose(reached, model.report_.divergence, rtol=0.06)
    assert model.report_.divergence > 1e-9
    assert not model.report_.tolerance_met
    assert "ABOVE the tolerance of 1e-09" in str(model.report_)
    assert np.all(np.isfinite(model.predict(X[:50])))


@pytest.mark.usefixtures("few_probes")
def test_no_warning_without_reason():
    X, y = synthetic(800, 2, 8.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LocalGPRegressor(**FIXED, radius=3.0, tolerance=2e-3).fit(X, y)
    assert model.report_.divergence <= 2e-3


@pytest.mark.parametrize("radius", [2.0, 3.0])
@pytest.mark.usefixtures("few_probes")
def test_a_verdict_agrees_with_its_figure(radius):
    X, y = synthetic(800, 2, 8.0)
    for tolerance in (1e-3, 1.3e-3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = LocalGPRegressor(**FIXED, radius=radius, tolerance=tolerance).fit(X, y).report_
        met = report.divergence_upper <= tolerance and report.divergence_of_function_upper <= 10 * tolerance
        assert report.tolerance_met == met
        assert bool(caught) == (not met)


@pytest.mark.parametrize("tolerance", [1.0, 50.0, 1e300])
@pytest.mark.usefixtures("few_probes")
def test_a_loose_tolerance_is_cheap(tolerance):
    X, y = synthetic(2000, 2, 14.0)
    model = LocalGPRegressor(**FIXED, tolerance=tolerance).fit(X, y)
    assert model.report_.n_components <= 30
    assert model.radius_ <= 2.0


# ---- what the user fixed -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:tolerance")
@pytest.mark.parametrize(
    "given",
    [
        {"spacing": 1.3},
        {"radius": 2.7},
        {"spacing": 1.1, "radius": 2.7},
        {"features": TaylorFeatures(7)},
        {"features": TaylorFeatures(7), "spacing": 1.3},
        {"features": TaylorFeatures(7), "radius": 2.7},
        {"features": MaclaurinFeatures(33)},
        {"features": MaclaurinFeatures(33, exact_degrees=0), "radius": 2.7, "spacing": 1.3},
        {"features": TaylorFeatures(7), "radius": None, "centers": "mean"},
        {"features": TaylorFeatures(7), "radius": None, "spacing": 1.3},
        {"features": "kernel"},
        {"features": "kernel", "radius": 2.7},
        {"features": "kernel", "radius": 2.7, "spacing": 1.3},
        {"correction": False},
    ],
    ids=str,
)
@pytest.mark.usefixtures("few_probes")
def test_what_is_given_is_kept(given):
    X, y = synthetic(800, 2, 8.5)
    with exact_up_to(0):
        model = LocalGPRegressor(**FIXED, **given).fit(X, y)
    if "spacing" in given:
        assert model.spacing_ == given["spacing"]
    if "radius" in given:
        assert model.radius_ == given["radius"]
    if given.get("features") == "kernel":
        assert model.feature_map_ is None
        assert model.report_.n_kernel_space == len(model.centers_)
    elif isinstance(given.get("features"), TaylorFeatures):
        assert model.feature_map_.maps[0].degree == 7
        assert model.feature_map_.n_components == 36
    elif isinstance(given.get("features"), MaclaurinFeatures):
        assert model.feature_map_.n_components <= 33
    assert model._predictor.plan.correction == given.get("correction", True)
    everything = {"features", "radius", "spacing"} <= given.keys()
    if everything or given.get("radius", 0) is None:
        assert model.report_.divergence is None
    else:
        assert model.report_.divergence > 0
    mean, std = model.predict(X, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all((std >= 0) & (std <= 1 + 1e-9))


@pytest.mark.filterwarnings("ignore:tolerance")
@pytest.mark.parametrize(("d", "radius"), [(1, 30.0), (2, 8.0), (3, 6.0)])
@pytest.mark.usefixtures("few_probes")
def test_a_radius_too_large_for_any_degree_is_kept_all_the_same(d, radius):
    X, y = synthetic(500, d, WIDTHS[d] / 2)
    model = LocalGPRegressor(**FIXED, radius=radius).fit(X, y)
    assert model.radius_ == radius
    assert model.feature_map_.n_components <= tuning.MAX_FEATURES
    assert model.report_.divergence is not None


def test_all_points_for_every_centre_need_features():
    X, y = synthetic(100, 2, 12.0)
    for features in ("auto", "kernel"):
        with pytest.raises(ValueError, match="radius=None takes all points for every centre, which needs features"):
            LocalGPRegressor(**FIXED, radius=None, features=features).fit(X, y)


# ---- repeatable, and told --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_probes")
def test_the_choice_depends_on_the_seed_alone():
    X, y = synthetic(1800, 2, 12.0)
    data = TrainingSet.of(X, y[:, None], np.full(len(X), NOISE))
    first, again = (choose(KERNEL, data, Request(1e-3), n_jobs, np.random.RandomState(3)) for n_jobs in (1, 2))
    assert first.candidate.label == again.candidate.label
    assert first.candidate.spacing == again.candidate.spacing
    for name in ("observations", "function"):
        ours, theirs = (getattr(choice.distance, name) for choice in (first, again))
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-9)


@pytest.mark.usefixtures("few_probes")
def test_progress_is_told():
    told = []
    X, y = synthetic(1800, 2, 12.0)
    data = TrainingSet.of(X, y[:, None], np.full(len(X), NOISE))
    choose(KERNEL, data, Request(1e-3), 1, np.random.RandomState(0), lambda *args: told.append(args))
    assert len(told) >= 2
    for stage, done, value in told:
        assert stage == "tuning"
        assert 0 < done <= 1
        assert value > 0
