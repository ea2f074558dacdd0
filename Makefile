# Environments of the project's own, made on first use: `.venv` with all three backends for the
# tests, `.venv-demo` with what `pip install keras-transformer` brings, `.venv-bench` with the peers
# that the benchmarks run beside, `.venv-docs` with what builds the pages.
PYTHON ?= python3
BACKENDS ?= tensorflow jax torch
SIZES ?= tiny base
THREADS ?= 1
WORKERS ?= 2
export TF_CPP_MIN_LOG_LEVEL ?= 2

# The backend of the tests that need run under one alone, at best the one that compiles nothing.
ONE := $(firstword $(filter torch,$(BACKENDS)) $(BACKENDS))
# What `make test` runs under a backend, and what it leaves to `make test-long`: pyproject.toml says
# what the marks mean.
ONCE = $(if $(filter-out $(ONE),$*), and not once)
SHORT = not slow$(if $(filter-out torch,$*), and (each_backend or once))$(ONCE)
LONG = (slow$(if $(filter-out torch,$*), or not (each_backend or once)))$(ONCE)
# Under further backends `make test` collects only the files with such tests: reading all takes
# longer than running these.
FILES = $(if $(filter-out $(ONE),$*),$(shell grep -rl --include="*_test.py" each_backend tests))
# A test runs on one core, so there are as many workers; each holds up to 3 GB.
PYTEST = KERAS_BACKEND=$* OMP_NUM_THREADS=$(THREADS) COVERAGE_FILE=.coverage-data/$* \
	.venv/bin/python $(COVERAGE) -m pytest -q --durations 20 -n $(WORKERS) --dist loadfile $(ARGS)
LANES = $(MAKE) --no-print-directory --keep-going

.PHONY: test test-long test-all coverage faults demo bench docs lint clean

test: .venv/installed
	$(LANES) $(BACKENDS:%=test-short-%)

test-long: .venv/installed
	$(LANES) $(BACKENDS:%=test-long-%)

test-all: test
	$(MAKE) --no-print-directory test-long

# The passes of XLA's that make programs fast take longer than such small programs run.
test-short-% test-long-%: export XLA_FLAGS := --xla_backend_optimization_level=0 \
	--xla_llvm_disable_expensive_passes=true
test-short-%: .venv/installed
	@echo "== KERAS_BACKEND=$*"
	$(PYTEST) -m "$(SHORT)" $(FILES)

test-long-%: .venv/installed
	@echo "== KERAS_BACKEND=$*, what takes long"
	$(PYTEST) -m "$(LONG)"

# What `make test` reaches of the package, in its processes' processes too.
coverage: .venv/installed
	rm -rf .coverage-data
	$(MAKE) --no-print-directory test COVERAGE="-m coverage run"
	.venv/bin/coverage combine --quiet .coverage-data/*
	.venv/bin/coverage report --skip-covered

# Faults sown one at a time, and whether `make test` finds them.
faults: .venv/installed
	.venv/bin/python -m tests.seeded_faults

lint: .venv/installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check --no-cache .
	.venv/bin/pyright --pythonpath .venv/bin/python

demo: export KERAS_BACKEND = tensorflow
demo: .venv-demo/installed
	.venv-demo/bin/python recipes/translation/train.py --dataset synthetic --output-dir runs/demo \
		--vocabulary-size 1500 --dropout 0.1 --num-shapes 6 --steps 1200 --interval 600 \
		--warmup-steps 600 --peak-learning-rate 0.002 --average 1 --overwrite
	.venv-demo/bin/python recipes/translation/evaluate.py --model runs/demo/model \
		--dataset synthetic --split test --beam-size 1 --alpha 0
	.venv-demo/bin/python recipes/translation/export.py --model runs/demo/model \
		--output runs/demo/saved_model
	.venv-demo/bin/python recipes/translation/serve.py runs/demo/saved_model \
		"The old man sees a dog that sleeps." \
		"Today the teacher has called the girl." \
		"My aunt says that the children cannot help him."
	# And with a model that lies here, trained on photographs' captions.
	echo "A dog runs through the snow." | .venv-demo/bin/python recipes/translation/translate.py \
		--model saved_models/multi30k_en_de

bench: export KERAS_BACKEND ?= tensorflow
bench: .venv-bench/installed
	set -e; for size in $(SIZES); do \
		.venv-bench/bin/python benchmarks/train.py --size $$size; \
		.venv-bench/bin/python benchmarks/decode.py --size $$size; \
	done
	.venv-bench/bin/python benchmarks/decode.py --preset saved_models/multi30k_tok_en_de \
		$(if $(KERAS_TRANSFORMER_DATA),--data-dir $(KERAS_TRANSFORMER_DATA))
	.venv-bench/bin/python benchmarks/layer_types.py
	.venv-bench/bin/python benchmarks/startup.py

# The pages of docs/, in `site`: their examples run, on any backend that is there, and a warning is
# an error.
docs: export NO_MKDOCS_2_WARNING = 1
docs: export PATH := $(CURDIR)/.venv-docs/bin:$(PATH)
docs: .venv-docs/installed
	mkdocs build --quiet --strict
	@echo "The pages are in site/: python -m http.server -d site"

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet --editable ".[dev]"
	touch $@

# As a user would: a wheel, in an environment that has nothing else.
.venv-demo/installed: pyproject.toml $(shell find keras_transformer -name "*.py")
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/pip install --quiet .
	touch $@

# The peers' versions are part of what is measured.
.venv-bench/installed: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --editable ".[test]" ctranslate2==4.8.5 transformers==5.23.0
	touch $@

.venv-docs/installed: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv .venv-demo .venv-bench .venv-docs site runs build dist *.egg-info
