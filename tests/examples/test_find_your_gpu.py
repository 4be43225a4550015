"""The page's figure tells what its prose says, and its check knows a proof from a hope."""

import pytest

PAGE = "1_setup/01_find_your_gpu.py"


def takes_the_first(candidates):
    return candidates[0][0] if candidates else "cpu"


def lets_errors_out(candidates):
    for name, squares in candidates:
        if squares([2.0, 3.0]) == [4.0, 9.0]:
            return name
    return "cpu"


def believes_what_does_not_raise(candidates):
    for name, squares in candidates:
        try:
            squares([2.0, 3.0])
        except RuntimeError:
            continue
        return name
    return "cpu"


def looks_at_the_first_number(candidates):
    for name, squares in candidates:
        try:
            if squares([2.0, 3.0])[0] == 4.0:
                return name
        except Exception:
            continue
    return "cpu"


def compares_only_what_came_back(candidates):
    for name, squares in candidates:
        try:
            if all(got == number**2 for got, number in zip(squares([2.0, 3.0]), [2.0, 3.0], strict=False)):
                return name
        except Exception:
            continue
    return "cpu"


def takes_the_last_that_works(candidates):
    works = "cpu"
    for name, squares in candidates:
        try:
            if squares([2.0]) == [4.0] and squares([2.0, 3.0]) == [4.0, 9.0]:
                works = name
        except Exception:
            continue
    return works


def knows_no_cpu(candidates):
    for name, squares in candidates:
        try:
            if squares([2.0, 3.0]) == [4.0, 9.0]:
                return name
        except Exception:
            continue
    return None


def asks_for_errors_that_are_small(candidates):
    numbers = [0.5, -3.0, 7.0]
    for name, squares in candidates:
        try:
            got = squares(numbers)
            if len(got) == 3 and max(abs(g - n * n) for g, n in zip(got, numbers, strict=True)) < 1e-6:
                return name
        except Exception:
            continue
    return "cpu"


def test_right_answers_are_right(page):
    assert page["check"](page["first_working_solution"]).startswith("Right")
    assert page["check"](asks_for_errors_that_are_small).startswith("Right")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (takes_the_first, "an error means: try the next"),
        (lets_errors_out, "an error means: try the next"),
        (believes_what_does_not_raise, "compare every number"),
        (looks_at_the_first_number, "compare every number"),
        (compares_only_what_came_back, "count the results"),
        (takes_the_last_that_works, "the best that works comes first"),
        (knows_no_cpu, "there is always the CPU"),
        (lambda: "gpu", "TypeError"),
        (None, "TypeError"),
    ],
)
def test_wrong_answers_are_told_why(page, answer, says):
    assert says in page["check"](answer)


def test_each_broken_machine_breaks_at_another_question(page):
    first = [next(a.question for a in page["reports"][name].ladder if a.state is False) for name in page["broken"]]
    assert len(set(first)) == len(first) == 6


def test_false_has_many_causes_and_true_some(page):
    assert len(page["silent"]) > 20
    assert page["lying"] - page["silent"]
