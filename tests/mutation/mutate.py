"""Mutation testing: `python tests/mutation/mutate.py [PACKAGE ...]`, or `just mutate`.

Small changes are made to the source, one at a time; a change that no test notices is a gap in the tests. Prints what survives,
and the share that is noticed. What was found out is kept in build/mutation: a run that was interrupted goes on where it ended,
and later ones decide anew only what survived and has other tests since. `--anew` begins from nothing.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutation.sites import PACKAGES, ROOT, TOUCHED, Site, sample

FOLDER = ROOT / "build" / "mutation"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
TESTS = {
    "operators": (
        "roofline/cost.py", "roofline/operators", "tests/unit/operators", "tests/unit/ground/test_cost.py",
        "tests/unit/specs/test_schemes.py", "tests/properties/test_entries.py", "tests/properties/test_scans.py",
        "tests/properties/test_windows.py", "tests/golden/test_context_parallel.py",
    ),
    "blocks": (
        "roofline/blocks", "tests/unit/blocks", "tests/unit/specs", "tests/golden/test_model_facts.py",
        "tests/golden/test_recurrent_facts.py", "tests/golden/test_family_facts.py", "tests/golden/test_gguf_files.py",
    ),
    "graph": (
        "roofline/graph", "tests/unit/graph", "tests/golden/test_parallelism.py", "tests/golden/test_sequence_parallel.py",
        "tests/golden/test_pipelining.py", "tests/golden/test_context_parallel.py", "tests/golden/test_model_facts.py",
        "tests/golden/test_wide_expert_parallelism.py", "tests/golden/test_vision_encoder.py",
    ),
    "predict": (
        "roofline/predict", "tests/unit/predict", "tests/properties/test_memory.py", "tests/golden/test_textbook.py",
        "tests/golden/test_pipelining.py", "tests/unit/cli/test_check_checkpoint.py",
        "tests/unit/serving/planning/test_speculative_plan.py",
    ),
    "queueing": ("roofline/serving/queueing", "tests/unit/serving/queueing", "tests/golden/test_queueing.py"),
    "simulation": ("roofline/serving/simulation", "tests/unit/serving/simulation"),
    "preemption": ("roofline/serving/preemption", "tests/unit/serving/preemption", "tests/golden/test_preemption.py"),
    "planning": ("roofline/serving/planning", "tests/unit/serving/planning", "tests/golden/test_plan_against_simulation.py"),
}  # fmt: skip
"""Where tests of a package are: those that are quick. The first of each are examples in docstrings."""
NOTICED = ("killed", "timeout")


def equivalent() -> dict[tuple[str, str, str, str], str]:
    """The reason of each mutant that changes nothing that a user could see, by its key."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return {(entry["module"], entry["function"], entry["line"], entry["mutant"]): entry["reason"] for entry in entries}


def _pytest(mode: str, task: dict[str, Any], paths: list[str], every: int, mutant: str = "") -> int:
    file = FOLDER / f"task-{mode}{mutant}.json"
    file.write_text(json.dumps(task), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "tests"),
        "ROOFLINE_MUTATION": mode,
        "ROOFLINE_MUTATION_TASK": str(file),
        "ROOFLINE_MUTANT": mutant,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [
        sys.executable, "-m", "pytest", "-p", "mutation.plugin", "-p", "no:cacheprovider", "-q", "-q", "--no-summary",
        "-m", "not oracle", "--assert=plain", "--hypothesis-seed=1", f"--every={every}", f"--basetemp={FOLDER / 'tmp'}", *paths,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL if mutant else None)
    file.unlink()
    if done.returncode == pytest.ExitCode.INTERNAL_ERROR:
        raise SystemExit(done.returncode)
    return done.returncode


def _names(sites: list[Site]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = defaultdict(list)
    for site in sites:
        names[site.module].append(site.name)
    return names


def _map(package: str, sites: list[Site], paths: list[str], every: int) -> dict[str, Any]:
    """Which tests come by which mutants. Tests of changed files are run again, and all of them for other mutants.

    NB: a change of the source alone runs none of them again. A test that comes by a mutant only since then is missed, which can
    let a mutant survive, and never the reverse.
    """
    names = {site.name for site in sites}
    out, store = FOLDER / f"map-{package}-new.json", FOLDER / f"map-{package}.json"
    mapped = json.loads(store.read_text(encoding="utf-8")) if store.is_file() else {"names": [], "files": {}}
    if not names <= set(mapped["names"]):
        mapped = {"names": sorted(names), "files": {}, "collection": [], "tests": {}, "failed": []}
    files = {file.relative_to(ROOT).as_posix(): _digest(file) for path in paths for file in _test_files(ROOT / path)}
    changed = [file for file, digest in files.items() if mapped["files"].get(file) != digest]
    if changed:
        whole = not mapped["files"]
        _pytest("map", {"names": _names(sites), "out": str(out)}, paths if whole else changed, every)
        new = json.loads(out.read_text(encoding="utf-8"))
        out.unlink()
        old = {test: row for test, row in mapped["tests"].items() if test.partition("::")[0] not in changed}
        failed = [test for test in mapped["failed"] if test.partition("::")[0] not in changed]
        mapped = {
            "names": mapped["names"],
            "files": {**mapped["files"], **files},
            "collection": sorted({*mapped["collection"], *new["collection"]}),
            "tests": {**old, **new["tests"]},
            "failed": failed + new["failed"],
        }
        store.write_text(json.dumps(mapped), encoding="utf-8")
    for test in mapped["failed"]:
        print(f"left out, as it fails or takes too long without a mutant: {test}")
    return mapped


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]


def _test_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py" if path.is_relative_to(ROOT / "tests") else "*.py"))


def _results(file: Path) -> dict[str, dict[str, Any]]:
    if not file.is_file():
        return {}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {row["name"]: row for row in rows}


def _decide(sites: list[Site], mapped: dict[str, Any], results: Path, limit: float, every: int) -> None:
    """Runs the tests for mutants without a result, and writes each result when it is there."""
    seconds = {test: cpu for test, (cpu, _) in mapped["tests"].items()}
    tests: dict[str, list[str]] = defaultdict(list)
    for test in sorted(seconds, key=seconds.__getitem__):
        for name in mapped["tests"][test][1]:
            tests[name].append(test)
    versions = {
        site.name: hashlib.sha256(
            " ".join(f"{test} {mapped['files'][test.partition('::')[0]]}" for test in tests[_reach(site)]).encode()
        ).hexdigest()[:12]
        for site in sites
    }
    known = _results(results)
    left = [
        site
        for site in sites
        if site.name not in known
        or known[site.name]["fate"] == "unfinished"
        or (known[site.name]["fate"] not in NOTICED and known[site.name]["version"] != versions[site.name])
    ]
    common = {
        "versions": versions,
        "names": _names(sites),
        "seconds": seconds,
        "limit": limit,
        "collection": mapped["collection"],
        "out": str(results),
        "every": every,
    }
    forked = {site.name: tests[site.name] for site in left if not site.on_import}
    if forked:
        paths = sorted({test.partition("::")[0] for ids in forked.values() for test in ids})
        _pytest("run", {**common, "tests": forked}, paths or ["roofline/cost.py"], every)
    for site in left:
        if site.on_import:
            _on_import(site, tests[_reach(site)], common, results)


def _reach(site: Site) -> str:
    """What a test that may notice a mutant records."""
    return TOUCHED + site.module if site.on_import else site.name


def _on_import(site: Site, tests: list[str], common: dict[str, Any], results: Path) -> None:
    """A process for one mutant, and the tests of a dozen files: its module's own, and those that call most of its functions."""
    count = Counter(test.partition("::")[0] for test in tests)
    own = f"test_{Path(site.module).stem}"
    files = sorted(count, key=lambda file: (not Path(file).stem.startswith(own), -count[file]))[:12]
    out = FOLDER / f"{site.name}.json"
    task = {**common, "names": {site.module: [site.name]}, "out": str(out), "limit": common["limit"]}
    result: dict[str, Any] = {"fate": "survived", "test": "", "tests": 0, "of": len(tests), "seconds": 0.0}
    if files:
        _pytest("run", task, files, common["every"], site.name)
        if out.is_file():
            result = json.loads(out.read_text(encoding="utf-8"))
            out.unlink()
        else:
            result = {**result, "fate": "killed", "test": "the collection of tests"}
    with results.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"name": site.name, "version": common["versions"][site.name], **result}) + "\n")
    print(site.name, result["fate"], result["seconds"], "s", result["test"], flush=True)


def _report(by_package: dict[str, list[Site]], results: dict[str, dict[str, Any]]) -> list[str]:
    """The table of the score; what survives is printed, as an entry of the list of equivalents would have it."""
    reasons = equivalent()
    lines = ["| package | mutants | noticed | survive | equivalent | score |", "|---|---:|---:|---:|---:|---:|"]
    total: Counter[str] = Counter()
    for package, sites in by_package.items():
        count: Counter[str] = Counter()
        for site in sites:
            fate = results[site.name]["fate"] if site.name in results else "open"
            if fate in NOTICED:
                count["noticed"] += 1
            elif site.key in reasons:
                count["equivalent"] += 1
            elif fate == "open":
                count["open"] += 1
            else:
                count["survive"] += 1
                row = results[site.name]
                print(f"# {site.name} {site.module}:{site.number}, {fate}, {row['tests']} tests, {row['seconds']} s")
                print("[[mutant]]")
                for name, value in zip(("module", "function", "line", "mutant"), site.key, strict=True):
                    print(f"{name} = {json.dumps(value, ensure_ascii=False)}")
                print()
        total += count
        lines.append(_row(package, count))
    lines.append(_row("all", total))
    if total["open"]:
        print(f"{total['open']} mutants are not decided yet")
    return lines


def _row(name: str, count: Counter[str]) -> str:
    decided = count["noticed"] + count["survive"]
    score = f"{100 * count['noticed'] / decided:.1f} %" if decided else ""
    known = count.total() - count["open"]
    return f"| {name} | {known} | {count['noticed']} | {count['survive']} | {count['equivalent']} | {score} |"


def _record(table: list[str], options: argparse.Namespace) -> None:
    """Writes the table, its date and how it came about between the marks of the page."""
    page = ROOT / "docs" / "testing.md"
    before, start, rest = page.read_text(encoding="utf-8").partition("<!-- score: written by mutate.py --record -->\n")
    _, end, after = rest.partition("<!-- end of score -->")
    head = (
        f"{dt.datetime.now(tz=dt.UTC).date()}, seed {options.seed}, at most {options.limit:g} CPU seconds of tests per mutant, "
        f"of each parametrized test every case whose number {options.every} divides:\n\n"
    )
    page.write_text(before + start + head + "\n".join(table) + "\n" + end + after, encoding="utf-8")


def main() -> None:
    """Reads the arguments, decides what is open, prints the score."""
    parser = argparse.ArgumentParser(description="Changes the source, and says which changes no test notices.")
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"of {', '.join(PACKAGES)}; all without one")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--size", type=int, default=50, help="mutants per package; 0 for all")
    parser.add_argument("--every", type=int, default=3, help="of each test, the first case and every N-th, as in CI")
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds of tests per mutant")
    parser.add_argument(
        "--tests", nargs="+", metavar="PATH", help="tests that are run; those of the package's own folders without it"
    )
    parser.add_argument("--anew", action="store_true", help="forget what was found out")
    parser.add_argument("--report", action="store_true", help="run nothing, print what is known")
    parser.add_argument("--record", action="store_true", help="write the score into docs/testing.md")
    options = parser.parse_args()
    if unknown := set(options.packages) - set(PACKAGES):
        parser.error(f"unknown package {', '.join(sorted(unknown))}; known are {', '.join(PACKAGES)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    by_package = {name: sample(name, options.seed, options.size or None) for name in options.packages or PACKAGES}
    results = FOLDER / "results.jsonl"
    if options.anew:
        results.unlink(missing_ok=True)
        for file in FOLDER.glob("map-*.json"):
            file.unlink()
    for package, sites in by_package.items():
        if not options.report:
            mapped = _map(package, sites, options.tests or list(TESTS[package]), options.every)
            _decide(sites, mapped, results, options.limit, options.every)
    table = _report(by_package, _results(results))
    print("\n".join(table))
    if options.record:
        _record(table, options)


if __name__ == "__main__":
    main()
