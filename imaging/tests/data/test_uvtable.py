import bz2
from pathlib import Path

import numpy as np
import pytest

from firstlight_imaging.data.npz import read_npz
from firstlight_imaging.data.reading import read_visibilities
from firstlight_imaging.data.uvtable import read_uvtable, write_uvtable
from firstlight_imaging.simulate.skies import Point, sky_visibilities
from firstlight_imaging.units import LIGHT_SPEED

SKY = [Point(0.5, 1.0, 0.3), Point(0.1, -0.4, 0.9)]  # off-centre, and of no symmetry
U, V = np.random.default_rng(2).normal(scale=2e5, size=(2, 9))
OF_CASA = sky_visibilities(SKY, U, V).conj()
COLUMNS = np.column_stack([U, V, OF_CASA.real, OF_CASA.imag, np.arange(1, 10)])


def table(path: Path, head: str = "", columns: np.ndarray = COLUMNS, between: str = " ") -> Path:
    np.savetxt(path, columns, header=head, delimiter=between, encoding="utf-8")
    return path


@pytest.mark.parametrize("between", [" ", "\t", ", "])
def test_a_source_is_where_casa_sees_it(tmp_path, between):
    vis = read_visibilities(table(tmp_path / "sky.v2.txt", "u [lambda] v [lambda] Re Im w", between=between))
    assert vis.data[0] == pytest.approx(sky_visibilities(SKY, U, V))
    assert (vis.weight[0] == COLUMNS[:, 4]).all()
    assert read_uvtable(tmp_path / "sky.v2.txt", conjugate=False).data[0] == pytest.approx(OF_CASA)


@pytest.mark.parametrize(
    ("head", "factor", "option"),
    [
        ("", 1, {}),
        ("Columns:\tu[klambda]\tv[klambda]", 1e-3, {}),
        ("u [kλ]", 1e-3, {}),
        ("wavelength[m] = 0.0013\nColumns: u[m] v[m]", 0.0013, {}),
        ("u [Mλ]", 1e-3, {"unit": "kilolambda"}),  # whoever says a unit knows better than the head
    ],
)
def test_baselines_come_in_the_unit_of_the_head(tmp_path, head, factor, option):
    vis = read_visibilities(table(tmp_path / "a.dat", head, COLUMNS * [factor, factor, 1, 1, 1]), **option)
    assert vis.uu[0] == pytest.approx(U)
    if "wavelength" in head:
        assert vis.frequency == pytest.approx(LIGHT_SPEED / 0.0013)


AMP, PHASE = np.abs(OF_CASA), np.angle(OF_CASA)


@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("u [lambda] v [lambda] Re(V) [mJy] Im(V) [mJy] weight [1/mJy^2]", COLUMNS * [1, 1, 1e3, 1e3, 1e-6]),
        ("u [lambda] v [lambda] Re(V) [mJy] Im(V) [mJy] weight", COLUMNS * [1, 1, 1e3, 1e3, 1e-6]),
        ("Columns: v[lambda], u[lambda], Im[Jy], Re[Jy], wgt", COLUMNS[:, [1, 0, 3, 2, 4]]),
        ("u v Re Im sigma", np.column_stack([COLUMNS[:, :4], COLUMNS[:, 4] ** -0.5])),
        ("u v Amp(V) [Jy] Phase [deg] weight", np.column_stack([U, V, AMP, np.degrees(PHASE), COLUMNS[:, 4]])),
        ("u v amp phase[rad] weight", np.column_stack([U, V, AMP, PHASE, COLUMNS[:, 4]])),
        ("u v amp phase weight", np.column_stack([U, V, AMP, np.degrees(PHASE), COLUMNS[:, 4]])),
        ("u and v in lambda", COLUMNS),  # a sentence, and no five names
    ],
)
def test_columns_are_what_the_head_names(tmp_path, head, columns):
    vis = read_uvtable(table(tmp_path / "a.txt", head, columns))
    assert vis.uu[0] == pytest.approx(U)
    assert vis.data[0] == pytest.approx(OF_CASA.conj())
    assert vis.weight[0] == pytest.approx(COLUMNS[:, 4])


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_editors_of_windows_may_have_written_it(tmp_path, encoding):
    path = table(tmp_path / "a.txt", "Müller, u [lambda]")
    path.write_bytes(path.read_text("utf-8").replace("# ", "  // ").encode(encoding))
    assert read_uvtable(path).data[0] == pytest.approx(OF_CASA.conj())


def test_fortran_writes_exponents_with_a_d(tmp_path):
    path = table(tmp_path / "a.txt", "HD 1D5, u [lambda]")
    path.write_text(path.read_text("utf-8").replace("e+", "D+").replace("e-0", "d-"), encoding="utf-8")
    assert read_uvtable(path).data[0] == pytest.approx(OF_CASA.conj())


def test_a_spreadsheet_writes_its_head_without_a_mark(tmp_path):
    path = table(tmp_path / "a.txt", "v,u,Re,Im,weight", COLUMNS[:, [1, 0, 2, 3, 4]])
    path.write_text(path.read_text("utf-8").removeprefix("# "), encoding="utf-8")
    assert read_uvtable(path).data[0] == pytest.approx(OF_CASA.conj())


def test_a_table_may_be_packed_and_a_weight_of_zero_is_a_flag(tmp_path):
    table(tmp_path / "a.txt", columns=COLUMNS - [0, 0, 0, 0, 1])
    (tmp_path / "a.txt.bz2").write_bytes(bz2.compress((tmp_path / "a.txt").read_bytes()))
    vis = read_visibilities(tmp_path / "a.txt.bz2")
    assert vis.flagged.tolist() == [[True] + [False] * 8]
    write_uvtable(tmp_path / "b.txt", vis)
    assert read_uvtable(tmp_path / "b.txt").data == pytest.approx(vis.data[:, 1:])


def test_npz_files_of_frank_have_its_names_and_casas_sign(tmp_path):
    np.savez(tmp_path / "disk.npz", u=U, v=V, V=OF_CASA, weights=COLUMNS[:, 4], units={"u": "lambda"})
    vis = read_visibilities(tmp_path / "disk.npz")
    assert vis.data[0] == pytest.approx(sky_visibilities(SKY, U, V))
    assert read_npz(tmp_path / "disk.npz", conjugate=False).data[0] == pytest.approx(OF_CASA)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "five numbers"),
        ("# only a head\n", "five numbers"),
        ("1e5 2e5 1 0\n", "five numbers"),
        ("1e5 2e5 1 0 1\n1e5 2e5 1 0\n", "five numbers"),
        ("# u v\n\n1e5 2e5 1 0 1\n1e5 2e5 one 0 1\n", "line 4 .*one"),
        ("1e5 2e5 1 0 1\n1e5 2e5 1 0 1 7\n", "line 2 "),
        ("1e5 2e5 1-105 0 1\n", "line 1 .*1-105"),
        ("1e5 2e5 nan 0 1\n", "NaN"),
        ("1e5 2e5 1 0 -1\n", "negative"),
        ("# u[m]\n100 200 1 0 1\n", "frequencies"),
        ("100 200 1 0 1\n", "unit="),
        ("# u [Mlambda]\n1e5 2e5 1 0 1\n", "unit="),
        ("# u [lambda] v [klambda] Re Im w\n1e5 2e5 1 0 1\n", "unit="),
        ("# u v Re Im chi\n1e5 2e5 1 0 1\n", "chi"),
        ("# u v Re [K] Im [K] w\n1e5 2e5 1 0 1\n", "K"),
        ("# visibilities in mJy\n1e5 2e5 1 0 1\n", "mJy"),
        ("# u v Re Im w\n# [lambda] [lambda] [µJy] [µJy] [1/µJy^2]\n1e5 2e5 1 0 1\n", "µJy"),
        ("# u v amp phase w\n1e5 2e5 1 -3.1 1\n", "radians"),
        ("1e5 2e5 1 0 1\n1e5 3e5 1 0 2.5e-0", "last line"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, text, said):
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said) as error:
        read_visibilities(tmp_path / "a.txt")
    assert "\n" not in str(error.value)
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe" + text.encode())
    with pytest.raises(ValueError, match=r"a\.txt"):
        read_visibilities(tmp_path / "a.txt")
