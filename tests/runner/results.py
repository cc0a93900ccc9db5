"""Where results of tests and times of build steps are remembered, and how much that saved."""

import os
import pathlib


def folder():
    """$GANGWAY_RESULTS, by default beside the compiler cache."""
    named = os.environ.get("GANGWAY_RESULTS")
    if named:
        return pathlib.Path(named)
    compiled = pathlib.Path(os.environ.get("CCACHE_DIR") or pathlib.Path.home() / ".cache/ccache")
    return compiled.parent / "gangway/results"


def count_saved(seconds):
    """Adds processor seconds that a remembered result once took to the file that $GANGWAY_SAVED
    names, from which .ci/run says what a stage would have taken without caches."""
    file = os.environ.get("GANGWAY_SAVED")
    if file and seconds > 0:
        with open(file, "a") as saved:
            saved.write(f"{seconds:.2f}\n")
