"""``python -m firstlight_doctor`` is the ``firstlight-doctor`` command."""

import sys

from firstlight_doctor.cli import main

sys.exit(main())
