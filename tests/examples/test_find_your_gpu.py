"""The page's figure tells what its prose says, and its check knows a proof from a hope."""

from pages import judged

PAGE = "1_setup/01_find_your_gpu.py"


def first_that(works, catches=Exception, names=("cuda", "xpu", "mps"), otherwise="cpu"):
    """An answer that takes the first device of which this holds."""

    def answer(sum_on):
        for name in names:
            try:
                if works(sum_on(name)):
                    return name
            except catches:
                continue
        return otherwise

    return answer


def is_right(got):
    return got == 500_500


WRONG = {
    "always CUDA": (lambda sum_on: "cuda", "try the next"),
    "always the CPU": (lambda sum_on: "cpu", "works"),
    "catches nothing": (first_that(is_right, catches=()), "try the next"),
    "catches only RuntimeError": (first_that(is_right, catches=RuntimeError), "any kind"),
    "tries only CUDA": (first_that(is_right, names=["cuda"]), "try the next"),
    "forgets Apple": (first_that(is_right, names=["cuda", "xpu"]), "Apple"),
    "doesn't compare the sum": (first_that(lambda got: True), "compare"),
    "takes any sum but 0": (first_that(bool), "nearly|NaN"),
    "takes any sum above 0": (first_that(lambda got: got > 0), "nearly"),
    "takes NaN for the sum": (first_that(lambda got: not abs(got - 500_500) > 0.1), "NaN"),
    "the best last": (first_that(is_right, names=["mps", "xpu", "cuda"]), "first"),
    "returns nothing without a GPU": (first_that(is_right, otherwise=None), "try the next"),
}


def with_its_number(sum_on):
    """As PyTorch also calls it."""
    found = first_that(lambda got: abs(got - 500_500) < 0.1)(sum_on)
    return "cuda:0" if found == "cuda" else found


test_answers = judged(
    ["best_device_solution", with_its_number, first_that(is_right, names=["cuda", "mps", "xpu"])], WRONG
)


def test_the_sum_that_a_reader_pastes_is_right(page) -> None:
    assert page["sum_on"]("cpu") == 500_500


def test_each_broken_machine_breaks_at_another_question(page):
    first = [next(a.question for a in page["reports"][name].checks if a.state is False) for name in page["broken"]]
    assert len(set(first)) == len(first) == 6
    assert first == sorted(first, key=list(page["QUESTIONS"]).index)
    assert [page["links"][question] for question in first] == list("232456"), "as in the fold with the answers"


def test_the_colleague_has_what_the_text_says(page):
    facts = page["case"]("cpu-wheel").facts
    assert "4070" in str(facts)
    assert (facts.torch.cuda, facts.torch.kind) == (None, None)
    assert page["examine"](facts).status == "problem"
