from hypothesis import settings

# The same examples at every run, and no clock: a test does not fail because its machine is busy.
settings.register_profile("same every time", derandomize=True, deadline=None)
settings.load_profile("same every time")
