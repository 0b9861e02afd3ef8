"""Reading records: good rows are used, bad ones are refused by file and line with a reason."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from roofline.errors import InputError
from roofline.measure.records import read as read_module
from roofline.measure.records.read import read

HEADER = (
    "source,gpu,op,dtype,m,n,k,latency_us,backend,batch,q_len,kv_len,n_heads,n_kv_heads,head_dim,window,"
    "tokens,hidden,bytes,world"
)
GOOD = "lab,h100-sxm,gemm,bf16,16,4096,4096,12.5,torch,,,,,,,,,,,"


def table(folder: Path, *lines: str, name: str = "records.csv", end: str = "\n") -> Path:
    path = folder / name
    path.write_text("\n".join([HEADER, *lines]) + end, encoding="utf-8")
    return path


def test_good_rows(tmp_path: Path) -> None:
    """Numbers are floats, empty numbers are NaN, empty texts are empty; each row knows its line."""
    found = read([table(tmp_path, GOOD, GOOD)])
    assert found.refused == 0
    assert found.frame["line"].tolist() == [2, 3]
    assert found.frame["m"].tolist() == [16.0, 16.0]
    assert found.frame["batch"].isna().all()
    assert found.frame["kernel"].tolist() == ["", ""]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (GOOD.replace("12.5", "-3"), ["latency_us", "-3", "not above 0"]),
        (GOOD.replace("12.5", "0"), ["latency_us", "not above 0"]),
        (GOOD.replace("12.5", ""), ["latency_us is empty"]),
        (GOOD.replace("12.5", "12.5 ms"), ["latency_us", "'12.5 ms'", "microseconds", "no unit"]),
        (GOOD.replace("12.5", "inf"), ["latency_us", "'inf'"]),
        (GOOD.replace("gemm", "gemmm"), ["unknown op 'gemmm'", "Did you mean gemm"]),
        (GOOD.replace("gemm", ""), ["op is empty"]),
        (GOOD.replace("bf16", "bf17"), ["unknown dtype 'bf17'", "bf16"]),
        (GOOD.replace("4096,4096", "4k,4096"), ["n: '4k' is no whole number"]),
        (GOOD.replace("4096,4096", "4096.5,4096"), ["n: 4096.5 is no whole number"]),
        (GOOD.replace("4096,4096", ",4096"), ["gemm needs n, which is empty"]),
        (GOOD.replace("16,4096", "0,4096"), ["m: 0 is less than 1"]),
        (GOOD.replace("16,4096", "-1,4096"), ["m: -1"]),
        ("lab,h100-sxm,gemm,bf16,16,4096", ["6 cells, and the header has 20", "cut off"]),
        (GOOD + ",1,2", ["22 cells, and the header has 20"]),
        ("lab,h100-sxm,attention_decode,bf16,,,,9,fa3,4,8,4,32,8,128,0,,,,", ["q_len (8) is more than kv_len (4)"]),
        ("lab,h100-sxm,attention_decode,bf16,,,,9,fa3,4,1,4,32,5,128,0,,,,", ["n_kv_heads (5) does not divide n_heads (32)"]),
        ("lab,h100-sxm,mla_decode,bf16,,,,9,fa3,4,1,4,32,1,128,0,,,,", ["head_dim: 128 is not known for mla_decode, only 576"]),
        ("lab,h100-sxm,all_reduce,bf16,,,,9,nccl,,,,,,,,,,4096,1", ["world: 1 is less than 2"]),
    ],
)  # fmt: skip
def test_a_bad_row_between_good_ones(row: str, words: list[str], tmp_path: Path) -> None:
    """It is refused by file and line; the rows around it are used."""
    path = table(tmp_path, GOOD, row, GOOD)
    found = read([path])
    assert found.frame["line"].tolist() == [2, 4]
    (refusal,) = found.refusals
    assert str(refusal).startswith(f"{path}:3: ")
    for word in words:
        assert word in refusal.why


def test_many_alike_are_one_refusal(tmp_path: Path) -> None:
    """The first is shown, with how many there are of its kind."""
    found = read([table(tmp_path, GOOD, *[GOOD.replace("12.5", "-1")] * 5)])
    assert found.refused == 5
    assert [str(entry) for entry in found.refusals] == [
        f"{tmp_path / 'records.csv'}:3: latency_us: -1 is not above 0 (and 4 more like it)"
    ]


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    """The last line has too few cells: the others are used."""
    path = table(tmp_path, GOOD, GOOD, "lab,h100-sxm,ge", end="")
    found = read([path])
    assert (len(found.frame), found.refused) == (2, 1)
    assert "cut off" in found.refusals[0].why


def test_no_final_newline(tmp_path: Path) -> None:
    """A whole last line is a record, with or without an end."""
    assert len(read([table(tmp_path, GOOD, GOOD, end="")]).frame) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER.replace("latency_us", "latency_ms"), ["latency_us is missing", "latency_ms", "microseconds"]),
        (HEADER.replace(",op,", ",operator,"), ["column op is missing"]),
        ("", ["columns op, dtype, latency_us are missing"]),
        (HEADER + ",m", ["column m stands there twice"]),
    ],
)
def test_a_file_that_is_no_table_of_records(text: str, words: list[str], tmp_path: Path) -> None:
    """The first line says what is wrong."""
    path = tmp_path / "records.csv"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read([path])
    assert str(caught.value).startswith(f"{path}:1: ")
    for word in words:
        assert word in str(caught.value)


def test_no_text(tmp_path: Path) -> None:
    """Bytes under .csv."""
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read([tmp_path / "a.csv"])


def test_no_table(tmp_path: Path) -> None:
    """Something else under .parquet."""
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="no Parquet file, or a truncated one"):
        read([tmp_path / "b.parquet"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_more_rows_than_memory_should_hold(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three are read where three are the most, and of four nothing."""
    monkeypatch.setattr(read_module, "_MOST_ROWS", 3)
    for count in (3, 4):
        path = table(tmp_path, *[GOOD] * count)
        if suffix == ".parquet":
            pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
            path, text = tmp_path / f"{count}.parquet", path
            pd.read_csv(text).to_parquet(path)
        if count == 3:
            assert len(read([path]).frame) == 3
        else:
            with pytest.raises(InputError, match=r"rows; at most 3 are read"):
                read([path])


def test_rows_that_are_refused_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two good rows and two with too few cells are four."""
    monkeypatch.setattr(read_module, "_MOST_ROWS", 3)
    with pytest.raises(InputError, match=r"rows; at most 3 are read"):
        read([table(tmp_path, GOOD, "a", "b", GOOD)])


def test_a_line_that_does_not_end(tmp_path: Path) -> None:
    """2 MiB without an end of line are none of records: refused before all of them are in memory."""
    path = tmp_path / "r.csv"
    path.write_bytes(b"op,dtype,latency_us\n" + b"\0" * 2**21)
    with pytest.raises(InputError, match=r"r\.csv:2: a line of 1,048,576 characters or more is none of records"):
        read([path])


def test_files_and_folders(tmp_path: Path) -> None:
    """A folder is every table in it, at any depth; a path twice is read once."""
    inside = tmp_path / "machine" / "2026-01-01"
    inside.mkdir(parents=True)
    path = table(inside, GOOD)
    assert len(read([tmp_path, path]).frame) == 1
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing in it ends in"):
        read([tmp_path / "empty"])
    with pytest.raises(InputError, match="no such file"):
        read([tmp_path / "nowhere.csv"])
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InputError, match=r"\.csv and \.parquet"):
        read([tmp_path / "x.json"])


def test_parquet_is_the_same(tmp_path: Path) -> None:
    """The same rows in Parquet, with numbers as numbers: the same records, and the same refusals."""
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    import pandas as pd

    path = table(tmp_path, GOOD, GOOD.replace("12.5", "-1"))
    pd.read_csv(path).to_parquet(tmp_path / "records.parquet")
    found, other = read([path]), read([tmp_path / "records.parquet"])
    assert found.frame.drop(columns=["file", "line"]).equals(other.frame.drop(columns=["file", "line"]))
    assert [entry.why for entry in found.refusals] == [entry.why for entry in other.refusals]


def test_columns_of_others(tmp_path: Path) -> None:
    """A column that is not ours is not used, and said so."""
    path = tmp_path / "records.csv"
    path.write_text(f"{HEADER},quality\n{GOOD},ok\n", encoding="utf-8")
    assert read([path]).ignored_columns == ["quality"]


def test_other_tables_in_a_folder(tmp_path: Path) -> None:
    """They are passed by with a reason; where one is named itself, that is an error."""
    path = table(tmp_path, GOOD)
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "empty.csv").write_text("")
    found = read([tmp_path])
    assert found.files == [path]
    assert len(found.passed_by) == 2
    assert "other.csv:1:" in found.passed_by[1]
    path.unlink()
    with pytest.raises(InputError, match="no table of records is left"):
        read([tmp_path])


@pytest.mark.parametrize(("separator", "word"), [(";", "semicolons"), ("\t", "tabs")])
def test_other_separators(separator: str, word: str, tmp_path: Path) -> None:
    """As some spreadsheets write them."""
    path = tmp_path / "records.csv"
    path.write_text(f"{HEADER}\n{GOOD}\n".replace(",", separator))
    with pytest.raises(InputError, match=f"separated by {word}, and have to be by commas"):
        read([path])


def test_spellings(tmp_path: Path) -> None:
    """BOM, CRLF, trailing commas, dtypes as PyTorch spells them, words in capitals."""
    path = tmp_path / "records.csv"
    header, row = f"{HEADER},cache,distribution,,", GOOD.replace("bf16", "torch.bfloat16") + ",Cold,Balanced,,"
    path.write_bytes(f"\ufeff{header}\r\n{row}\r\n".encode())
    found = read([path])
    assert found.refused == 0
    assert found.frame[["dtype", "cache", "distribution"]].iloc[0].tolist() == ["bf16", "cold", "balanced"]
    assert found.ignored_columns == []


def test_a_quote_that_is_not_closed(tmp_path: Path) -> None:
    """It would swallow the rows after it: the cell is refused, and says why."""
    path = table(tmp_path, GOOD, '"lab' + GOOD.removeprefix("lab"), GOOD, GOOD)
    found = read([path])
    assert len(found.frame) == 1
    assert found.refused == 1
    path = table(tmp_path, GOOD, GOOD.replace("torch", '"tor\nch"'))
    (refusal,) = read([path]).refusals
    assert "line break" in refusal.why


def test_columns_that_are_called_as_ours_inside(tmp_path: Path) -> None:
    """`line` and `file` of a user are not those that say where a row stands."""
    path = tmp_path / "records.csv"
    path.write_text(f"line,file,{HEADER}\n7,x,{GOOD}\n7,x,{GOOD.replace('12.5', '-1')}\n")
    found = read([path])
    assert found.frame["line"].tolist() == [2]
    assert found.refusals[0].line == 3
    assert found.ignored_columns == ["file", "line"]


@pytest.mark.parametrize(("name", "value"), [("moe_tp", "0"), ("moe_ep", "0"), ("moe_tp", "-1")])
def test_columns_that_an_op_looks_at(name: str, value: str, tmp_path: Path) -> None:
    """They may be empty, and may not be nothing."""
    path = tmp_path / "records.csv"
    row = "h100-sxm,moe,bf16,9,8,1024,512,8,2"
    path.write_text(f"gpu,op,dtype,latency_us,tokens,hidden,inter,experts,topk,{name}\n{row},\n{row},{value}\n")
    found = read([path])
    assert found.frame["line"].tolist() == [2]
    assert name in found.refusals[0].why
