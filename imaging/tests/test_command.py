"""The command `firstlight image`: what it writes, says, and refuses."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from astropy.io import fits

from firstlight_imaging import Beam, GridCoords, Visibilities, convolve, image, read_visibilities, write_image
from firstlight_imaging.cli import main
from firstlight_imaging.products import Products
from firstlight_imaging.simulate.observation import alma_antennas, channels, observe, uv_track, with_noise
from firstlight_imaging.simulate.skies import Point, Ring

FLUX = 0.2


def arrays_of(vis: Visibilities) -> dict[str, np.ndarray]:
    names = ("uu", "vv", "data", "weight", "antennas", "time")
    return {name: getattr(vis, name) for name in names} | {"frequencies": vis.frequency}


@pytest.fixture(scope="module")
def arrays():
    vis = observe([Ring(FLUX, 0, 0.3, east=0.3)], uv_track(n_times=4), channels(230e9, 1e9, 2))
    vis = arrays_of(with_noise(vis, 0.02, seed=1))
    return vis | {"weight": 4 * vis["weight"]}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Take errors from few images: how large they are is tested elsewhere."""
    monkeypatch.setitem(image.__kwdefaults__, "draws", 2)


@pytest.fixture
def npz(arrays, tmp_path):
    path = tmp_path / "my.npz"
    np.savez(path, **arrays)
    return path


def asked(monkeypatch, *words: str) -> tuple[Visibilities, dict[str, Any]]:
    """Return what would be fitted, and how."""
    given = []

    def stop(vis, **how):
        given.append((vis, how))
        raise ValueError

    monkeypatch.setattr("firstlight_imaging.automatic.image", stop)
    main([*words])
    return given[0]


def fitted(monkeypatch, *words: str) -> Visibilities:
    return asked(monkeypatch, *words)[0]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_it_images_and_says_where(npz, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--field", "4", "--dish", "12", "--robust", "-1", "--phase-centre", "83.8,-5.4"]
    assert main([str(npz), "--out", str(out), *options]) == 0
    said = capsys.readouterr().out
    kinds = ["image", "model", "error", "dirty", "residual", "restored", "pbcor"]
    assert files(out) == {f"my.{kind}.fits" for kind in kinds} | {"my.png", "my.txt", "my.json"}
    assert all(str(out / name) in said for name in files(out))
    assert "the weights were off" in said
    assert said.count("robust -1") == said.count("the weights were off") == 1
    header, image = fits.getheader(out / "my.image.fits"), fits.getdata(out / "my.image.fits")
    assert header["BUNIT"] == "Jy/pixel"
    assert (header["CRVAL1"], header["CRVAL2"]) == (83.8, -5.4)
    assert header["CDELT2"] == pytest.approx(-header["CDELT1"])
    assert image.sum() == pytest.approx(FLUX, rel=0.05)
    restored, corrected = (fits.getdata(out / f"my.{kind}.fits").squeeze() for kind in ("restored", "pbcor"))
    header = fits.getheader(out / "my.pbcor.fits")
    north, middle = len(restored) * 3 // 4, len(restored) // 2
    width = np.degrees(1.13 * 299_792_458 / header["CRVAL3"] / 12)  # of the primary beam of 12 m
    beam = 0.5 ** ((2 * (north - middle) * header["CDELT2"] / width) ** 2)
    assert corrected[north, middle] == pytest.approx(restored[north, middle] / beam, rel=1e-4)
    assert fits.getheader(out / "my.pbcor.fits")["BUNIT"] == "Jy/beam"
    before = {path: path.read_bytes() for path in out.iterdir()}
    assert main([str(npz), "--out", str(out)]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in out.iterdir()}


def test_it_judges_a_model_on_one_page(npz, tmp_path, monkeypatch, capsys):
    """With the mask and the restored map, if they are given; no image is made."""
    monkeypatch.chdir(tmp_path)
    coords, sky = GridCoords(0.04, 64), np.zeros((1, 64, 64))
    sky[0, 32, 24] = FLUX  # a point in the middle of the ring
    where = {"frequencies": [230e9], "ra": 83.8, "dec": -5.4}
    write_image("my.model.fits", sky, coords, unit="Jy/pixel", **where)
    beam = Beam(0.2, 0.1, 30.0)
    restored = convolve(sky[0] / 0.04**2, coords, beam)
    write_image("my.restored.fits", restored[None], coords, unit="Jy/beam", beam=beam, **where)
    options = ["--assess", "my.model.fits", "--phase-centre", "83.8,-5.4", "--out", "out"]
    assert main([str(npz), *options, "--restored", "my.restored.fits"]) == 0
    said = capsys.readouterr().out
    assert "not converged" in said
    assert "next:" in said
    assert "restored map" in said
    assert files(tmp_path / "out") == {"my.assess.json", "my.assess.png", "my.assess.txt"}
    assert main([str(npz), *options, "--field", "4"]) == 1
    assert "leave out --field" in capsys.readouterr().err
    assert main([str(npz), "--restored", "my.restored.fits"]) == 1
    assert "--assess alone" in capsys.readouterr().err


@pytest.mark.slow
def test_without_a_phase_centre_it_is_no_place_on_the_sky(npz, tmp_path, capsys):
    assert main([str(npz), "--out", str(tmp_path / "out"), "--field", "4"]) == 0
    assert "--phase-centre" in capsys.readouterr().out
    header = fits.getheader(tmp_path / "out/my.image.fits")
    assert not any(str(header[f"CTYPE{axis}"]).startswith(("RA", "DEC")) for axis in (1, 2))
    assert "RADESYS" not in header


@pytest.mark.parametrize(("words", "gigahertz"), [("1", [230.5]), ("0:2", [229.5, 230.5])])
def test_channels_are_chosen(npz, monkeypatch, words, gigahertz):
    vis = fitted(monkeypatch, str(npz), "--channels", words, "--out", str(npz.parent / "out"))
    assert vis.frequency == pytest.approx(np.multiply(1e9, gigahertz))
    assert vis.data.shape == (len(gigahertz), len(vis.time))


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ({"frequencies": None}, [], "--frequency"),
        ({}, ["--channels", "2"], "channels 0 to 1"),
        ({}, ["--channels", "one"], "3:6"),
        ({}, ["--phase-centre", "here"], "two numbers"),
        ({"uu": 1e-3, "vv": 1e-3}, [], "unit='kilolambda'"),
        ({"data": 0j}, ["--field", "4"], "no source is seen"),
    ],
)
def test_what_cannot_be_imaged_is_told_what_to_do(arrays, tmp_path, capsys, change, options, said):
    changed = arrays | {name: None if by is None else by * arrays[name] for name, by in change.items()}
    np.savez(tmp_path / "bad.npz", **{name: values for name, values in changed.items() if values is not None})
    assert main([str(tmp_path / "bad.npz"), "--out", str(tmp_path / "out"), *options]) == 1
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_baselines_are_chosen_by_their_length(npz, monkeypatch):
    lengths = fitted(monkeypatch, str(npz), "--shortest", "1e5", "--longest", "4e5").lengths
    assert lengths.size
    assert 1e5 <= lengths.min() <= lengths.max() <= 4e5


def test_a_mask_of_casa_and_a_cell_reach_the_image(npz, tmp_path, monkeypatch):
    inside, coords = np.zeros((16, 16)), GridCoords(0.25, 16)
    inside[10, 4] = 1  # 0.75" to the east and 0.5" to the north of its own centre
    write_image(tmp_path / "mask.fits", inside[None], coords, unit="Jy/pixel", frequencies=[1e9], ra=10, dec=20)
    words = ["--mask", str(tmp_path / "mask.fits"), "--cell", "0.05", "--phase-centre", f"10,{20 + 1 / 3600}"]
    _, given = asked(monkeypatch, str(npz), "--out", str(tmp_path / "out"), *words)
    assert given["cell_size"] == 0.05
    east, north = GridCoords(0.05, 80).sky_coordinates()  # seen from 1" farther to the north
    allowed = given["mask"](east, north)
    assert (east[allowed].mean(), north[allowed].mean()) == pytest.approx((0.75, -0.5), abs=0.03)
    assert allowed.sum() == pytest.approx(25, abs=5)


def test_gains_are_kept_beside_the_image(arrays, tmp_path):
    turned = np.where(arrays["antennas"] == 3, 1.0, 0) @ [0.5, -0.5]
    np.savez(tmp_path / "off.npz", **arrays | {"data": arrays["data"] * np.exp(1j * turned)})
    assert main([str(tmp_path / "off.npz"), "--out", str(tmp_path), "--field", "4", "--self-calibrate"]) == 0
    assert {"off.image.fits", "off.gains.png"} <= files(tmp_path)
    with np.load(tmp_path / "off.gains.npz") as gains:
        assert gains["phases"].shape[1] == len(gains["antennas"])
        phases = np.degrees(np.angle(gains["phases"])).mean(axis=0)
    assert abs(phases).argmax() == 3


@pytest.mark.slow
def test_closures_make_an_image_without_a_place(tmp_path, capsys):
    seen = with_noise(observe([Ring(FLUX, 0.2, 0.1)], uv_track(alma_antennas()[::5], n_times=8)), 0.001, seed=0)
    np.savez(tmp_path / "my.npz", **arrays_of(seen))
    assert main([str(tmp_path / "my.npz"), "--out", str(tmp_path), "--closures", "--field", "1"]) == 0
    assert files(tmp_path) == {"my.npz", "my.image.fits", "my.error.fits", "my.png", "my.txt", "my.json"}
    assert "closure quantities" in capsys.readouterr().out
    assert (
        "CRVAL1" not in fits.getheader(tmp_path / "my.image.fits")
        or fits.getheader(tmp_path / "my.image.fits")["CRVAL1"] == 0
    )


def test_a_report_makes_its_image_again_of_the_same_data(npz, tmp_path, capsys):
    first, again, elsewhere = tmp_path / "first", tmp_path / "again", tmp_path / "moved.npz"
    assert main([str(npz), "--out", str(first), "--field", "4", "--longest", "3e5", "--robust", "-1"]) == 0
    npz.rename(elsewhere)
    report = first / "my.json"
    assert main(["--again", str(report), "--out", str(again)]) == 1
    assert "where my.npz is" in capsys.readouterr().err
    assert main(["--again", str(report), str(elsewhere), "--out", str(again)]) == 0
    assert np.array_equal(fits.getdata(first / "my.image.fits"), fits.getdata(again / "moved.image.fits"))
    told = [json.loads(path.read_text()) for path in (report, again / "moved.json")]
    assert told[0]["results"] == told[1]["results"]
    assert told[0]["options"] == told[1]["options"] == {"field": 4.0, "longest": 3e5, "robust": -1.0}
    history = str(fits.getheader(again / "moved.restored.fits")["HISTORY"])
    assert told[0]["data"][0]["sha256"] in history
    assert "--robust -1.0" in history


def test_a_report_tells_of_the_data_as_they_were_read(npz, tmp_path, monkeypatch):
    was = hashlib.sha256(npz.read_bytes()).hexdigest()

    def cut_meanwhile(*_):
        npz.write_bytes(b"")
        return Products([], ""), {}

    monkeypatch.setattr("firstlight_imaging.cli._image_and_write", cut_meanwhile)
    assert main([str(npz), "--out", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out/my.json").read_text())["data"][0]["sha256"] == was


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--field", "3"], "leave out --field"),
        (["other.npz"], "SHA-256"),
        (["my.npz", "my.npz"], "2"),
        (["my.npz"], "frobnicate"),
    ],
)
def test_other_data_and_options_are_not_the_same_image(npz, tmp_path, capsys, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    Path("other.npz").write_bytes(npz.read_bytes() + b" ")
    made = {"path": "gone", "sha256": hashlib.sha256(npz.read_bytes()).hexdigest()}
    Path("my.json").write_text(json.dumps({"data": [made], "options": {"frobnicate": 1}}))
    assert main(["--again", "my.json", *words]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--dish", "nan"],
        ["--dish", "0"],
        ["--dish", "-12"],
        ["--robust", "3"],
        ["--robust", "nan"],
        ["--frequency", "-1e9"],
        ["--field", "1e9"],
        ["--field", "-1"],
        ["--cell-size", "0"],
        ["--cell-size", "0.1", "--closures"],
        ["--mask", "my.fits"],
        ["--phase-centre", "10,95"],
        ["--phase-centre", "nan,nan"],
        ["--phase-centre", "-5,-91"],
        ["--of", "3"],
        ["--spw", "0"],
        ["--spw", "first"],
        ["--column", "DATA"],
        ["--shortest", "-1"],
        ["--longest", "3"],
        ["--closures", "--self-calibrate"],
        ["--out", "my.npz"],
        ["--out", "my.npz/out"],
        ["my.npz"],
        ["copy.npz"],
    ],
    ids=" ".join,
)
def test_what_is_wrong_is_told_before_anything_is_fitted(npz, tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    shutil.copy(npz, "copy.npz")
    monkeypatch.setattr("firstlight_imaging.automatic.image", lambda *_, **__: pytest.fail("it was fitted"))
    assert main(["my.npz", *words]) == 1
    said = capsys.readouterr().err
    assert words[0].strip("-").replace("-", " ") in said.replace("-", " ")
    assert said.count("\n") == 1
    assert files(tmp_path) == {"my.npz", "copy.npz"}


@pytest.mark.parametrize("change", [{"phase_centre": [10.0, 95.0]}, {"data": 1e200}])
def test_what_is_wrong_in_a_file_is_told_before_anything_is_fitted(arrays, tmp_path, capsys, monkeypatch, change):
    changed = change | {name: change[name] * arrays[name] for name in change.keys() & arrays}
    np.savez(tmp_path / "bad.npz", **arrays | changed)
    monkeypatch.setattr("firstlight_imaging.automatic.image", lambda *_, **__: pytest.fail("it was fitted"))
    assert main([str(tmp_path / "bad.npz"), "--out", str(tmp_path)]) == 1
    assert "bad.npz" in capsys.readouterr().err
    assert files(tmp_path) == {"bad.npz"}


def test_the_unit_of_an_npz_may_be_said(arrays, tmp_path, monkeypatch):
    np.savez(tmp_path / "kilo.npz", **arrays | {name: arrays[name] / 1e3 for name in ("uu", "vv")})
    vis = fitted(monkeypatch, str(tmp_path / "kilo.npz"), "--out", str(tmp_path), "--unit", "kilolambda")
    assert vis.uu == pytest.approx(arrays["uu"])


def test_weights_that_the_sky_may_excuse_are_told(tmp_path, capsys, monkeypatch):
    vis = with_noise(observe([Point(5.0, 9.0, -4.0)], uv_track(n_times=20), [230e9]), 0.001, seed=0)
    np.savez(tmp_path / "my.npz", **arrays_of(vis))
    given = fitted(monkeypatch, str(tmp_path / "my.npz"), "--out", str(tmp_path))
    assert "weights" in capsys.readouterr().out
    assert (given.weight == vis.weight).all()


def test_image_fits_what_the_command_fits(npz, monkeypatch):
    commands = fitted(monkeypatch, str(npz), "--out", str(npz.parent / "out"))
    given = []

    def stop(vis, _):
        given.append(vis)
        raise ValueError

    monkeypatch.setattr("firstlight_imaging.automatic.auto_image.attempt_image", stop)
    for vis in (read_visibilities(npz), commands):
        with pytest.raises(ValueError, match=r"^$"):
            image(vis)
    assert all((vis.weight == commands.weight).all() for vis in given)
    assert not (commands.weight == read_visibilities(npz).weight).any()


def test_a_weight_that_sticks_out_is_left_out(arrays, tmp_path, capsys, monkeypatch):
    weight = np.tile(arrays["weight"], 3)
    weight[1, 5] *= 300
    parts = {name: np.tile(arrays[name], 3) for name in ("uu", "vv", "data")}
    rows = {
        "antennas": np.tile(arrays["antennas"], (3, 1)),
        "time": np.concatenate([arrays["time"] + k for k in range(3)]),
    }
    np.savez(tmp_path / "my.npz", **arrays | parts | rows | {"weight": weight})
    given = fitted(monkeypatch, str(tmp_path / "my.npz"), "--out", str(tmp_path))
    assert [at.tolist() for at in np.nonzero(given.flagged)] == [[1], [5]]
    assert "sticks out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("field", "arcsec"), [("4", 4.0), ("4arcsec", 4.0), ("13mas", 0.013), ("50µas", 5e-5), ("5e1uas", 5e-5)]
)
def test_angles_have_units(npz, tmp_path, monkeypatch, field, arcsec):
    _, given = asked(monkeypatch, str(npz), "--out", str(tmp_path / "out"), "--field", field)
    assert given["field"] == pytest.approx(arcsec, rel=1e-12)


@pytest.mark.parametrize("words", [["--field", "13miles"], ["--field", "mas"], ["--every", "soon"]])
def test_a_unit_that_nobody_knows_is_told(npz, capsys, words):
    with pytest.raises(SystemExit):
        main([str(npz), *words])
    assert words[1] in capsys.readouterr().err


def test_executions_are_joined_and_windows_are_not_executions(arrays, tmp_path, monkeypatch, capsys):
    """Of two nights, and of one night with the windows in two files; another unit is asked for by what needs it."""
    low, high = ({name: arrays[name][[k]] for name in ("uu", "vv", "data", "weight", "frequencies")} for k in (0, 1))
    rows = {"antennas": arrays["antennas"], "time": arrays["time"]}
    night = {"time": arrays["time"] + 1e5, "data": 0.5 * arrays["data"], "weight": 4 * arrays["weight"]}
    np.savez(tmp_path / "low.npz", **low, **rows)
    np.savez(tmp_path / "high.npz", **high, **rows)
    np.savez(tmp_path / "night.npz", **arrays | night)
    vis = fitted(monkeypatch, *(str(tmp_path / f"{name}.npz") for name in ("low", "night", "high")), "--out", "out")
    said = capsys.readouterr().out
    assert "low.npz and high.npz: " in said
    assert "night.npz: " in said
    assert np.unique(vis.execution).tolist() == [0, 1]
    first, second = (np.abs(vis.data[:, vis.execution == k]).mean() for k in (0, 1))
    assert first == pytest.approx(second, rel=0.05)  # and not half of it
    assert "flux scale" in said


def test_a_field_in_the_wrong_unit_is_noticed(arrays, tmp_path, capsys):
    far = {name: 1000 * arrays[name] for name in ("uu", "vv")}
    np.savez(tmp_path / "my.npz", **arrays | far)
    assert main([str(tmp_path / "my.npz"), "--out", str(tmp_path / "out"), "--field", "40"]) == 1
    assert "40mas?" in capsys.readouterr().err


@pytest.mark.parametrize(("file", "name"), [("sim.cycle6.3.noisy.npz", "sim.cycle6.3.noisy"), ("a.v2.txt.gz", "a.v2")])
def test_products_have_the_whole_name_of_the_data(npz, tmp_path, monkeypatch, file, name):
    asked = []
    monkeypatch.setattr("firstlight_imaging.products.whole_set", lambda folder, name, **_: asked.append(name))
    with pytest.raises(TypeError):  # None is no context
        main([str(npz.rename(tmp_path / file))])
    assert asked == [name]


@pytest.mark.slow
def test_an_image_is_made_though_nobody_listens(arrays, tmp_path):
    np.savez(tmp_path / "my.npz", **arrays)
    code = "import sys; from firstlight_imaging.cli import main; sys.exit(main(sys.argv[1:]))"
    words = [str(tmp_path / "my.npz"), "--out", str(tmp_path), "--field", "2"]
    run = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    run.stdout.close()
    assert run.communicate()[1] == b""
    assert (tmp_path / "my.image.fits").exists()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(""),
        MemoryError("Unable to allocate 8.00 GiB"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: 8 bytes"
        ),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:83] data. DefaultCPUAllocator: not enough memory: 8 bytes. Buy RAM!"
        ),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 8.00 GiB."),
    ],
)
def test_a_lack_of_memory_is_one_line(npz, tmp_path, capsys, monkeypatch, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr("firstlight_imaging.automatic.image", full)
    assert main([str(npz), "--out", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert (str(error).rpartition("Allocator: ")[2] or "memory") in line
    assert "enforce" not in line
    assert not (tmp_path / "out").exists()


def test_an_error_of_ours_is_not_taken_for_a_lack_of_memory(npz, tmp_path, monkeypatch):
    monkeypatch.setattr("firstlight_imaging.automatic.image", lambda *_, **__: torch.ones(2) @ torch.ones(3))
    with pytest.raises(RuntimeError, match="size"):
        main([str(npz), "--out", str(tmp_path / "out")])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["my.npz", "--field", "2"]])
def test_a_full_output_is_one_line(arrays, tmp_path, words):
    np.savez(tmp_path / "my.npz", **arrays)
    code = "import sys; from firstlight_imaging.cli import main; sys.exit(main(sys.argv[1:]))"
    with Path("/dev/full").open("w") as full:
        buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=buffered)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_an_interrupt_while_options_are_read_is_one_line(npz, capsys, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("astropy.units.Quantity", interrupted)
    assert main([str(npz), "--field", "4"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_killed_job_and_a_closed_terminal_leave_nothing_behind(npz, tmp_path, monkeypatch, name):
    number = getattr(signal, name)
    monkeypatch.setattr("firstlight_imaging.automatic.image", lambda *_, **__: signal.raise_signal(number))
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert main([str(npz), "--out", str(tmp_path / "out")]) == 130
    finally:
        signal.signal(number, before)
    assert not (tmp_path / "out").exists()


def test_two_antennas_are_not_told_to_take_smaller_pixels(tmp_path, capsys):
    seen = with_noise(observe([Point(0.5)], uv_track(alma_antennas()[:2], n_times=40)), 0.01, seed=0)
    np.savez(tmp_path / "two.npz", **arrays_of(seen))
    assert main([str(tmp_path / "two.npz"), "--out", str(tmp_path)]) == 1
    assert "two antennas" in capsys.readouterr().err.splitlines()[-1]


def test_a_missing_file_is_named(tmp_path, capsys):
    assert main([str(tmp_path / "none.uvfits")]) == 1
    assert "none.uvfits" in capsys.readouterr().err
