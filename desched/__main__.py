"""Run the command line with `python -m desched`."""

import sys

from desched.cli import main

if __name__ == "__main__":
    sys.exit(main())
