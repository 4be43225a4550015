"""
How much faster is one call than a loop?
========================================

Begin with a situation that your reader knows: you have a million numbers and want
their sum. You can write a loop, or call NumPy. **Write down a guess: how many times as
fast is the call?** At the end you'll be able to say …

**Needs:** any computer.
"""

# %%
# Try it
# ------
#
# The smallest code that shows the surprise. Say before the cell what to look at.

import numpy as np

from firstlight import Bench

numbers = np.random.default_rng(seed=1).random(1_000_003)

bench = Bench("template")
bench.time("loop", sum, numbers, n=numbers.size)
bench.time("call", numbers.sum, n=numbers.size)
bench.show()

# %%
# Then tell what happened, with its number and its machine. Numbers of ours come by a
# role, ``timing``, so they stay true.
#
# Why?
# ----
#
# The idea with an analogy or a number first, then its name, and then the formula.
#
# Your turn
# ---------
#
# The exercise is the thing itself. Write the sum of the squares, without a loop. Put
# your answer where the dots are, and run ``firstlight try`` with the name of this file:
# it runs only what the exercise needs.


def squares(numbers): ...


# %%

# folded: What checks your answer


def check(answer):
    for given in (np.arange(3), np.array([-2.0, 0.5]), np.zeros(0)):
        try:
            got = float(answer(given))
        except Exception as error:
            return f"Not yet. With {given}: {type(error).__name__}: {error}"
        if not np.isclose(got, np.dot(given, given)):
            return f"Not yet. With {given}: {got:g}. Hint: square first, then add."
    return "Right."


# %%

print(check(squares))

# %%
# Three lines to remember
# -----------------------

# remember
print("""1. One thing that you want the reader to keep.
2. Another one, with its number if it has one.
3. And when it isn't so.""")

# %%
# Solution
# --------

# solution


def squares_solution(numbers):
    return np.dot(numbers, numbers)


print(f"Our solution: {check(squares_solution)}")
