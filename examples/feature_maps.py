"""Feature maps of the Gaussian kernel side by side, on smooth and on wiggly data.

For each map the table gives the relative error of the kernel matrix (Frobenius norm) and, of a Gaussian process built
on the features, the KL divergence per test point from the exact one, both as means over five draws of the map. With a
long length scale monomials around the mean do best. With a short one a single centre cannot reach all data: Fourier
features do better, and local models far better.
"""

import numpy as np

import nearfield as nf


def main():
    """Print a table for smooth and one for wiggly data."""
    compare("8 columns, length scale 2.5", d=8, length_scale=2.5, D=256)
    compare("2 columns, length scale 0.3", d=2, length_scale=0.3, D=256)


def compare(title, d, length_scale, D):
    """Print the table for standard normal inputs and targets drawn from the process itself."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, d))
    distances = ((X[:, None] - X) ** 2).sum(axis=-1)
    K = np.exp(-0.5 * distances / length_scale**2)
    y = np.linalg.cholesky(K + 0.05 * np.eye(len(X))) @ rng.standard_normal(len(X))
    train, test = slice(0, 1000), slice(1000, None)

    given = {"length_scale": length_scale, "signal_variance": 1.0, "noise_variance": 0.05}
    exact = nf.ExactGPRegressor(**given).fit(X[train], y[train])
    mean_ref, std_ref = exact.predict(X[test], return_std=True, include_noise=True)

    def divergence(model):
        mean, std = model.fit(X[train], y[train]).predict(X[test], return_std=True, include_noise=True)
        return nf.metrics.kl_divergence(mean, std**2, mean_ref, std_ref**2).mean()

    maps = {
        "Fourier, independent": nf.FourierFeatures(D),
        "Fourier, orthogonal": nf.FourierFeatures(D, sampling="orthogonal"),
        "Maclaurin, sketches (the paper's)": nf.MaclaurinFeatures(D, exact_degrees=0),
        "Maclaurin, exact low degrees": nf.MaclaurinFeatures(D),
    }
    print(f"{title}, D = {D}")
    print(f"  {'map':36} {'kernel error':>12} {'KL a point':>11}")
    for name, feature_map in maps.items():
        errors, divergences = [], []
        for seed in range(5):
            feature_map.set_params(length_scale=length_scale, random_state=seed)
            features = feature_map.fit_transform(X)
            errors.append(np.linalg.norm(features @ features.T - K) / np.linalg.norm(K))
            divergences.append(divergence(nf.FeatureGPRegressor(feature_map, **given)))
        print(f"  {name:36} {np.mean(errors):12.4f} {np.mean(divergences):11.2e}")
    if d <= 3:
        local = nf.LocalGPRegressor(spacing=2.0, radius=3.5, features=nf.TaylorFeatures(12), **given)
        kl = divergence(local)
        print(f"  {f'local Taylor, D = 91, {len(local.centers_)} centres':36} {'':12} {kl:11.2e}")
    print()


if __name__ == "__main__":
    main()
