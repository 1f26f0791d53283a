"""`python -m magma_pipelines`: the command line, as `ray job submit` starts it."""

import sys

from magma_pipelines.cli import main

sys.exit(main())
