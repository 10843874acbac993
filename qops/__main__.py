"""Run ``python -m qops``: the same as the command ``qops``."""

import sys

from qops._cli import main

sys.exit(main())
