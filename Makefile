# One command per purpose. Everything happens in .venv; nothing is done twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= 2.13.0
STAMP := $(VENV)/.installed

export TORCH_NEURONX_BUILD_LOCK := .build.lock
SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h') setup.py

.PHONY: build
build: $(STAMP) $(VENV)/.built

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	echo "torch==$(TORCH)" > $(VENV)/constraints.txt
	$(BIN)/python -m pip install --quiet -c $(VENV)/constraints.txt torch setuptools wheel ninja pybind11
	$(BIN)/python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; print('\n'.join([*p['dependencies'], *sum(p['optional-dependencies'].values(), [])]))" > $(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet -c $(VENV)/constraints.txt -r $(VENV)/requirements.txt
	touch $@

$(VENV)/.built: $(SOURCES)
	flock $(TORCH_NEURONX_BUILD_LOCK) $(BIN)/python -m pip install --quiet --no-build-isolation --no-deps -e .
	touch $@
