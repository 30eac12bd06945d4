import numpy as np
import pytest

from nearfield.common.sphere import EARTH_RADIUS, Sphere, are_degrees, degree_columns, is_distorted, sphere_of


def chord(first, second):
    """Chord of the great circle through two places, by the haversine formula."""
    (a, b), (c, d) = np.radians(first), np.radians(second)
    return 2 * EARTH_RADIUS * np.sqrt(np.sin((b - d) / 2) ** 2 + np.cos(b) * np.cos(d) * np.sin((a - c) / 2) ** 2)


def test_distances_are_chords_and_further_columns_stay():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-90, 90, 40), rng.standard_normal(40), rng.uniform(-180, 180, 40)])
    points = Sphere(longitude=2, latitude=0).points(X)
    np.testing.assert_array_equal(points[:, 3], X[:, 1])
    distances = np.linalg.norm(points[1:, :3] - points[0, :3], axis=1)
    np.testing.assert_allclose(distances, [chord(X[0, [2, 0]], row[[2, 0]]) for row in X[1:]], rtol=1e-10)


def test_there_and_back():
    X = np.array([[0.0, 0.0, 1.0], [179.9, -89.9, 2.0], [-120.0, 45.0, 3.0]])
    points = Sphere().points(X)
    np.testing.assert_allclose(Sphere().places(points), X, atol=1e-10)
    points[:, :3] *= 0.3  # below the ground
    np.testing.assert_allclose(Sphere().places(points), X, atol=1e-10)
    np.testing.assert_allclose(Sphere().onto(points), Sphere().points(X), atol=1e-9)


@pytest.mark.parametrize(
    ("longitudes", "meridian"),
    [
        ([-10.0, 40.0], 15.0),
        ([170.0, 210.0], 190.0),  # as they were given
        ([177.0, 179.0, -179.0], 179.0),  # across the date line
        ([-180.0, -60.0, 60.0, 179.0], 0.0),
        ([0.0, 120.0, 240.0, 359.0], 180.0),
        ([5.0], 5.0),
    ],
)
def test_longitudes_come_back_around_the_meridian_of_the_data(longitudes, meridian):
    X = np.column_stack([longitudes, np.full(len(longitudes), 12.0)])
    sphere = sphere_of(X)
    assert (sphere.meridian - meridian) % 360.0 == pytest.approx(0.0, abs=1e-9)
    back = sphere.places(sphere.points(X))
    np.testing.assert_allclose((back[:, 0] - X[:, 0]) % 360.0 % 359.9999999999, 0.0, atol=1e-9)
    assert np.ptp(back[:, 0]) <= 360.0
    if len(longitudes) < 4:
        assert np.ptp(back[:, 0]) <= 50.0


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["lon", "lat"], (0, 1)),
        (["height", "Latitude", "LNG"], (2, 1)),
        (["decimalLongitude", "decimal_latitude"], (0, 1)),
        (["x", "y"], None),
        (["lon", "lat", "longitude"], None),  # which of them?
        (None, None),
    ],
)
def test_columns_by_their_names(names, columns):
    assert degree_columns(names) == columns


def test_what_is_refused():
    good = np.array([[10.0, 50.0], [12.0, 51.0]])
    Sphere().check(good)
    Sphere().check(np.array([[360.0, 90.0], [-180.0, -90.0]]))
    with pytest.raises(ValueError, match=r"column 1 must hold latitudes .* Got 95 in row 1\."):
        Sphere().check(np.array([[10.0, 50.0], [12.0, 95.0]]))
    with pytest.raises(ValueError, match="Are the two swapped"):
        Sphere().check(np.array([[50.0, 120.0], [51.0, 121.0]]))
    with pytest.raises(ValueError, match=r"'east' must hold longitudes .* Got 420000 in row 7\. Projected"):
        Sphere().check(np.array([[420000.0, 50.0]]), ["east", "north"], lambda i: f"row {7 + i}")


def test_when_degrees_are_no_lengths():
    lon, lat = np.array([-120.0, -110.0]), np.array([32.0, 42.0])
    assert are_degrees(lon, lat)
    assert not are_degrees(lon * 1000, lat)
    assert not is_distorted(lon, lat)
    assert is_distorted(lon, np.array([10.0, 70.0]))
    assert is_distorted(np.array([-170.0, 170.0]), lat)
