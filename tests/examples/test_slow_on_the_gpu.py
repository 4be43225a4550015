"""What the page measures of a loop adds up, its cure feeds all stars, and the check knows each cause."""

import torch
from pages import judged

PAGE = "2_devices/18_slow_on_the_gpu.py"


def by_step_alone(_epoch, _loading, step, doubled):
    return "launches" if doubled < 1.25 * step else "busy"


def by_seconds(_epoch, loading, step, doubled):
    return "loading" if loading > 5 else "launches" if doubled - step < 0.03 else "busy"


WRONG = [
    (by_step_alone, "mend the loader first|nearly all"),
    (by_seconds, "take ratios"),
    (lambda *_: "loading", "twice the pictures"),
    (lambda *_: "launches", "nearly all"),
    (lambda *_: "busy", "nearly all"),
    (lambda epoch, loading, step, doubled: "loading" if loading > epoch / 2 else "launches", "twice as long"),
    (lambda epoch, loading, step, doubled: "loading" if loading > epoch / 2 else "busy", "twice the pictures"),
]

test_answers = judged(["suspect_solution"], WRONG)


def test_the_cure_feeds_every_star_once(page) -> None:
    pictures, places = (torch.cat(part) for part in zip(*page["Ready"](), strict=True))
    assert len(places) == len(page["Stars"]())
    assert torch.equal(places.sum(0), page["places"].sum(0))
    assert len(pictures.unique(dim=0)) == len(places)
