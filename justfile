# The commands of the project: `just` lists them. Each is plain enough to be typed by hand where there is no just.

bin := ".venv/bin"

# list the commands
default:
    @just --list

# make the environment
setup:
    python3 -m venv .venv
    {{bin}}/pip install -e ".[dev]"

# style, types, import floors
lint:
    {{bin}}/ruff check
    {{bin}}/ruff format --check
    {{bin}}/mypy
    {{bin}}/lint-imports

# rewrite what the formatter and the linter can
format:
    {{bin}}/ruff check --fix
    {{bin}}/ruff format

# the tests; `just test -k attention` for some of them
test *arguments:
    {{bin}}/pytest -n 2 {{arguments}}

# the quick tests, in a minute or two
test-fast *arguments:
    {{bin}}/pytest -n 2 -m fast {{arguments}}

# what takes longer than a change should wait: every case of every test, 2,000 settings in which all ways of computing have
# to agree, and 20,100 inputs of each kind by the date as seed
night *arguments:
    ROOFLINE_SETTINGS=2000 ROOFLINE_FUZZ="${ROOFLINE_FUZZ:-67}" ROOFLINE_FUZZ_SEED="${ROOFLINE_FUZZ_SEED:-$(date +%Y%m%d)}" {{bin}}/pytest -n auto {{arguments}}

# change the source in small ways, by a seed, and list the changes that no test notices: `just mutate graph --seed 2`
mutate *arguments:
    {{bin}}/python tests/mutation/mutate.py {{arguments}}

# everything that has to pass, in a fresh clone of the last commit
ci:
    .ci/run

# measure the speed of the program itself
bench:
    {{bin}}/python benchmarks/cli_start.py
    {{bin}}/python benchmarks/sweep.py

# write the pages that the repository holds, and build the site into build/docs
docs:
    for page in docs/build_*.py; do {{bin}}/python "$page" || exit 1; done
    {{bin}}/sphinx-build -q -W --keep-going docs build/docs

# execute the lessons; their pages, notebooks and figures go to build/lessons
lessons *arguments:
    {{bin}}/python lessons/build.py {{arguments}}

# a term of twelve weeks by its seed: `just term 2027`; papers, keys, syllabus go to build/term
term seed *arguments:
    {{bin}}/python lessons/term.py --seed {{seed}} {{arguments}}

# documentation, course and calculators as static pages in build/site
site:
    {{bin}}/python lessons/build.py build/site/course
    {{bin}}/sphinx-build -q -W --keep-going docs build/site

# wheel and source distribution, a look into the wheel, checksums: the same wherever they are built
build:
    {{bin}}/python -m build
    {{bin}}/check-wheel-contents dist/*.whl --toplevel roofline
    sha256sum dist/*
