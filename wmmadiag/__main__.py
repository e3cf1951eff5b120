"""`python -m wmmadiag`."""

import sys

from wmmadiag.cli.main import main

sys.exit(main())
