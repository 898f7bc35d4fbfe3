"""addon.engine.setup: the engine's environment made by a stand-in for uv, and broken off or failing at every step."""

from __future__ import annotations

import hashlib
import io
import json
import os
import select
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from addon.engine.setup import jobs, place, plan, steps
from addon.engine.setup.place import EnginePlace, Status
from addon.engine.setup.programs import Runner, without_python
from splat_engine.formats.errors import UserError

FAKE = Path(__file__).with_name("fake_uv.py")
INDEX = "https://index.example/simple"
WAIT_S = 60
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the stand-in for uv is a script with a #! line")


def uv_archive() -> bytes:
    """The stand-in, packed as uv's wheel is."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zipped:
        text = FAKE.read_text(encoding="utf-8").replace("/usr/bin/env python3", sys.executable, 1)
        zipped.writestr(f"uv-{plan.UV_VERSION}.data/scripts/uv", text)
    return stream.getvalue()


ARCHIVE = uv_archive()
NAME = "uv-fake.whl"


class Answer(io.BytesIO):
    """What a server sends; breaks off with an error after ``cut`` bytes."""

    def __init__(self, content: bytes, kind: str = "", status: int = 200, cut: int | None = None) -> None:
        super().__init__(content)
        self.headers, self.status, self._cut = {"Content-Type": kind}, status, cut

    def read(self, size: int | None = -1) -> bytes:
        if self._cut is None:
            return super().read(size)
        if self.tell() >= self._cut:
            raise ConnectionResetError("connection reset by peer")
        return super().read(self._cut - self.tell())


class Index:
    """A package index that has uv alone.

    Attributes:
        asked: Path and Range of every request.
    """

    def __init__(self, content: bytes = ARCHIVE, *, kind: str = "json", ranges: bool = True) -> None:
        self.content, self.kind, self.ranges = content, kind, ranges
        self.asked: list[tuple[str, str | None]] = []
        self.cut: int | None = None
        self.error: Exception | None = None

    def __call__(self, request: urllib.request.Request) -> Answer:
        wanted = request.get_header("Range")
        self.asked.append((request.selector, wanted))
        if self.error is not None:
            raise self.error
        if request.selector == "/simple/uv/":
            if self.kind == "html":
                return Answer(f'<a href="../../files/{NAME}#sha256=0">uv</a>'.encode(), "text/html")
            files = {"files": [{"url": "https://index.example/files/other.whl"}, {"url": f"/files/{NAME}"}]}
            return Answer(json.dumps(files).encode(), "application/vnd.pypi.simple.v1+json")
        if wanted and self.ranges:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            return Answer(self.content[first:], status=206)
        return Answer(self.content, cut=self.cut)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., plan.Plan]:
    """Makes a plan for a folder with spaces and letters beyond ASCII in its path."""

    def make(**changes: Any) -> plan.Plan:
        root = tmp_path / "Zoë's Ordner 日本"
        wheel = root / "splat_engine-0.1.0-py3-none-any.whl"
        if not wheel.exists():
            root.mkdir()
            wheel.write_bytes(b"wheel")
        uv = plan.UvWheel(NAME, hashlib.sha256(ARCHIVE).hexdigest(), len(ARCHIVE))
        values = {"uv": uv, "has_card": False, "index": INDEX, **changes}
        return plan.Plan(EnginePlace(root / "engine"), wheel, **values)

    return make


def run(job: jobs.Job) -> jobs.Job:
    """Runs a job to its end."""
    job.start()
    while job.wait_for_news(WAIT_S):
        pass
    return job


def environment(fault: str = "") -> dict[str, str]:
    return {**os.environ, "FAKE_UV": fault, "PYTHONHOME": "/blender", "VIRTUAL_ENV": "/other"}


def calls(found: plan.Plan) -> list[dict[str, Any]]:
    path = found.place.root / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def test_it_is_made_whole(made):
    """From nothing: uv is fetched, the environment made, packages installed, checked, stamped; the place is ready."""
    found, index = made(), Index()
    assert place.status(found.place, found.wheel) is Status.ABSENT
    job = run(jobs.setup_job(found, environment(), index))
    assert job.error is None and job.facts["torch"] == "2.13.0", job.error
    assert (
        place.status(found.place, found.wheel) is Status.READY and place.read_facts(found.place) == job.facts
    )
    version, venv, install = calls(found)
    assert version["arguments"] == ["--version"] and "--clear" in venv["arguments"]
    assert f"torch=={plan.TORCH_VERSION}" in install["arguments"]
    assert f"splat-engine[fit] @ {found.wheel.as_uri()}" in install["arguments"]
    assert install["arguments"][install["arguments"].index("--torch-backend") + 1] == "auto"
    assert install["environment"]["UV_CACHE_DIR"] == str(found.place.cache)
    assert "PYTHONHOME" not in install["environment"]
    assert [path for path, _ in index.asked] == ["/simple/uv/", f"/files/{NAME}"]


def test_a_second_time_downloads_nothing(made):
    """uv is there, so the index is not asked; the environment is made anew all the same."""
    found = made()
    run(jobs.setup_job(found, environment(), Index()))
    index = Index()
    assert run(jobs.setup_job(found, environment(), index)).error is None
    assert not index.asked and len(calls(found)) == 6


@pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="Linux alone lets one wait for a process that is no child"
)
@pytest.mark.parametrize("step", ["version", "venv", "install", "doctor"])
def test_cancelled_at_any_step_it_does_not_pass_for_whole(made, step):
    """Cancelled, it ends at once, with uv's own children; the place is unfinished and the next set-up makes it whole."""
    found = made()
    job = jobs.setup_job(found, environment(f"{step}:hang"), Index())
    log = found.place.log
    job.start()
    while "hanging" not in (log.read_text() if log.is_file() else ""):
        assert job.wait_for_news(0.05), job.error
    pids = [int(word) for word in log.read_text().split("hanging ")[1].split()[:2]]
    job.cancel(WAIT_S)
    assert job.is_over and job.is_cancelled and job.error is None
    assert all(has_ended(pid) for pid in pids)
    assert place.status(found.place, found.wheel) in (Status.UNFINISHED, Status.ABSENT)
    again = run(jobs.setup_job(found, environment(), Index()))
    assert again.error is None and place.status(found.place, found.wheel) is Status.READY


def has_ended(pid: int) -> bool:
    """Waits for the end of a process that need not be a child of ours."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], WAIT_S)[0])
    finally:
        os.close(descriptor)


def test_cancelled_in_the_download_it_goes_on_from_there(made):
    """What has come stays; the next time only the rest is asked for, and the whole is checked."""
    found, index = made(), Index()
    index.cut = 100
    job = run(jobs.setup_job(found, environment(), index))
    assert job.error is not None and "could not be had" in job.error.headline
    assert (found.place.root / f"{NAME}.part").stat().st_size == 100
    index = Index()
    assert run(jobs.setup_job(found, environment(), index)).error is None
    assert index.asked[-1] == (f"/files/{NAME}", "bytes=100-")


def test_cancel_during_the_download(made):
    """Said while bytes come, it ends the download before the next piece."""
    found, index = made(), Index()
    job = jobs.setup_job(found, environment(), index)
    say = job.say

    def cancel_at_bytes(phase: str, share: float | None, detail: str) -> None:
        say(phase, share, detail)
        if detail.endswith("MB"):
            job.runner.cancel()

    index.content = ARCHIVE * 200  # several pieces
    big = plan.UvWheel(NAME, hashlib.sha256(index.content).hexdigest(), len(index.content))
    job = jobs.setup_job(made(uv=big), environment(), index)
    say = job.say
    job.say = cancel_at_bytes  # type: ignore[method-assign]
    run(job)
    assert job.is_cancelled and 0 < (found.place.root / f"{NAME}.part").stat().st_size < big.size
    assert not calls(found)


def test_a_server_without_ranges_sends_all_again(made):
    """What was there is replaced, not added to."""
    found = made()
    found.place.root.mkdir(parents=True)
    (found.place.root / f"{NAME}.part").write_bytes(b"x" * 50)
    assert run(jobs.setup_job(found, environment(), Index(ranges=False, kind="html"))).error is None


def test_a_wrong_hash_is_refused_and_forgotten(made):
    """A changed file is not run; it is removed, so that the next try starts clean."""
    found = made()
    job = run(jobs.setup_job(found, environment(), Index(ARCHIVE[:-1] + b"!")))
    assert job.error is not None and "not the file that Splatfit expects" in job.error.headline
    assert not list(found.place.root.glob("uv-*")) and not calls(found)
    assert place.status(found.place, found.wheel) is not Status.READY


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (urllib.error.URLError("[Errno -2] Name or service not known"), "server could not be reached"),
        (
            urllib.error.URLError("Tunnel connection failed: 407 Proxy Authentication Required"),
            "A proxy stands",
        ),
        (urllib.error.HTTPError(INDEX, 407, "Proxy Authentication Required", {}, None), "A proxy stands"),
        (urllib.error.URLError("[SSL: CERTIFICATE_VERIFY_FAILED] self signed"), "certificate is not trusted"),
        (urllib.error.HTTPError(INDEX, 404, "Not Found", {}, None), "answered 404"),
        (TimeoutError("timed out"), "server could not be reached"),
    ],
)
def test_the_network_in_words(made, error, words):
    """Offline, proxy, certificate and missing file each have their words and a remedy."""
    index = Index()
    index.error = error
    job = run(jobs.setup_job(made(), environment(), index))
    assert job.error is not None and words in job.error.headline and job.error.hint


@pytest.mark.parametrize(
    ("step", "said", "words"),
    [
        ("install", "error: failed to write: No space left on device (os error 28)", "The disk is full"),
        ("install", "There is not enough space on the disk. (os error 112)", "The disk is full"),
        ("install", "  cause: dns error\n  cause: failed to lookup address", "could not be reached"),
        ("install", "  cause: tunnel error: unsuccessful", "A proxy stands"),
        ("install", "invalid peer certificate: UnknownIssuer", "certificate is not trusted"),
        ("install", "No solution found when resolving dependencies", "not to be had"),
        ("venv", "error: No interpreter found for Python >=3.11", "No Python for the engine"),
        ("venv", "error: something nobody has foreseen", "something nobody has foreseen"),
        ("doctor", "error: The fit of one second does not learn.\nPlease report this.", "does not learn"),
    ],
)
def test_programs_that_fail_in_words(made, step, said, words):
    """What uv or the check says becomes words, and the place is not ready."""
    found = made()
    job = run(jobs.setup_job(found, environment(f"{step}:{said}"), Index()))
    assert job.error is not None and words in job.error.headline
    assert str(found.place.log) in job.error.hint and said.splitlines()[0] in found.place.log.read_text()
    assert place.status(found.place, found.wheel) is not Status.READY


def test_a_failed_update_takes_the_old_stamp_away(made):
    """An environment that was whole and is worked on does not pass for whole until the work is done."""
    found = made()
    run(jobs.setup_job(found, environment(), Index()))
    found.wheel.write_bytes(b"a newer wheel")
    assert place.status(found.place, found.wheel) is Status.OUTDATED
    run(jobs.setup_job(found, environment("install:broken"), Index()))
    assert place.status(found.place, found.wheel) is Status.UNFINISHED
    run(jobs.setup_job(found, environment(), Index()))
    assert place.status(found.place, found.wheel) is Status.READY


def test_a_damaged_stamp_or_a_missing_python_is_unfinished(made):
    """What was changed from outside is made anew, not believed."""
    found = made()
    run(jobs.setup_job(found, environment(), Index()))
    stamp = found.place.stamp.read_text()
    for damaged in ("{", "[]", stamp[:20]):
        found.place.stamp.write_text(damaged)
        assert place.status(found.place, found.wheel) in (Status.UNFINISHED, Status.OUTDATED)
    found.place.stamp.write_text(stamp)
    found.place.python.unlink()
    assert place.status(found.place, found.wheel) is Status.UNFINISHED


def test_two_blenders_at_once(made):
    """The second is told, and touches nothing; a holder that is gone holds no longer."""
    found = made()
    found.place.root.mkdir(parents=True)
    code = (
        "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True);"
        "sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(found.place.root / "lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline()
    index = Index()
    job = run(jobs.setup_job(found, environment(), index))
    assert job.error is not None and "Another Blender" in job.error.headline and not index.asked
    holder.communicate()
    assert run(jobs.setup_job(found, environment(), index)).error is None


def test_uv_holds_the_lock_while_it_lives(made, tmp_path):
    """A Blender that crashes leaves uv running: until that has ended, no other set-up begins."""
    found = made()
    with place.locked(found.place) as descriptor:
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE, pass_fds=(descriptor,),
        )  # fmt: skip
    with pytest.raises(UserError, match="Another Blender"), place.locked(found.place):
        pass
    child.communicate()
    with place.locked(found.place):
        pass


def test_a_disk_too_small_is_refused_before_anything_is_fetched(made):
    """With how much is free and how much is needed."""
    found, index = made(), Index()
    tools = steps.Tools(Runner(found.place.log, {}), lambda *_: None, lambda _: None, index, lambda _: 10**9)
    with pytest.raises(UserError, match=r"1\.0 GB free; the engine needs 1\.6 GB"):
        steps.set_up(found, tools)
    assert not index.asked


def test_a_folder_that_cannot_be_written(made):
    """A file where the folder should be: words, no traceback."""
    found = made()
    found.place.root.write_text("a file")
    job = run(jobs.setup_job(found, environment(), Index()))
    assert job.error is not None and "Cannot write" in job.error.headline


def test_offline_everything_comes_from_the_folder(made, tmp_path):
    """Without leave to go online nothing asks the network: uv and packages come from the chosen folder."""
    folder, index = tmp_path / "packages", Index()
    folder.mkdir()
    job = run(jobs.setup_job(made(wheel_folder=folder, is_offline=True), environment(), index))
    assert job.error is not None and f"has no {NAME}" in job.error.headline
    (folder / NAME).write_bytes(ARCHIVE)
    found = made(wheel_folder=folder, is_offline=True)
    assert run(jobs.setup_job(found, environment(), index)).error is None and not index.asked
    install = calls(found)[-1]
    assert "--no-index" in install["arguments"] and "--torch-backend" not in install["arguments"]
    assert install["environment"]["UV_OFFLINE"] == "1" and (folder / NAME).is_file()


def test_torch_of_the_folder_is_the_one_to_install(made, tmp_path):
    """Where the folder has torch, uv is not told to look for one by the card."""
    (tmp_path / f"torch-{plan.TORCH_VERSION}+cpu-cp311-cp311-linux_x86_64.whl").touch()
    found = made(wheel_folder=tmp_path)
    run(jobs.setup_job(found, environment(), Index()))
    assert "--torch-backend" not in calls(found)[-1]["arguments"]


def test_pip_where_uv_does_not_run(made, monkeypatch, tmp_path):
    """A uv that cannot start gives way to pip, in words, with a Python of this machine; the result passes the same check."""
    fake = tmp_path / "python"
    fake.write_text(PIP_PYTHON.replace("EXECUTABLE", sys.executable).replace("FAKE", str(FAKE)))
    fake.chmod(0o755)
    monkeypatch.setattr(steps, "_python_candidates", lambda: iter([["/no/such/python"], [str(fake)]]))
    found, told = made(), []
    job = jobs.setup_job(found, environment("version:cannot execute"), Index())
    say = job.say
    job.say = lambda phase, share, detail: (told.append(phase), say(phase, share, detail))  # type: ignore
    run(job)
    assert job.error is None, job.error
    assert any("pip goes on" in phase for phase in told)
    said = found.place.log.read_text()
    assert f"--index-url {plan.CPU_INDEX}" in said and "-m venv --clear" in said
    assert place.status(found.place, found.wheel) is Status.READY


PIP_PYTHON = """#!EXECUTABLE
import pathlib, runpy, sys
if sys.argv[1:3] == ["-m", "venv"]:
    python = pathlib.Path(sys.argv[-1]) / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(pathlib.Path(__file__).read_text())
    python.chmod(0o755)
elif sys.argv[2:3] == ["splat_engine"]:
    runpy.run_path("FAKE", run_name="__main__")
"""


def test_no_python_for_pip(made, monkeypatch):
    """Without uv and without a Python the words say which Python to install."""
    monkeypatch.setattr(steps, "_python_candidates", lambda: iter([["/no/such/python"]]))
    job = run(jobs.setup_job(made(uv=None), environment(), Index()))
    assert job.error is not None and "no Python from 3.11" in job.error.headline


def test_progress_goes_one_way(made):
    """The share never falls, and the meter of the disk moves it while uv says nothing."""
    found = made()
    free = [5_000_000_000]
    watched: list[Any] = []
    job = jobs.Job(lambda job: {}, found.place.log, {})
    runner = Runner(found.place.log, without_python(environment()))
    tools = steps.Tools(runner, job.say, watched.append, Index(), lambda _: free[0])
    steps.set_up(found, tools)
    meter, after = watched
    assert after is None
    job.watch(meter)
    shares = []
    for written in (0, 600_000_000, 300_000_000, 9_000_000_000):
        free[0] = 5_000_000_000 - written
        job.measure()
        shares.append(job.share)
    assert shares == sorted(shares) and shares[-1] <= 1 and "MB on the disk" in job.detail


@pytest.mark.parametrize("name", sorted(plan.UV_WHEELS))
def test_every_machine_has_its_plan(tmp_path, name):
    """Linux, Windows and macOS, on the processors that torch is built for."""
    made = plan.make_plan(EnginePlace(tmp_path), tmp_path, machine=name, has_card=False, environment={})
    assert made.uv is not None and len(made.uv.sha256) == 64 and plan.UV_VERSION in made.uv.name
    assert made.index == plan.DEFAULT_INDEX


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (("macos", "x64"), "Intel"),
        (("windows", "arm64"), "windows on arm64"),
        (("freebsd", "x64"), "freebsd"),
    ],
)
def test_machines_that_torch_is_not_built_for(tmp_path, machine, words):
    """Refused before anything is fetched."""
    with pytest.raises(UserError, match=words):
        plan.make_plan(EnginePlace(tmp_path), tmp_path, machine=machine, has_card=False)


def test_the_index_of_a_company(tmp_path):
    """The machine's own package index is used, and its password is never shown."""
    url = "https://name:secret@mirror.example/simple/"
    made = plan.make_plan(
        EnginePlace(tmp_path), tmp_path, machine=("linux", "x64"), has_card=True,
        environment={"PIP_INDEX_URL": url},
    )  # fmt: skip
    assert made.index == url.rstrip("/") and made.size == plan.CARD_SIZE
    assert plan.masked(made.index) == "https://mirror.example/simple"


def test_torch_is_the_one_that_is_tested():
    """The version stands once more in tools/requirements-torch.txt; they agree."""
    text = (Path(__file__).resolve().parents[2] / "tools" / "requirements-torch.txt").read_text()
    assert f"torch=={plan.TORCH_VERSION}" in text.splitlines()


def test_the_carried_wheel(tmp_path):
    """One wheel is the wheel; none, as in a checkout, or two are errors in words."""
    with pytest.raises(UserError, match="carries no wheel"):
        place.carried_wheel(tmp_path)
    (tmp_path / "wheels").mkdir()
    wheel = tmp_path / "wheels" / "splat_engine-0.1.0-py3-none-any.whl"
    wheel.touch()
    assert place.carried_wheel(tmp_path) == wheel
