"""The page's figure tells what its prose says, and its check knows a proof from a hope."""

from pages import judged

PAGE = "1_setup/01_find_your_gpu.py"


def takes_the_first(candidates):
    return candidates[0][0] if candidates else "cpu"


def first_that(works, catches=Exception, otherwise="cpu"):
    """An answer that takes the first device of which this holds."""

    def answer(candidates):
        for name, squares in candidates:
            try:
                if works(squares):
                    return name
            except catches:
                continue
        return otherwise

    return answer


def is_right(squares):
    return squares([2.0, 3.0]) == [4.0, 9.0]


def has_small_errors(squares):
    got = squares([0.5, -3.0, 7.0])
    return len(got) == 3 and max(abs(g - n * n) for g, n in zip(got, [0.5, -3.0, 7.0], strict=True)) < 1e-6


WRONG = [
    (takes_the_first, "try the next"),
    (first_that(is_right, catches=()), "try the next"),
    (first_that(lambda squares: squares([2.0, 3.0]) or True, catches=RuntimeError), "every number"),
    (first_that(lambda squares: squares([2.0, 3.0])[0] == 4), "every number"),
    (first_that(lambda squares: (got := squares([2.0, 3.0])) == [4.0, 9.0][: len(got)]), "count"),
    (lambda candidates: first_that(is_right)(candidates[::-1]), "first"),
    (first_that(is_right, otherwise=None), "CPU"),
]


test_answers = judged(["first_working_solution", first_that(has_small_errors)], WRONG)


def test_each_broken_machine_breaks_at_another_question(page):
    first = [next(a.question for a in page["reports"][name].checks if a.state is False) for name in page["broken"]]
    assert len(set(first)) == len(first) == 6
    assert first == sorted(first, key=list(page["QUESTIONS"]).index)


def test_the_colleague_has_what_the_text_says(page):
    facts = page["case"]("cpu-wheel").facts
    assert "4070" in str(facts)
    assert (facts.torch.cuda, facts.torch.kind) == (None, None)
    assert page["examine"](facts).status == "problem"
