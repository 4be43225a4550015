# For a machine that has only Python 3.11+ and make. The tasks themselves are in noxfile.py.
PYTHON ?= python3
NOX = @$(PYTHON) tools/in_env.py nox --session

.PHONY: docs docs-live test test-all lint types links browser record bench clean

docs:  ## the whole site into build/html; one page: make docs PAGE=2_devices/05
	$(NOX) docs -- $(PAGE)
docs-live:  ## rebuild and reload at every save
	$(NOX) docs-live
test:  ## the quick tests, in some minutes
	$(NOX) tests
test-all:  ## all of them
	$(NOX) tests -- --all
lint types links browser record bench:
	$(NOX) $@
clean:  ## everything that a build made; the environment stays
	rm -rf build docs/tutorials .cache
