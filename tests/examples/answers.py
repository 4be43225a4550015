"""What the check of every page does with answers to its exercise."""


def judge(check, right, wrong) -> None:
    """Right answers are accepted; wrong ones get a hint that names the thing (one of ``a|b``), and nothing raises."""
    for answer in right:
        said = check(answer)
        assert said.startswith("Right"), said
    for name, (answer, hint) in wrong.items() if isinstance(wrong, dict) else enumerate(wrong):
        said = " ".join(check(answer).split())
        assert not said.startswith("Right"), name
        assert any(word in said for word in hint.split("|")), f"{name}: no {hint!r} in {said!r}"
