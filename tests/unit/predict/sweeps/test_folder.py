"""Sweeps as folders: the same bytes however they are made, and clear words where they cannot be."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofline import files
from roofline.documents import SCHEMA_VERSION
from roofline.errors import InputError, SpecError
from roofline.predict.executors import through
from roofline.predict.sweeps import sweep
from roofline.predict.sweeps.folder import Folder, Written, read
from roofline.predict.sweeps.reduce import Reduction
from roofline.predict.sweeps.run import collect, evaluated, written_parts
from roofline.predict.sweeps.spec import Part, Sweep

pytestmark = pytest.mark.slow

pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
GRID = {"model": "gpt2", "hardware": ["l4", "h100-sxm"], "tp": [1, 2, 5], "batch": "1:60", "context": "0:900:100"}


def write(path: Path, asked: Sweep, executor: str | None = None) -> dict[str, Any]:
    """All of it, in one go."""
    place = Folder(path, asked)
    place.prepare()
    for written in written_parts(asked, place.missing(asked.parts()), executor):
        place.put(written)
    return place.finish(len(list(asked.parts())))


def bytes_of(path: Path) -> dict[str, str]:
    """Every file, by a hash of what is in it."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(path.iterdir())}


def test_rows_of_a_folder_are_those_of_a_frame(tmp_path: Path) -> None:
    """And its manifest says what they are."""
    asked = Sweep.of(GRID, part_rows=500)
    manifest = write(tmp_path / "sweep", asked)
    frame, same = read(tmp_path / "sweep")
    assert manifest == same
    whole = sweep(GRID)
    pd.testing.assert_frame_equal(frame, whole, check_categorical=False, check_dtype=False)
    assert manifest["rows"] == len(whole) == 2 * 2 * 60 * 10
    assert manifest["points"] == 2 * 3 * 60 * 10
    assert sum(part["rows"] for part in manifest["parts"]) == manifest["rows"]
    assert [entry["points"] for entry in manifest["refused"]] == [600, 600]
    assert manifest["complete"]
    assert manifest["sweep"]["grid"]["tp"] == [1, 2, 5]
    assert all(len(entry["sha256"]) == 64 for entry in manifest["sweep"]["inputs"].values())


def test_a_stopped_sweep_goes_on_and_gives_the_same_bytes(tmp_path: Path) -> None:
    """After some parts, in the middle of one, with parts in any order, with a part that was damaged."""
    asked = Sweep.of(GRID, part_rows=400)
    write(tmp_path / "whole", asked)
    stopped = Folder(tmp_path / "stopped", asked)
    stopped.prepare()
    written = list(written_parts(asked, asked.parts(), None))
    for one in written[::-2]:
        stopped.put(one)
    stopped.place(0).write_bytes(b"PAR1 cut short")
    (tmp_path / "stopped" / ".part-000003.parquet.0badc0de").write_bytes(b"half of a part")
    assert not json.loads((tmp_path / "stopped" / "_manifest.json").read_text())["complete"]
    with pytest.raises(InputError, match="is not complete: run the command that began it again"):
        read(tmp_path / "stopped")
    write(tmp_path / "stopped", asked)
    assert bytes_of(tmp_path / "stopped") == bytes_of(tmp_path / "whole")
    before = bytes_of(tmp_path / "whole")
    write(tmp_path / "whole", asked)  # there is nothing left to do
    assert bytes_of(tmp_path / "whole") == before


def test_processes_give_the_same_bytes_though_one_is_killed(tmp_path: Path) -> None:
    import multiprocessing

    asked = Sweep.of(GRID, part_rows=300)
    write(tmp_path / "one", asked)
    place = Folder(tmp_path / "two", asked)
    place.prepare()
    for count, written in enumerate(written_parts(asked, place.missing(asked.parts()), "processes:2")):
        place.put(written)
        if count == 0:
            multiprocessing.active_children()[0].kill()
    place.finish(len(list(asked.parts())))
    assert bytes_of(tmp_path / "two") == bytes_of(tmp_path / "one")


def test_a_part_that_no_worker_took_is_not_lost() -> None:
    """A pool that breaks between two parts refuses the next one: it is evaluated by the next pool."""

    def refuse(part: Part) -> Future[Written]:
        raise BrokenProcessPool

    lost: list[Part] = []
    part = next(iter(Sweep.of(GRID, part_rows=300).parts()))
    with pytest.raises(BrokenProcessPool):
        list(through(refuse, iter([part]), {}, 1, lost))
    assert lost == [part]


@pytest.mark.night
def test_a_million_points_on_a_cluster_that_loses_a_worker(tmp_path: Path) -> None:
    """Two workers of Dask, one of which is killed half-way: the same bytes as one process."""
    distributed = pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    grid = {"model": "llama-3.1-8b", "hardware": "a100-sxm-80gb", "batch": "1:1000", "context": "0:99900:100"}
    asked = Sweep.of(grid, part_rows=100_000, columns=["time_bound_s", "memory_bytes", "fits"])
    assert asked.points == 1_000_000
    manifest = write(tmp_path / "one", asked)
    assert manifest["rows"] == 1_000_000
    place = Folder(tmp_path / "many", asked)
    place.prepare()
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, silence_logs=50
    ) as cluster:
        for count, written in enumerate(
            written_parts(asked, place.missing(asked.parts()), f"dask:{cluster.scheduler_address}")
        ):
            place.put(written)
            if count == 4:
                with distributed.Client(cluster) as client:
                    os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
    place.finish(len(list(asked.parts())))
    assert bytes_of(tmp_path / "many") == bytes_of(tmp_path / "one")


def test_what_is_kept_is_the_same_in_a_folder(tmp_path: Path) -> None:
    """Parts hold what is kept of them; all of them together what is kept of all."""
    asked = Sweep.of(GRID, part_rows=400, reduction=Reduction.of("best", by=["hardware"]))
    write(tmp_path / "best", asked)
    frame, manifest = read(tmp_path / "best")
    assert manifest["rows"] == len(frame) > 2
    assert asked.reduction is not None
    kept = asked.reduction.merge([frame])
    whole = collect(asked, evaluated(asked, None))
    assert list(kept["tokens_per_s_per_device_estimate"]) == list(whole["tokens_per_s_per_device_estimate"])
    assert len(whole) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": {**GRID, "batch": "1:61"}}, r"of another grid \(batch\)"),
        ({"columns": ["flops"]}, "with other columns"),
        ({"part_rows": 7}, "parts of another size"),
        ({"ignore_capacity": True}, "another --ignore-capacity"),
        ({"reduction": Reduction.of("best")}, "with other columns|reduced in another way"),
    ],
)
def test_another_sweep_s_folder_is_left_alone(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write(tmp_path / "sweep", Sweep.of(GRID, part_rows=500))
    before = bytes_of(tmp_path / "sweep")
    with pytest.raises(InputError, match=message):
        Folder(tmp_path / "sweep", Sweep.of(**{"grid": GRID, "part_rows": 500} | change)).prepare()
    assert bytes_of(tmp_path / "sweep") == before


def test_a_manifest_of_another_version_is_refused(tmp_path: Path) -> None:
    asked = Sweep.of(GRID, part_rows=500)
    write(tmp_path / "sweep", asked)
    manifest = tmp_path / "sweep" / "_manifest.json"
    manifest.write_text(manifest.read_text().replace('"tool_version": "', '"tool_version": "9'))
    with pytest.raises(InputError, match="written by another version"):
        Folder(tmp_path / "sweep", asked).prepare()
    manifest.write_text("{}")
    with pytest.raises(InputError, match="is no manifest of a sweep"):
        Folder(tmp_path / "sweep", asked).prepare()


def test_parts_of_other_versions(tmp_path: Path) -> None:
    """Those of an earlier one are read, and gone on with by that one alone; those of a later one are refused."""
    asked = Sweep.of(GRID, part_rows=500)
    write(tmp_path / "sweep", asked)
    manifest = tmp_path / "sweep" / "_manifest.json"
    now = manifest.read_text()
    rows, _ = read(tmp_path / "sweep")
    manifest.write_text(now.replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 1'))
    assert len(read(tmp_path / "sweep")[0]) == len(rows)
    with pytest.raises(InputError, match="written by another version: name another folder, or remove this one"):
        Folder(tmp_path / "sweep", asked).prepare()
    manifest.write_text(now.replace(f'"schema_version": {SCHEMA_VERSION}', f'"schema_version": {SCHEMA_VERSION + 1}'))
    with pytest.raises(SpecError, match=r"_manifest\.json: was written by a later version .*: update roofline, or"):
        read(tmp_path / "sweep")


def test_folders_that_hold_something_else(tmp_path: Path) -> None:
    asked = Sweep.of(GRID)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not empty and has no _manifest"):
        Folder(tmp_path, asked).prepare()
    with pytest.raises(InputError, match="is a file"):
        Folder(tmp_path / "thesis.tex", asked).prepare()
    with pytest.raises(InputError, match="holds no sweep"):
        read(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_full_disk_leaves_whole_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says that nothing is lost; the next run goes on."""
    asked = Sweep.of(GRID, part_rows=500)
    real = files._Output.write

    def full(file: Any, data: bytes) -> int:
        if file._path.name == "part-000002.parquet":
            with files._naming(file._path):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data)

    monkeypatch.setattr(files._Output, "write", full)
    with pytest.raises(InputError, match=r"part-000002.parquet: No space left on device; the parts that are there are whole"):
        write(tmp_path / "sweep", asked)
    monkeypatch.undo()
    write(tmp_path / "sweep", asked)
    write(tmp_path / "other", asked)
    assert bytes_of(tmp_path / "sweep") == bytes_of(tmp_path / "other")


@pytest.mark.parametrize(
    ("executor", "message"),
    [
        ("threads", "there are processes, processes:N, dask"),
        ("processes:none", "whole number from 1"),
        ("dask:tcp://127.0.0.1:1", "no Dask scheduler answers"),
    ],
)
def test_executors_that_are_none(executor: str, message: str, tmp_path: Path) -> None:
    if executor.startswith("dask"):
        pytest.importorskip("distributed", reason="the extra 'cluster' is not installed")
    with pytest.raises(InputError, match=message):
        list(written_parts(Sweep.of(GRID), Sweep.of(GRID).parts(), executor))
