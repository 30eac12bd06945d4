"""LocalGPRegressor among scikit-learn's tools: a pipeline and a cross-validated grid search.

Made-up data: temperature over a square of 1000 km by 1000 km, with elevation as a third column. The columns have
different units, so they are standardised first; whether each then deserves a length scale of its own (`ard`) is put
to a grid search.
"""

import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import nearfield as nf


def main():
    """Search, score and report."""
    X, y = make_data(4000)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)

    model = make_pipeline(StandardScaler(), nf.LocalGPRegressor(n_scales=1, tolerance=1e-2, random_state=0))
    search = GridSearchCV(
        model, {"localgpregressor__ard": [False, True]}, cv=2, scoring="neg_root_mean_squared_error"
    ).fit(X_train, y_train)
    print("Cross-validated (the noise alone would give 0.500 K):")
    for parameters, rmse in zip(search.cv_results_["params"], -search.cv_results_["mean_test_score"], strict=True):
        print(f"  ard={parameters['localgpregressor__ard']!s:5} RMSE {rmse:.3f} K")

    mean, std = search.best_estimator_.predict(X_test, return_std=True, include_noise=True)
    print(f"Held-out RMSE {nf.metrics.rmse(y_test, mean):.3f} K,", end=" ")
    print(f"95 % intervals cover {100 * nf.metrics.coverage(y_test, mean, std=std):.1f} %")
    print()
    print(search.best_estimator_[-1].report_)


def make_data(n, seed=0):
    """Easting and northing (km), elevation (m), and temperatures (K) that fall with height, with waves and noise."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(0, 1000, (n, 2))
    height = 600 * (1 + np.sin(place[:, 0] / 150) * np.cos(place[:, 1] / 200)) + rng.exponential(150, n)
    waves = 2 * np.sin(place[:, 0] / 110 + place[:, 1] / 170) + np.cos(place[:, 1] / 90)
    temperature = 288 - 0.0065 * height + waves + 0.5 * rng.standard_normal(n)
    return np.column_stack([place, height]), temperature


if __name__ == "__main__":
    main()
