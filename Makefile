# Environments of the project's own, made on first use: `.venv` with all three backends for the
# tests, `.venv-demo` with what `pip install keras-transformer` brings, `.venv-bench` with the peers
# that the benchmarks run beside.
PYTHON ?= python3
BACKENDS ?= tensorflow jax torch
SIZES ?= tiny base
THREADS ?= 1
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: test demo bench lint clean

# All backends at once: most of a test's time is the compilation of one program, on one core.
test: .venv/installed
	$(MAKE) --no-print-directory --jobs 3 --keep-going --output-sync=target $(BACKENDS:%=test-%)

test-%: .venv/installed
	@echo "== KERAS_BACKEND=$*"
	KERAS_BACKEND=$* OMP_NUM_THREADS=$(THREADS) .venv/bin/python -m pytest -q --durations 20

lint: .venv/installed
	.venv/bin/ruff format --check .
	.venv/bin/ruff check --no-cache .

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

clean:
	rm -rf .venv .venv-demo .venv-bench runs build dist *.egg-info
