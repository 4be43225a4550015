"""``python -m gpu_doctor`` is the ``gpu-doctor`` command."""

import sys

from gpu_doctor.cli import main

sys.exit(main())
