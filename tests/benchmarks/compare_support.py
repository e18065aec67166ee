"""What the tests of benchmarks/compare share: where it is, and how its programs are called.

Takes the folder off the command line, and lets its modules be imported.
"""

import contextlib
import io
import pathlib
import sys
import unittest

COMPARE = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(COMPARE))

DEVICE = "NVIDIA Test/GPU 1"


class Silent(unittest.TestCase):
    def call(self, main, *arguments):
        """The exit status; what was printed is in self.out and self.err."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = main([str(argument) for argument in arguments])
            except SystemExit as stop:
                status = stop.code
        self.out, self.err = out.getvalue(), err.getvalue()
        return status
