"""The program `verisum-fleet`, on a cluster that it makes itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fleet_tree import contents, expected, make_tree

from verisum.fleet import PlanError, read_plan

FLEET = Path(sys.executable).parent / "verisum-fleet"


def fleet(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(FLEET), *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def plan_of(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def test_a_plan_is_done_and_reported(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 20)
    plan = plan_of(tmp_path, f'catalog = "{tmp_path}/lake"\nmax_age = "30d"\n[[place]]\npath = "{tree}"\nname = "a-b"\n')
    ended = fleet("run", plan, "--workers", 1, "--json", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert (report["version"], report["type"]) == (1, "fleet") and report["started"].endswith("Z")
    schema = json.loads((Path(__file__).parents[2] / "docs" / "json.schema.json").read_text())
    fields = schema["$defs"]["fleet.fleet"]["properties"]
    assert set(report) == set(fields)
    assert set(report["places"][0]) == set(fields["places"]["items"]["properties"])
    assert report["verdicts"] == {"new": 26}
    assert report["places"][0]["place"] == "a-b"
    assert contents(tmp_path / "lake", "a-b") == expected(tree)
    # A bad file is the exit code, and is named on a line of its own.
    file = tree / "d1" / "f00001"
    before = file.stat()
    file.write_bytes(b"rotten")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    plan.write_text(plan.read_text() + f'[[place]]\npath = "{tmp_path}/none"\n')
    ended = fleet("run", plan, "--workers", 1, folder=tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "suspicious: a-b: d1/f00001" in ended.stdout
    assert "No such file or directory" in ended.stdout


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("catalog = 1", "it has no [[place]]"),
        ('[[place]]\npath = "/a"', "it has no catalog"),
        ('catalog = "l"\n[[place]]\nname = "a"', "a place has no path"),
        ('catalog = "l"\nbudgt = 1\n[[place]]\npath = "/a"', "it cannot have 'budgt'"),
        ('catalog = "l"\nbudget = "8 h"\n[[place]]\npath = "/a"', "'8 h' is no time"),
        ('catalog = "l"\n[[place]]\npath = "/a"\nbytes_per_second = "1X"', "'1X' is no size"),
        ('catalog = "l"\n[[place]]\npath = "/a"\ntasks = 0', "at least 1"),
        ('catalog = "l"\n[[place]]\npath = "web1:/srv"', "write ssh://web1/srv"),
        ('catalog = "l"\n[[place]]\npath = "/a"\nname = " "', "name: ' ' is blank"),
        ('catalog = "l"\n[[place]]\npath = "s3://a"\nhosts = { endpiont = "x" }', "hosts cannot have 'endpiont'; it can"),
        ('catalog = "l"\nplace = []', "it has no [[place]]"),
        ("= 1", "Invalid statement"),
    ],
)
def test_a_plan_that_makes_no_sense_is_bad_usage(text: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(PlanError) as raised:
        read_plan(str(plan_of(tmp_path, text)))
    assert error in str(raised.value)


def test_a_lake_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 5)
    plan = plan_of(tmp_path, f'catalog = "s3://lakes/a"\n[[place]]\npath = "{tree}"\n')
    nowhere = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1", "AWS_EC2_METADATA_DISABLED": "true"}
    keys = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
    for more, said in ((keys, "Could not connect"), ({"HOME": str(tmp_path)}, "Unable to locate credentials")):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        command = [str(FLEET), "run", str(plan), "--workers", "1"]
        ended = subprocess.run(command, capture_output=True, text=True, env={**environment, **nowhere, **more})
        assert ended.returncode == 3, ended.stderr
        (line,) = ended.stderr.splitlines()
        assert line.startswith("verisum-fleet: s3://lakes/a/.verisum/") and said in line


def test_ctrl_c_at_a_terminal_ends_a_run_at_once(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 1000)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    place = f'[[place]]\npath = "{tree}"\n'
    # Its task takes a quarter of an hour.
    plan = plan_of(tmp_path, f'catalog = "{tmp_path}/lake"\n{place}requests_per_second = 1\n')
    command = [str(FLEET), "run", str(plan), "--workers", "2"]
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as run:
        while not any((tmp_path / "lake").rglob("*.arrow")):
            assert run.poll() is None
            time.sleep(0.05)
        # As a terminal does it: to all processes.
        os.killpg(run.pid, signal.SIGINT)
        began = time.monotonic()
        out, error = run.communicate()
        took = time.monotonic() - began
    assert run.returncode == 130
    assert str(tree) in out
    assert "verisum-fleet: interrupted; what was done is kept, and the next run resumes\n" in error, error
    assert "Traceback" not in error
    assert took < 120
    assert not any(scratch.iterdir())
    with pytest.raises(ProcessLookupError):
        while True:
            os.killpg(run.pid, 0)
            time.sleep(0.05)
    plan.write_text(f'catalog = "{tmp_path}/lake"\n{place}')
    again = fleet("run", plan, "--workers", 1, folder=tmp_path)
    assert again.returncode == 0, again.stderr
    assert contents(tmp_path / "lake", str(tree)) == expected(tree)


def test_a_killed_scheduler_ends_a_run_with_one_line(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", 400)
    place = f'[[place]]\npath = "{tree}"\n'
    # It takes a minute.
    plan = plan_of(tmp_path, f'catalog = "{tmp_path}/lake"\n{place}requests_per_second = 7\n')
    scheduler_file = tmp_path / "scheduler.json"
    options = ["--no-dashboard", "--scheduler-file", str(scheduler_file)]
    # Nobody waits long for one that does not come back.
    environment = {**os.environ, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    programs = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.{name}", *more, *options], stderr=subprocess.DEVNULL)
        for name, *more in (["dask_scheduler", "--port", "0"], ["dask_worker", "--nthreads", "1", "--no-nanny"])
    ]
    try:
        while not scheduler_file.exists() or not scheduler_file.read_text():
            time.sleep(0.05)
        address = json.loads(scheduler_file.read_text())["address"]
        with subprocess.Popen(
            [str(FLEET), "run", str(plan), "--scheduler", address],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as run:
            while not any((tmp_path / "lake").rglob("*.arrow")):
                assert run.poll() is None
                time.sleep(0.05)
            programs[0].kill()
            out, error = run.communicate()
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert run.returncode == 3, error
    (line,) = error.splitlines()
    assert line.startswith("verisum-fleet: the scheduler is gone; start again")
    assert str(tree) in out


def test_bad_usage_has_its_code(tmp_path: Path) -> None:
    assert fleet("run", tmp_path / "none.toml", folder=tmp_path).returncode == 2
    assert fleet("walk", folder=tmp_path).returncode == 2
    plan = plan_of(tmp_path, f'catalog = "l"\n[[place]]\npath = "{tmp_path}"\n')
    assert fleet("run", plan, "--workers", 0, folder=tmp_path).returncode == 2
    ended = fleet("run", plan, "--scheduler", "head", folder=tmp_path)
    assert ended.returncode == 2 and "missing port" in ended.stderr and "Traceback" not in ended.stderr
    for option in ('algorithm = "sha0"', "budget = 0", 'threads = "2"'):
        plan = plan_of(tmp_path, f'catalog = "l"\n{option}\n[[place]]\npath = "/a"\n')
        ended = fleet("run", plan, "--workers", 1, folder=tmp_path)
        assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1, ended.stderr
        assert option.split(" = ")[-1].strip('"') in ended.stderr


def test_times_and_sizes_are_as_people_write_them(tmp_path: Path) -> None:
    text = 'catalog = "l"\nbudget = "8h"\nmax_age = "1.5d"\n[[place]]\npath = "/a"\nbytes_per_second = "100M"\n'
    plan = read_plan(str(plan_of(tmp_path, text)))
    assert (plan.budget, plan.max_age) == (28800, 129600)
    assert plan.places[0].bytes_per_second == 100 << 20
