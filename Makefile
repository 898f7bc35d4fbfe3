# Splatfit's commands; `make` alone lists them. Everything they make lies in .venv, build, dist and out.
PYTHON ?= python3
ENGINE := .venv/engine/bin/python
BLENDER := .venv/blender/bin/python
ARGS ?=
SOURCES_CPP = $(shell find csrc tests tools -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')
# The clone's own modules, for scripts in tools that Blender's Python runs. Spinning threads of a torch
# that waits would slow whatever runs beside it threefold.
export PYTHONPATH := $(CURDIR)
export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup setup-engine demo demo-short test test-gui test-sanitizers check format wheel wheels extension \
	extensions test-wheels test-viewer bench bench-quality clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv/engine, .venv/blender, .venv/blender-lts and the native library (quick when they stand)
	@$(PYTHON) tools/setup_env.py

setup-engine:
	@$(PYTHON) tools/setup_env.py engine

demo: setup ## build the demo scene, capture, fit, import and compare: out/demo (about 8 minutes on 2 cores)
	$(BLENDER) tools/demo.py $(ARGS)

demo-short: setup ## the same with few views and steps: out/demo-short (about a minute)
	$(BLENDER) tools/demo.py --short --out out/demo-short $(ARGS)

test: setup ## run every test: engine, both Blenders, end to end. One of them: make test ARGS="engine -k ply"
	@$(PYTHON) tools/run_tests.py $(ARGS)

test-gui: setup-engine ## the built zip in a real window, with pictures: out/test-gui (root, Debian). One scenario: ARGS=panel
	$(ENGINE) -m tools.test_gui.command $(ARGS)

test-sanitizers: setup-engine ## the kernels' tests under address, undefined-behaviour and thread sanitizers (g++, Linux)
	@$(PYTHON) tools/test_sanitizers $(ARGS)

check: setup-engine ## lint, types, format and architecture, as CI does
	@$(PYTHON) tools/check.py

format: setup-engine ## put Python and C++ into the house's format
	$(ENGINE) -m ruff check --fix-only --quiet .
	$(ENGINE) -m ruff format .
	$(dir $(ENGINE))clang-format -i $(SOURCES_CPP)

wheel: setup-engine ## build the engine's wheel for this platform: dist/*.whl
	$(ENGINE) -m pip wheel --no-deps --no-build-isolation --wheel-dir dist .

wheels: setup-engine ## build wheels for every platform, here, and check them. Some of them: make wheels ARGS="windows-x64"
	$(ENGINE) tools/build_wheels $(ARGS)

extension: setup-engine ## build the zip that Blender installs: dist/splatfit-*.zip
	$(ENGINE) tools/build_extension $(ARGS)

extensions: setup-engine ## build the zips for every platform
	$(ENGINE) tools/build_extension --platform all $(ARGS)

test-wheels: setup-engine ## build all wheels, run what this machine can run of them (qemu-user, Wine) and compare
	$(ENGINE) tools/build_wheels
	$(ENGINE) tools/test_wheels $(ARGS)

test-viewer: setup-engine ## hold a classic file against a web viewer in headless Chromium (a minute; npm, Chromium, ../shared)
	$(ENGINE) tools/test_viewer $(ARGS)

bench: setup-engine ## time the engine on the standard inputs (5 minutes); ARGS="--growth out/growth.png --memory"
	$(ENGINE) tools/bench/kernels $(ARGS)

bench-quality: setup ## what a fit is worth on each scene (hours, resumable); ARGS="--scenes matte --settings default"
	$(ENGINE) -m tools.bench.quality $(ARGS)

clean: ## remove what was built and written, but not the environments
	rm -rf build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	rm -f splat_engine/native/*.so splat_engine/native/*.dylib splat_engine/native/*.dll
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
