"""``python -m firstlight`` is the ``firstlight`` command."""

import sys

from firstlight.cli import main

if __name__ == "__main__":
    sys.exit(main())
