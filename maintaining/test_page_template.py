"""The call and the loop agree, and the check tells right answers from plausible wrong ones."""

import numpy as np
import pytest
from pages import judged

PAGE = "1_setup/05_page_template.py"
WRONG = [
    (lambda numbers: np.sum(numbers) ** 2, "square first"),
    (lambda numbers: np.sum(np.abs(numbers)), "square first"),
    (lambda numbers: numbers**2, "TypeError"),
]

test_answers = judged(["squares_solution", lambda numbers: sum(x * x for x in numbers)], WRONG)


def test_the_call_and_the_loop_agree(page):
    assert page["numbers"].sum() == pytest.approx(sum(page["numbers"]), rel=1e-12)
