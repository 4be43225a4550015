"""Both tests of the page fail at the lines with the mistakes, and the check wants a launch that shows one."""

from pages import judged

PAGE = "3_kernels/17_test_your_kernels.py"
WRONG = [
    (lambda: (128, 64), "passes"),
    (lambda: (64, 64), "passes"),
    (lambda: (101, 128), "64 threads"),
    (lambda: (5000, 64), "1,000 numbers"),
    (lambda: 100, "two whole numbers"),
    (lambda: (0, 64), "1 to 1,000 numbers"),
    (lambda: (1000, 8), "passes"),
]

test_answers = judged(["launch_solution", lambda: (1, 2), lambda: (100, 32)], WRONG)


def test_each_test_fails_and_names_its_line(page) -> None:
    for line in ("tile[t] = x[t]", "out[t] = tile[63 - t]", "total[0] += 1", "2 failed"):
        assert line in page["said"]


def test_the_cures_pass(page) -> None:
    cured = page["TESTS"].replace("= x[t]\n", "= x[t]\n    cuda.syncthreads()\n")
    cured = cured.replace("total[0] += 1", "cuda.atomic.add(total, 0, 1)")
    assert page["pytest"](cured) == "2 passed"
