"""``python -m nqf_registry`` is ``nqf``."""

import sys

from nqf_registry.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
