# One command per purpose. Everything happens in .venv; nothing is done twice.
#
#   make demo        train a small CNN on device "neuron" and on the CPU, side by side
#   make test        the quick tests (under ten minutes on two cores)     make test-all   all of them
#   make bench       the benchmarks                                       make docs       generated pages of docs/
#   make lint        ruff and clang-format, nothing is changed            make format     let both rewrite
#   make typecheck   mypy --strict                                        make wheel      a wheel in dist/
#   make build       the environment and the extension                    make clean      remove both
#
# TORCH=2.14.0 chooses another torch. TORCH_INDEX=URL adds a package index for it (for example one with CPU-only builds).
PYTHON ?= python3
TORCH ?= 2.13.0
TORCH_INDEX ?=
JOBS ?= $(shell nproc)

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed-$(TORCH)
BUILT := $(VENV)/.built
BUILD_LOCK := .build.lock
PIP_INSTALL := $(BIN)/python -m pip install --quiet --constraint $(VENV)/constraints.txt

NATIVE_SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h')
CPP_FILES := $(NATIVE_SOURCES) $(shell find tests benchmarks -name '*.cpp' -o -name '*.h')
PYTHON_ROOTS := $(wildcard src tests examples benchmarks docs tools) setup.py

.PHONY: help build demo test test-all bench lint format typecheck docs wheel clean
help:
	@sed -n 's/^#  //p' Makefile

build: $(BUILT)

# Every install is held to the one torch by the constraints file, so that no dependency can bring another.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(f"Python {sys.version.split()[0]} is too old: 3.11 or newer is needed (make PYTHON=...)" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(BIN)/python install --quiet --upgrade pip
	echo 'torch==$(TORCH)' > $(VENV)/constraints.txt
	$(PIP_INSTALL) $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch setuptools wheel ninja pybind11
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*p["dependencies"], *sum(p["optional-dependencies"].values(), []), sep="\n")' > $(VENV)/requirements.txt
	$(PIP_INSTALL) --requirement $(VENV)/requirements.txt
	rm -f $(VENV)/.installed-*
	touch $@

# The stamp has the time at which the build started, so that a source edited meanwhile is built next time.
$(BUILT): $(NATIVE_SOURCES) setup.py $(INSTALLED)
	started=$$(date +%s) && flock $(BUILD_LOCK) $(PIP_INSTALL) --no-build-isolation --no-deps --editable . && touch -d @$$started $@

demo: build
	$(BIN)/python examples/digits.py

# One test process per core, one thread each: intra-op threads on top would only compete. Tests of threading set their own count.
test: build
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) -m 'not slow'

test-all: build
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS)

bench: build
	set -e; for name in $(patsubst benchmarks/%.py,%,$(wildcard benchmarks/*.py)); do echo "== $$name"; $(BIN)/python -m benchmarks.$$name; done

lint: $(INSTALLED)
	$(BIN)/ruff check $(PYTHON_ROOTS)
	$(BIN)/ruff format --check $(PYTHON_ROOTS)
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

format: $(INSTALLED)
	$(BIN)/ruff check --fix $(PYTHON_ROOTS)
	$(BIN)/ruff format $(PYTHON_ROOTS)
	$(BIN)/clang-format -i $(CPP_FILES)

typecheck: build
	$(BIN)/mypy

docs: build
	$(BIN)/python docs/generate.py

wheel: $(INSTALLED)
	flock $(BUILD_LOCK) $(BIN)/python -m pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis $(BUILD_LOCK)
	find src -name '*.so' -delete -o -name '*.egg-info' -prune -exec rm -rf {} +
