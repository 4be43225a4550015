"""Why residuals are larger than noise, as it is told, and what advice comes with it."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from firstlight_imaging.automatic import diagnosis
from firstlight_imaging.automatic.auto_image import image
from firstlight_imaging.automatic.diagnosis import cause_in_field, windows_that_disagree
from firstlight_imaging.automatic.residuals import Residuals
from firstlight_imaging.coordinates import GridCoords
from firstlight_imaging.gains import apply_gains, chi2_of_gains, solve_gains
from firstlight_imaging.simulate.observation import alma_antennas, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring

CLEAN = observe(
    [Ring(0.5, 0.4, 0.3, east=0.2), Point(0.1, north=-0.3)], uv_track(alma_antennas()[:20], n_times=8), 230e9
)


def with_gains(vis, degrees, percent, changes=True):
    """Return visibilities of antennas whose gains are off, at each time anew or all the time the same."""
    rng = np.random.default_rng(0)
    when, count = np.unique(vis.time, return_inverse=True)[1] * changes, (len(vis.time), vis.antennas.max() + 1)
    gains = np.exp(1j * np.radians(degrees) * rng.normal(size=count) + percent / 100 * rng.normal(size=count))
    first, second = (gains[when, antenna] for antenna in vis.antennas.T)
    return replace(vis, data=vis.data * first * second.conj())


def told(vis, largest, is_noise, model=CLEAN.data):
    residual = np.zeros((4, 4))
    residual[3, 0] = largest  # 0.1 arcsec to the east and to the north
    chi2 = float((vis.weight * np.abs(vis.data - model) ** 2).mean()) / 2
    left = Residuals(vis, residual, residual, GridCoords(0.1, 4), chi2, 50.0, is_noise)
    vars(left)["model_vis"] = model  # as if seen of an image
    return cause_in_field(left)


@pytest.mark.parametrize("is_noise", [False, True])
@pytest.mark.parametrize(("degrees", "percent", "advice"), [(20, 0, "phases"), (0, 20, "amplitudes")])
def test_gains_are_named_however_loud_the_residuals_are(degrees, percent, advice, is_noise):
    found = told(with_noise(with_gains(CLEAN, degrees, percent), 0.05, seed=1), 6.0, is_noise)
    assert (found.kind, found.verdict) == ("gains", "limited by calibration")
    assert found.text.endswith(f"Self-calibrate {advice}")


def test_phases_that_were_calibrated_are_not_blamed_again():
    noisy = with_noise(with_gains(CLEAN, 15, 8), 0.01, seed=1)
    assert told(noisy, 30.0, is_noise=False).text.endswith("phases")
    assert told(apply_gains(noisy, solve_gains(noisy, CLEAN.data)), 30.0, is_noise=False).text.endswith("amplitudes")


@pytest.mark.parametrize(("factor", "verdict"), [(1.3, "doubtful"), (9, "limited by calibration")])
def test_weights_are_blamed_where_residuals_look_like_noise(factor, verdict):
    noisy = with_noise(CLEAN, 0.05, seed=1)
    found = told(replace(noisy, weight=factor * noisy.weight), 4.0 * math.sqrt(factor), is_noise=factor <= 2)
    assert (found.kind, found.verdict) == ("weights", verdict)
    assert "check_weights" in found.text


def test_weights_are_blamed_also_where_nobody_knows_the_antennas():
    noisy = with_noise(CLEAN, 0.05, seed=1)
    blind = replace(noisy, weight=1e4 * noisy.weight, antennas=0 * noisy.antennas)
    found = told(blind, 400.0, is_noise=False)
    assert (found.kind, found.verdict) == ("weights", "limited by calibration")
    assert told(blind, 4e3, is_noise=False).kind != "weights"


def test_what_no_gains_explain_is_located():
    """A second source, which the model does not have: other baselines see it with other amplitudes and phases."""
    more = observe([Point(0.1, east=0.8, north=1.1)], uv_track(alma_antennas()[:20], n_times=8), 230e9)
    found = told(with_noise(replace(CLEAN, data=CLEAN.data + more.data), 0.05, seed=1), 30.0, is_noise=False)
    assert (found.kind, found.verdict) == ("unexplained", "limited by artefacts")
    message = found.text
    assert "30 σ, 0.1 arcsec east and 0.1 arcsec north" in message
    assert all(option in message for option in ("--field", "--mask"))
    assert "Self-calibrate" not in message


def test_gains_that_cure_much_but_fit_no_other_baselines_are_not_denied(monkeypatch):
    """Nobody can tell whether they are real: the flux after self-calibration can."""
    monkeypatch.setattr(diagnosis, "fit_other_baselines", lambda *_: False)
    found = told(with_noise(with_gains(CLEAN, 0, 20), 0.05, seed=1), 30.0, is_noise=False)
    assert found.kind == "unexplained"
    assert "may be gains (--self-calibrate amplitude" in found.text
    assert "no gains" not in found.text


def test_closure_quantities_are_advised_for_few_antennas(monkeypatch):
    monkeypatch.setattr(diagnosis, "fit_other_baselines", lambda *_: False)
    monkeypatch.setattr(diagnosis, "_FEW_ANTENNAS", 20)
    found = told(with_noise(with_gains(CLEAN, 20, 0), 0.05, seed=1), 30.0, is_noise=False)
    assert "--self-calibrate phase" in found.text
    assert "--closures" in found.text


def test_weights_are_not_blamed_for_what_short_baselines_alone_show():
    noisy = with_noise(CLEAN, 0.05, seed=1)
    short = noisy.lengths < np.quantile(noisy.lengths, 0.2)
    found = told(replace(noisy, weight=noisy.weight * np.where(short, 6, 1)), 5.0, is_noise=False)
    assert found.kind != "weights"


def test_few_visibilities_that_make_much_of_chi2_are_named():
    noisy = with_noise(CLEAN, 0.05, seed=1)
    bad = np.flatnonzero((noisy.antennas == [2, 5]).all(axis=1))
    weight = noisy.weight.copy()
    weight[0, bad] *= 2000
    found = told(replace(noisy, weight=weight, antenna_names={2: "ALMA"}), 30.0, is_noise=False)
    assert re.search(r"16 of 1520 visibilities make 8\d% of chi², which is 1 by its median", found.text)
    assert "Most: antennas ALMA and 5 (8)" in found.text


@pytest.mark.slow
def test_what_an_image_lacks_of_a_wide_source_is_not_blamed_on_perfect_gains():
    """The best ones would halve chi², and make it far worse on baselines that they were solved without."""
    vis = with_noise(observe([Ring(10.0, 0, 2.0)], uv_track(alma_antennas()[:9], n_times=8)), 0.01, seed=1)
    found = image(vis, draws=0)
    assert found.quality.verdict == "limited by artefacts"
    assert "elf-calibrate" not in str(found)


def three_windows(fluxes, gigahertz):
    """Return visibilities of windows that see the same sky, each so many times as bright."""
    track = uv_track(alma_antennas()[:20], n_times=8)
    clean = observe([Ring(0.5, 0.4, 0.3, east=0.2)], track, 1e9 * np.array(gigahertz))
    return clean.data, with_noise(
        replace(clean, data=clean.data * np.array(fluxes)[:, None], window=np.arange(3)), 0.01, seed=1
    )


@pytest.mark.parametrize("antennas", [1, 0])
def test_windows_that_disagree_are_named(antennas):
    model, vis = three_windows([1.0, 0.8, 1.0], [230, 231, 233])
    found = told(replace(vis, antennas=antennas * vis.antennas), 60.0, is_noise=False, model=0.95 * model)
    assert found.verdict == "limited by calibration"
    message = found.text
    assert re.findall(r"window (\d) has (\S+) times", message) == [("1", "0.8")]
    assert re.search(r"--spw [02] .* --channels (0:1|2:3)", message)


@pytest.mark.parametrize(("slope", "error"), [(3, 0), (-1, 0.02), (0, 0.02)])
def test_a_spectrum_is_no_disagreement(slope, error):
    gigahertz = np.array([215, 230, 248])
    model, vis = three_windows((gigahertz / 230) ** slope * [1, 1 + error, 1 - error], gigahertz)
    assert not windows_that_disagree(vis, model)


def test_noise_is_no_disagreement():
    model, vis = three_windows([1, 1, 1], [230, 231, 232])
    for seed in range(10):
        assert not windows_that_disagree(with_noise(replace(vis, data=model), 5.0, seed=seed), model)
    flagged = replace(vis, weight=vis.weight * [[1], [0], [0]])
    assert not windows_that_disagree(flagged, model)


def test_noise_has_no_cause():
    noisy = with_noise(CLEAN, 0.05, seed=1)
    assert told(noisy, 4.0, is_noise=True) is None
    assert told(noisy, 5.6, is_noise=True) is None  # a faint source elsewhere: no gain explains that
    assert told(replace(noisy, antennas=0 * noisy.antennas), 5.6, is_noise=True) is None


@pytest.mark.parametrize("mode", ["phase", "amplitude"])
def test_gains_that_fit_noise_explain_nothing(mode):
    assert chi2_of_gains(with_noise(CLEAN, 0.05, seed=2), CLEAN.data, mode) == pytest.approx(1, abs=0.04)


def test_an_image_of_phases_that_are_off_asks_for_no_steps():
    """So little signal that the residuals are hardly louder than noise."""
    found = image(with_noise(with_gains(CLEAN, 20, 0, changes=False), 0.12, seed=1), field=3.0, draws=2)
    assert "steps" not in str(found)
    assert "Self-calibrate phases" in str(found)
    assert math.isnan(found.flux_error)
