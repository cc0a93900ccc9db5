"""Says what a run of .ci/run has to look at besides ./check: what the newest commits can have
changed, and a third of everything, so that runs on three days in a row look at all of it.

Both follow from git alone, since a new machine remembers nothing. The third that is due is the
number of different days (UTC) on which main has commits, modulo 3. GANGWAY_THIRD=N forces one, and
GANGWAY_THIRD=all takes everything, however long that takes.
"""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEST = re.compile(r"^tests/|_(test|bench|fuzz)\.cc$")
KEEP_S = 30 * 24 * 3600
sys.path.insert(0, str(ROOT / "tests/runner"))
import results


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True,
                          env={**os.environ, "TZ": "UTC"}).stdout


def days():
    """The days of all commits, the newest first."""
    return sorted(set(git("log", "--format=%cd", "--date=format-local:%Y-%m-%d").split()),
                  reverse=True)


def forced():
    return os.environ.get("GANGWAY_THIRD", "")


def everything():
    return forced() == "all"


def third():
    return int(forced()) if forced() and not everything() else len(days()) % 3


def changed_files():
    """What the commits of the 24 hours up to the newest one touched, and what is not committed."""
    newest = int(git("log", "-1", "--format=%ct"))
    text = git("log", "--format=", "--name-only", f"--since=@{newest - 24 * 3600}")
    text += git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    return set(text.split())


def is_changed(source, changed):
    """Whether a source or the header of its name is among the changed files."""
    return source in changed or source.removesuffix(".cc") + ".h" in changed


def third_of(name):
    """The third that something belongs to, by its name alone: others coming or going change nothing."""
    return hashlib.sha256(name.encode()).digest()[0] % 3


# Nothing of what is due begins later than this after .ci/run began: all must end in 90 minutes,
# whatever the machine. Thirds come last, and so are left out first.
LATE_S = 60 * 60


def late_in(seconds):
    """Whether nothing of what is due may begin any more in so many seconds."""
    began = not everything() and os.environ.get("GANGWAY_CI_BEGAN")
    return bool(began) and time.time() - float(began) > LATE_S - seconds


def too_late():
    return late_in(0)


def part():
    """What a stage was asked for: `changed`, or what else is due as the `third`."""
    if sys.argv[-1] not in ("changed", "third"):
        sys.exit(f"{sys.argv[0]}: the last word says which part: expected changed or third")
    return sys.argv[-1]


def chosen(names, is_changed):
    """Those of `names` that belong to the part."""
    if everything():
        return sorted(names) if part() == "changed" else []
    if part() == "changed":
        return sorted(n for n in names if is_changed(n))
    return sorted(n for n in names if not is_changed(n) and third_of(n) == third())


def say(what, chosen_names, names):
    rest = "" if everything() else " that the newest commits changed"
    if part() == "third":
        rest = f" of third {third()} besides"
    print(f"{what}: {len(chosen_names)} of {len(names)}{rest}", flush=True)


def say_left_out(what, names):
    if names:
        print(f"=== LEFT OUT, since .ci/run has taken more than {LATE_S // 60} minutes: {what} of "
              + ", ".join(sorted(names)), flush=True)


def forget_old(folder):
    """Removes what was not used for a month from a folder of remembered results."""
    for old in folder.iterdir():
        if time.time() - old.stat().st_mtime > KEEP_S:
            old.unlink()


def reused(entry):
    """Of a remembered result that is used again: keeps it, and counts the seconds that it saved."""
    entry.touch()
    results.count_saved(float(entry.read_text() or 0))
