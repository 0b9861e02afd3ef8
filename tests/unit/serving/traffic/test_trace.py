"""Traces: what is read, under which names, what is refused, and what stands for all requests."""

from __future__ import annotations

import csv
import hashlib
import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofline.errors import SpecError
from roofline.serving.traffic import Pairs, read_trace, tables, trace_formats
from roofline.serving.traffic.lengths import parse_lengths
from roofline.serving.traffic.pairs import independent
from roofline.specs.library import Input

HEADER = "arrived_at,num_prefill_tokens,num_decode_tokens\n"


def _write(folder: Path, text: str | bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_columns_and_moments(tmp_path: Path) -> None:
    """Three arrivals in 4 s are two intervals: 0.5 requests/s; intervals of 1 and 3 have the mean 2 and the deviation 1."""
    trace = read_trace(_write(tmp_path, HEADER + "10,100,7\n11,200,8\n14,600,9\n"))
    assert trace.arrived is not None
    assert trace.arrived.tolist() == [10, 11, 14]
    assert trace.prompts.tolist() == [100, 200, 600]
    assert trace.outputs.tolist() == [7, 8, 9]
    assert trace.prompts.dtype == np.int64
    assert (len(trace), trace.duration, trace.rate, trace.interarrival_cv) == (3, 4, 0.5, 0.5)
    assert (trace.mean_prompt, trace.mean_output) == (300, 8)
    assert (trace.skipped, trace.notes, trace.name) == (0, (), "trace.csv")
    with pytest.raises(ValueError, match="read-only"):
        trace.prompts[0] = 1


def test_without_arrivals(tmp_path: Path) -> None:
    """Lengths alone are a trace too; other columns are passed by."""
    trace = read_trace(_write(tmp_path, "num_decode_tokens,id,num_prefill_tokens\n5,a,50\n6,b,60\n"))
    assert (trace.arrived, trace.duration, trace.rate, trace.interarrival_cv) == (None, None, None, None)
    assert (trace.prompts.tolist(), trace.outputs.tolist()) == ([50, 60], [5, 6])


def test_all_at_once_have_no_rate(tmp_path: Path) -> None:
    """A division by zero is no rate."""
    trace = read_trace(_write(tmp_path, HEADER + "3,1,1\n3,1,1\n"))
    assert (trace.duration, trace.rate, trace.interarrival_cv) == (0, None, None)


def test_arrivals_out_of_order_are_sorted(tmp_path: Path) -> None:
    """With a note; rows stay whole, and those at the same time in their order."""
    trace = read_trace(_write(tmp_path, HEADER + "0,1,11\n5,2,12\n2,3,13\n2,4,14\n"))
    assert trace.prompts.tolist() == [1, 3, 4, 2]
    assert trace.outputs.tolist() == [11, 13, 14, 12]
    assert trace.notes == ("1 rows arrived before the one above them: sorted by arrival",)


@pytest.mark.parametrize("zone", ["", "+00:00", "Z"])
def test_names_of_public_traces(tmp_path: Path, zone: str) -> None:
    """Azure's columns, with dates; seconds are counted from the first request. 15:50.9951690 - 15:46.6805900 = 4.314579 s."""
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    text += f"2023-11-16 18:15:46.6805900{zone},374,44\n2023-11-16 18:15:50.9951690{zone},396,109\n"
    trace = read_trace(_write(tmp_path, text))
    assert trace.arrived is not None
    assert trace.arrived.tolist() == [0, 4.314579]
    assert trace.prompts.tolist() == [374, 396]
    assert trace.notes[0] == "column TIMESTAMP is read as arrived_at"


def test_dates_are_the_same_one_by_one(tmp_path: Path) -> None:
    """Where a row is broken the others are read one by one, to the same seconds."""
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    trace = read_trace(_write(tmp_path, text + "soon,1,1\n"), skip_bad_rows=True)
    assert trace.arrived is not None
    assert trace.arrived.tolist() == [0, 4.314579]
    assert trace.reasons == ("line 4: arrived_at must be a date with a time, as in the other rows, not 'soon'",)


@pytest.mark.parametrize(
    "date", ["9999-01-01 00:00:00", "1500-01-01", "2023-11-16 18:15:46 CET", "2023-11-16 18:15000:46", "now"]
)
def test_dates_that_numpy_would_misread(tmp_path: Path, date: str) -> None:
    """The year 9999 has more nanoseconds than 64 bits hold, and would become 1815; zones by name and `now` are no arrivals."""
    path = _write(tmp_path, f"{HEADER}2023-11-16 18:15:46,1,2\n{date},3,4\n")
    with pytest.raises(SpecError, match=rf":3: arrived_at must be a date with a time, as in the other rows, not '{date}'"):
        read_trace(path)
    assert len(read_trace(path, skip_bad_rows=True)) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,1,2\n1,x,2\n", ":3: num_prefill_tokens must be a whole number of tokens, at least 1, not 'x'. --skip-bad-rows"),
        ("0,1,2\n1,0,2\n", ":3: num_prefill_tokens must be a whole number of tokens, at least 1, not '0'"),
        ("0,1,-2\n", ":2: num_decode_tokens must be a whole number of tokens, at least 1, not '-2'"),
        ("0,1,2.5\n", ":2: num_decode_tokens must be a whole number of tokens, at least 1, not '2.5'"),
        ("0,nan,2\n", ":2: num_prefill_tokens must be a whole number of tokens, at least 1, not 'nan'"),
        ("0,1e99,2\n", ":2: num_prefill_tokens must be a whole number of tokens, at least 1, not '1e99'"),
        ("nan,1,2\n", ":2: arrived_at must be a number of seconds, 0 or more, not 'nan'"),
        ("inf,1,2\n", ":2: arrived_at must be a number of seconds, 0 or more, not 'inf'"),
        ("-1,1,2\n", ":2: arrived_at must be a number of seconds, 0 or more, not '-1'"),
        ("0,,2\n", ":2: num_prefill_tokens is empty"),
        ("0,1\n", ":2: 2 cells, and the header has 3 (is the file cut off?)"),
        ("0,1,2,3\n", ":2: 4 cells, and the header has 3"),
        (
            "0,x,2\n\n1,2,y\n5,6,7\n",
            ":2: num_prefill_tokens must be a whole number of tokens, at least 1, not 'x' (2 of 3 rows are",
        ),
    ],
)
def test_broken_rows_are_refused(tmp_path: Path, rows: str, message: str) -> None:
    """The first one, by file and line."""
    path = _write(tmp_path, HEADER + rows)
    with pytest.raises(SpecError) as caught:
        read_trace(path)
    assert str(path) + message in str(caught.value)


def test_broken_rows_are_skipped_and_counted(tmp_path: Path) -> None:
    """With the reasons of the first ones."""
    path = _write(tmp_path, HEADER + "0,1,2\n1,x,2\n2,0,3\n3,1\n4,5,6\n" + "5,5,x\n" * 10)
    trace = read_trace(path, skip_bad_rows=True)
    assert (trace.prompts.tolist(), trace.outputs.tolist(), trace.skipped) == ([1, 5], [2, 6], 13)
    assert trace.reasons[0] == "line 3: num_prefill_tokens must be a whole number of tokens, at least 1, not 'x'"
    assert trace.reasons[2] == "line 5: 2 cells, and the header has 3 (is the file cut off?)"
    assert len(trace.reasons) == 5


def test_nothing_but_broken_rows(tmp_path: Path) -> None:
    """No requests are no trace, whatever is skipped."""
    with pytest.raises(SpecError, match=r"not 'x'\. No row of the 1 is whole"):
        read_trace(_write(tmp_path, HEADER + "0,x,2\n"), skip_bad_rows=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file is empty"),
        (HEADER, "has a header and no requests beneath it"),
        ("0,1,2\n1,2,3\n", "the first line holds numbers; it has to name the columns, such as arrived_at,num_prefill_tokens"),
        (HEADER.replace(",", ";") + "0;1;2\n", "the cells are separated by semicolons"),
        (HEADER.replace(",", "\t") + "0\t1\t2\n", "the cells are separated by tabs"),
        (
            "arrived_at,num_prefil_tokens,num_decode_tokens\n0,1,2\n",
            "has arrived_at, num_prefil_tokens, num_decode_tokens. Is num_prefil_tokens meant to be num_prefill_tokens?",
        ),
        ("num_prefill_tokens\n1\n", "column num_decode_tokens is missing; the file has num_prefill_tokens.\n"),
        ("a,b\n1,2\n", "columns num_prefill_tokens and num_decode_tokens are missing; the file has a, b."),
        ("num_prefill_tokens,num_prefill_tokens,num_decode_tokens\n1,2,3\n", "is there more than once"),
        (b"\x1f\x8b\x08\xff", "is not a text file (UTF-8): it is compressed (gzip)"),
        (b"\xff\xfea", "is not a text file (UTF-8)"),
        (b"PAR1\x00", "it is Parquet; call it .parquet"),
    ],
)
def test_files_that_are_no_trace(tmp_path: Path, content: str | bytes, message: str) -> None:
    """What is wrong, what is there, and the nearest name."""
    with pytest.raises(SpecError) as caught:
        read_trace(_write(tmp_path, content))
    assert message in f"{caught.value}\n"


def test_places_that_are_no_file(tmp_path: Path) -> None:
    """Nothing there, and a folder."""
    with pytest.raises(SpecError, match=r"nowhere\.csv: no such file"):
        read_trace(tmp_path / "nowhere.csv")
    with pytest.raises(SpecError, match="is a folder"):
        read_trace(tmp_path)


def test_parquet(tmp_path: Path) -> None:
    """The same rows; what is broken is named by its row."""
    pa = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "trace.parquet"
    columns = {"arrived_at": [0.0, 1.5], "num_prefill_tokens": [100, 200], "num_decode_tokens": [7, 8]}
    pq.write_table(pa.table(columns), path)
    trace = read_trace(path)
    assert trace.arrived is not None
    assert (trace.arrived.tolist(), trace.prompts.tolist(), trace.outputs.tolist()) == tuple(columns.values())
    pq.write_table(pa.table(columns | {"num_decode_tokens": [7, None]}), path)
    with pytest.raises(SpecError, match=r"trace\.parquet: row 2: num_decode_tokens is empty"):
        read_trace(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(SpecError, match="is no Parquet file, or a truncated one"):
        read_trace(path)


def test_quotes_and_line_ends(tmp_path: Path) -> None:
    """As spreadsheets write them, with a mark of the byte order."""
    trace = read_trace(_write(tmp_path, "\ufeff" + HEADER.replace("\n", "\r\n") + '"0","1","2"\r\n\r\n1, 3 ,4\r\n'))
    assert (trace.prompts.tolist(), trace.outputs.tolist()) == ([1, 3], [2, 4])


@pytest.mark.slow
def test_a_long_trace_is_read_quickly(tmp_path: Path) -> None:
    """20,000 rows take less than five times what it takes to split and convert them: no object is made of each row."""
    rows = "".join(f"{index * 0.18:.6f},{1 + index % 4000},{1 + index % 500}\n" for index in range(20_000))
    path = _write(tmp_path, HEADER + rows)
    read_trace(path)
    spent, least = [], []
    for _ in range(5):
        start = time.process_time()
        assert len(read_trace(path)) == 20_000
        spent.append(time.process_time() - start)
        start = time.process_time()
        with path.open(encoding="utf-8", newline="") as file:
            assert len([(float(a), int(b), int(c)) for a, b, c in list(csv.reader(file))[1:]]) == 20_000
        least.append(time.process_time() - start)
    assert min(spent) < 5 * min(least)


@pytest.fixture
def batches_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read at a time."""
    monkeypatch.setattr(tables, "BATCH_ROWS", 2)
    monkeypatch.setattr(trace_formats, "BATCH_ROWS", 2)


@pytest.mark.usefixtures("batches_of_two")
def test_rows_of_several_batches(tmp_path: Path) -> None:
    """Conversations and blocks go on from one batch to the next.

    Dates count from the first of all rows, which is in the last batch; a broken row is named by its line.
    """
    header = "TIMESTAMP,ContextTokens,GeneratedTokens,session_id,hash_ids\n"
    rows = ["05,100,1,a,7", "06,1000,2,b,7 8", "07,10,3,a,9", "soon,1,1,a,1", "04,600,5,c,7 18446744073709551615", "08,5,6,b,7"]
    path = _write(tmp_path, header + "".join(f"2023-11-16 18:15:{row}\n" for row in rows))
    with pytest.raises(SpecError, match=r"trace\.csv:5: arrived_at must be a date with a time, .* '2023-11-16 18:15:soon'\. "):
        read_trace(path)
    trace = read_trace(path, skip_bad_rows=True)
    assert trace.arrived is not None
    assert trace.sessions is not None
    assert trace.hashes is not None
    assert trace.arrived.tolist() == [0, 1, 2, 3, 4]
    assert trace.prompts.tolist() == [600, 100, 1000, 10, 5]
    assert trace.sessions.tolist() == [2, 0, 1, 0, 1]
    assert list(trace.hashes) == [(7, 2**64 - 1), (7,), (7, 8), (9,), (7,)]
    assert trace.reasons[0].startswith("line 5: ")
    assert trace.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.usefixtures("batches_of_two")
def test_lines_of_several_batches(tmp_path: Path) -> None:
    """Of Mooncake: a request whose blocks begin to be named in a later batch is refused, since the others' are not known."""
    lines = [{"timestamp": 1000 * at, "input_length": 600, "output_length": 7} for at in range(3)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    trace = read_trace(_write(tmp_path, text, "trace.jsonl"))
    assert (trace.prompts.tolist(), trace.hashes) == ([600] * 3, None)
    path = _write(tmp_path, "\n" + text + json.dumps({**lines[0], "hash_ids": [1, 2]}) + "\n", "late.jsonl")
    with pytest.raises(SpecError, match=r"late\.jsonl:5: has hash_ids, which the first requests do not have"):
        read_trace(path)
    with pytest.raises(SpecError, match="the file is empty"):
        read_trace(_write(tmp_path, "\n\n", "none.jsonl"))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_trace_is_never_held_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """40,000 more requests take less than 60 bytes each: three numbers of 8 bytes, twice where batches are joined, are 48."""
    monkeypatch.setattr(tables, "BATCH_ROWS", 500)
    peaks = []
    for count in (10_000, 50_000):
        rows = range(count)
        if suffix == ".csv":
            text = HEADER + "".join(f"{row / 10},{100 + row % 900},{1 + row % 60}\n" for row in rows)
        else:
            form = '{{"timestamp": {}, "input_length": {}, "output_length": 9}}\n'
            text = "".join(form.format(row, 100 + row % 900) for row in rows)
        path = _write(tmp_path, text, f"{count}{suffix}")
        del text
        tracemalloc.start()
        assert len(read_trace(path)) == count
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 60 * 40_000


def test_a_real_trace(truth: Path) -> None:
    """Another reader finds the same numbers in it."""
    path = truth / "truth" / "traces" / "splitwise_conv.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    trace = read_trace(path)
    raw = np.genfromtxt(path, delimiter=",", names=True)
    assert trace.arrived is not None
    assert len(trace) == len(raw) == 19_366
    assert trace.prompts.sum() == raw["num_prefill_tokens"].sum()
    assert trace.outputs.sum() == raw["num_decode_tokens"].sum()
    assert trace.rate == pytest.approx(1 / np.diff(raw["arrived_at"]).mean())


def _pairs(rows: list[tuple[int, int]]) -> Pairs:
    prompts, answers = np.array(rows, dtype=np.int64).T
    return Pairs(Input("trace", "made up", "", ""), prompts, answers)


def test_pairs_hang_together() -> None:
    """Short prompts have long answers here, and so do the four that stand for them: two of each kind."""
    pairs = _pairs([(10, 500)] * 50 + [(12, 700)] * 50 + [(4000, 20)] * 50 + [(4200, 30)] * 50)
    assert pairs.sample_pairs(4).tolist() == [[10, 500], [12, 700], [4000, 20], [4200, 30]]
    assert pairs.sample_pairs(1).tolist() == [[2056, 313]]  # 8222/4 = 2055.5 and 1250/4 = 312.5
    drawn = {tuple(row) for row in pairs.sample(np.random.default_rng(3), 500).tolist()}
    assert drawn == {(10, 500), (12, 700), (4000, 20), (4200, 30)}


def test_pairs_alone() -> None:
    """Each of the two is a distribution of its own."""
    pairs = _pairs([(10, 4), (30, 2), (20, 6)])
    assert pairs.input_len.quantiles(3).tolist() == [10, 20, 30]
    assert pairs.output_len.mean == 4


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(1, 10_000), st.integers(1, 3000)), min_size=1, max_size=80),
    n=st.integers(1, 100),
)
def test_pairs_keep_both_means(rows: list[tuple[int, int]], n: int) -> None:
    """Whether there are more requests than pairs or fewer, each sum is off by at most half a token; none leaves the range."""
    pairs = _pairs(rows)
    chosen = pairs.sample_pairs(n)
    assert chosen.shape == (n, 2)
    for column, values in zip(chosen.T, (pairs.prompts, pairs.outputs), strict=True):
        assert abs(column.sum() - n * values.mean()) <= 0.5 + 1e-6
        assert values.min() <= column.min()
        assert column.max() <= values.max()


@pytest.mark.parametrize("n", [1, 2, 16, 64, 200])
def test_independent_pairs_have_next_to_no_correlation(n: int) -> None:
    """Each column is that of its distribution, and they have nothing to do with each other."""
    prompts, answers = parse_lengths("uniform:1:4000"), parse_lengths("uniform:1:1000")
    chosen = independent(prompts, answers, n)
    assert sorted(chosen[:, 0]) == prompts.quantiles(n).tolist()
    assert sorted(chosen[:, 1]) == answers.quantiles(n).tolist()
    if n >= 16:
        assert abs(np.corrcoef(chosen.T)[0, 1]) < 0.05
