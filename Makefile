# Environments of the project's own, made on first use: `.venv` with all three backends for the
# tests, `.venv-oldest` and `.venv-newest` with the limits of what pyproject.toml allows, `.venv-bench`
# with the peers that the benchmarks run beside, `.venv-docs` with what builds the pages.
PYTHON ?= python3
# The newest JAX needs Python 3.12 or newer, and TensorFlow has no wheels for 3.14.
NEWEST_PYTHON ?= python3.13
ENV ?= .venv
DEMO ?= $(or $(TMPDIR),/tmp)/keras-transformer-demo
# Platforms and Pythons that must have wheels of all requirements.
RESOLVED ?= linux:3.11 linux:3.12 linux:3.14 macos:3.12 macos:3.14 windows:3.12 windows:3.14
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
FILES = $(if $(filter-out $(ONE),$*),$(shell grep -rlw --include="*_test.py" each_backend tests))
# A test runs on one core, so there are as many workers; each holds up to 3 GB.
PYTEST = KERAS_BACKEND=$* OMP_NUM_THREADS=$(THREADS) COVERAGE_FILE=.coverage-data/$* \
	$(ENV)/bin/python $(COVERAGE) -m pytest -q --durations 20 -n $(WORKERS) --dist loadfile $(ARGS)
LANES = $(MAKE) --no-print-directory --keep-going

.PHONY: test test-long test-all test-oldest test-newest coverage faults release demo bench docs lint clean

test: $(ENV)/installed
	$(LANES) $(BACKENDS:%=test-short-%)

test-long: $(ENV)/installed
	$(LANES) $(BACKENDS:%=test-long-%)

test-all: test
	$(MAKE) --no-print-directory test-long

# `make test` under PyTorch with the oldest versions that pyproject.toml allows, and JAX's part of it
# with the newest of everything except PyTorch, which stays as pinned and is left out here.
test-oldest:
	$(MAKE) --no-print-directory test ENV=.venv-oldest BACKENDS=torch

test-newest:
	$(MAKE) --no-print-directory test ENV=.venv-newest BACKENDS=jax ONE=torch

# The passes of XLA's that make programs fast take longer than such small programs run.
test-short-% test-long-%: export XLA_FLAGS := --xla_backend_optimization_level=0 \
	--xla_llvm_disable_expensive_passes=true
test-short-%: $(ENV)/installed
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

# What would be uploaded, in dist/: checked, and imported in an environment that has nothing else.
release: .venv/installed
	rm -rf dist build
	.venv/bin/python -m build
	.venv/bin/twine check --strict dist/*
	.venv/bin/python -m tests.wheel dist/*.whl
	for target in $(RESOLVED); do \
		echo "keras-transformer-zoo @ file://$$(echo $(CURDIR)/dist/*.whl)" | .venv/bin/uv pip compile \
			--quiet --only-binary :all: --python-platform $${target%:*} \
			--python-version $${target#*:} --output-file /dev/null - || exit; \
		echo "All requirements have wheels on $$target."; \
	done
	$(MAKE) --no-print-directory $(DEMO)/installed
	cd $(DEMO) && bin/python -c "import keras_transformer; print(keras_transformer.__file__)"

lint: .venv/installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check --no-cache .
	.venv/bin/pyright --pythonpath .venv/bin/python

demo: export KERAS_BACKEND = tensorflow
demo: $(DEMO)/installed
	cd $(DEMO) && bin/keras-transformer train translation --dataset synthetic --output-dir runs \
		--vocabulary-size 1500 --num-layers 2 --dropout 0 --batch-tokens 1024 --num-shapes 6 \
		--steps 1400 --interval 1400 --warmup-steps 200 --peak-learning-rate 0.005 \
		--cooldown-steps 700 --label-smoothing 0 --average 1 --overwrite
	cd $(DEMO) && bin/keras-transformer export --model runs/model --output runs/saved_model
	cd $(DEMO) && bin/python $(CURDIR)/recipes/translation/translate_with_saved_model.py runs/saved_model \
		"The old man sees a dog that sleeps." \
		"Today the teacher has called the girl." \
		"My aunt says that the children cannot help him."

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

# As a user would: a wheel, in an environment outside the checkout that has nothing else.
$(DEMO)/installed: pyproject.toml $(shell find keras_transformer* -type f -not -name "*.pyc")
	rm -rf build
	$(PYTHON) -m venv --clear $(DEMO)
	$(DEMO)/bin/pip wheel --quiet --no-deps --wheel-dir $(DEMO)/wheel .
	$(DEMO)/bin/pip install --quiet $(DEMO)/wheel/*.whl
	touch $@

# The peers' versions are part of what is measured.
.venv-oldest/installed: pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install --quiet uv
	.venv-oldest/bin/uv pip compile --quiet --resolution lowest-direct --extra convert --extra jax \
		--extra ray --extra spacy --extra svg --extra torch pyproject.toml \
		--output-file .venv-oldest/constraints.txt
	.venv-oldest/bin/uv pip install --quiet --python .venv-oldest/bin/python \
		--constraint .venv-oldest/constraints.txt --editable ".[test]"
	touch $@

.venv-newest/installed: pyproject.toml
	$(NEWEST_PYTHON) -m venv .venv-newest
	.venv-newest/bin/pip install --quiet uv
	echo "torch; python_version < '3'" > .venv-newest/without_torch.txt
	.venv-newest/bin/uv pip install --quiet --upgrade --python .venv-newest/bin/python \
		--override .venv-newest/without_torch.txt --editable ".[test]"
	touch $@

.venv-bench/installed: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --editable ".[test]" ctranslate2==4.8.5 transformers==5.23.0
	touch $@

.venv-docs/installed: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --editable ".[docs]"
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-newest .venv-bench .venv-docs $(DEMO) site runs build dist *.egg-info
