"""Seed faults into copies of the package, one at a time, and see that `make test` finds them.

    make faults                       # all of them: about an hour of CPU time
    .venv/bin/python -m tests.seeded_faults --only decoding/  # those whose path begins so

A fault is a small slip of the kind that people make: a sign, a bound, an axis, a mask that is
dropped, a cast that is missing. It counts as found if a test of `make test` fails. Prints a line
for each, then those that no test found. The exit status is 1 if they are more than one in twenty.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIED = (
    "keras_transformer",
    "keras_transformer_command.py",
    "tests",
    "recipes",
    "benchmarks",
    "Makefile",
    "pyproject.toml",
)
LINKED = (
    *(".venv", "saved_models", "docs", "mkdocs.yml"),
    *("README.md", "CONTRIBUTING.md", "LICENSE"),
)
MINUTES = 30  # for the tests of one backend; a search that never ends is found too
SHARE_TO_FIND = 0.95

# A file of the package -> pairs of what is there, once, and what is put in its place.
FAULTS = {
    # Other people's models
    "convert/weight_mapping.py": [
        ("is_transposed else values\n        shape", "is_transposed else -values\n        shape"),
        ("np.take(values, np.argsort(order), axis)", "np.take(values, order, axis)"),
        ("reshape(2, -1).T.ravel()", "reshape(-1, 2).T.ravel()"),
        ("table[rows[:, None], order]", "table[rows[:, None], np.sort(order)]"),
    ],
    "convert/embedding_tables.py": [
        ("for index in (2, 3, 0, 1):", "for index in (0, 1, 2, 3):"),
        ("bias[self.copies] = COPY_BIAS", "bias[self.copies] = 0.0"),
    ],
    "data/sentencepiece_model.py": [
        ("spec.pad_id, spec.bos_id, spec.eos_id", "spec.bos_id, spec.pad_id, spec.eos_id"),
    ],
    # Layers and model
    "layers/tensor_ops.py": [
        ('logits = ops.cast(scores, "float32")', "logits = scores"),
        ("ops.where(mask, logits, MASKED_SCORE)", "ops.where(mask, logits, 0.0)"),
        ("end=start + tf.shape(update)", "end=start + tf.shape(x)"),
        ("index + torch.arange(size", "torch.arange(size"),
        ("narrow(axis, int(index), size)", "narrow(axis, 0, size)"),
    ],
    "layers/multi_head_attention.py": [
        ("self.key_dim**-0.5", "self.key_dim**0.5"),
        ("self.key_dim**-0.5", "self.value_dim**-0.5"),
        ("starts = (0, 0, 0, index), (0, 0, index, 0)", "starts = (0, 0, 0, index), (0, 0, 0, 0)"),
        ("self.dropout_layer(weights, training=training), value)", "weights, value)"),
        ("_INPUT_SCALE)\n        self.key_dense", "1.0)\n        self.key_dense"),
    ],
    "layers/restricted_attention.py": [
        ("reach = window // 2", "reach = (window + 1) // 2"),
        ("is_near[None] & (position >= 0) &", "is_near[None] &"),
        ("before[:, :, :, block - reach :]", "before[:, :, :, :reach]"),
    ],
    "layers/position_encoding.py": [
        (
            "-np.arange(0, hidden_dim, 2) / hidden_dim",
            "-np.arange(0, hidden_dim, 2) / (hidden_dim - 1)",
        ),
        (
            "ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)",
            "ops.stack([ops.cos(angles), ops.sin(angles)], axis=-1)",
        ),
        (
            'ops.cast(inputs, "float32") + encoding',
            "ops.cast(encoding, self.compute_dtype) + inputs",
        ),
    ],
    "layers/dropout.py": [
        ("inputs / (1 - self.rate)", "inputs"),
        ("if not training or self.rate == 0:", "if self.rate == 0:"),
        ("(1 << (32 - bits)) - 1", "(1 << 32) - 1 - 2**32"),
        (" + replica * size", ""),
    ],
    "layers/transformer_layer.py": [
        ("norm(x + self.dropout_layer(sublayer(x), training=training))", "norm(x + sublayer(x))"),
        ("if self.normalize_first:", "if False:"),
    ],
    "convert/foreign_layers.py": [
        ("functools.partial(self.dropout_layer, training=training)", "self.dropout_layer"),
        ("is_before = positions < cache_index", "is_before = positions <= cache_index"),
        ("forget * earlier_new + new", "earlier_new + new"),
    ],
    "layers/decoder_layer.py": [
        ("ops.expand_dims(queries + cache_index, -1)", "ops.expand_dims(queries, -1)"),
        ("(ops.expand_dims(queries, -1) >= queries)", "(ops.expand_dims(queries, -1) > queries)"),
        ('{"attention_mask": cross_mask,', '{"attention_mask": None,'),
    ],
    "models/config.py": [
        ("return self.num_decoder_layers or self.num_layers", "return self.num_layers"),
    ],
    "models/encoder_decoder.py": [
        ("config.hidden_dim**0.5 if config", "1.0 if config"),
        ("if config.scale_embeddings else 1.0", "if config.tie_weights else 1.0"),
        ("x = layer(x, padding_mask=mask, training=training)", "x = layer(x, training=training)"),
        ("positions = cache_index + ops.arange", "positions = ops.arange"),
    ],
    "convert/foreign_transformer.py": [
        (
            "self.normalize_first if self.final_norm is None else",
            "self.final_norm if self.final_norm else",
        ),
        ("return logits if self.output_bias is None else", "return logits if True else"),
        ("ones = ops.ones_like(", "ones = ops.zeros_like("),
        ("ops.where(is_start, ops.zeros_like(scale), scale)", "scale"),
        ("PRE_NORM if self.normalize_first else POST_NORM", "POST_NORM"),
    ],
    "models/layout.py": [
        (r'".*token_embedding/embeddings": (0, 2)', r'".*token_embedding": (1, 2)'),
    ],
    "models/training_step.py": [
        (
            "if type(loss) is not LabelSmoothedCrossentropy",
            "if not isinstance(loss, LabelSmoothedCrossentropy)",
        ),
        ("for name in _METHODS:", "for name in _METHODS[1:]:"),
        ("self.train_function = None  #", "#"),
    ],
    # Loss, metrics, schedule, optimizer
    "models/losses.py": [
        ("ops.not_equal(y_true, 0)", "ops.ones_like(y_true)"),
        ("while 0 < len(weights.shape) < rank", "while False"),
        ("share = ops.divide_no_nan(mean * own, whole)", "share = loss"),
        ("smoothing * ops.mean(y_pred, axis=-1)", "smoothing * ops.sum(y_pred, axis=-1)"),
    ],
    "models/fused_crossentropy.py": [
        ("w[:, None] * share", "0.0"),
        ("shares = relative / ops.where(squares > 0, squares, 1.0)", "shares = relative"),
        ("if num_devices == 1:", "if True:"),
        ("exponentials = ops.exp(logits - maximum[:, None])", "exponentials = ops.exp(logits)"),
        ("lambda part, *_: part < _NUM_PARTS", "lambda part, *_: part < _NUM_PARTS - 1"),
    ],
    "models/metrics.py": [
        (
            "super().update_state(ops.reshape(values, (-1,)), ops.reshape(weights, (-1,)))",
            "super().update_state(values, weights)",
        ),
        ("return -scores.log_probs", "return scores.log_probs"),
    ],
    "training/optimizer.py": [
        ('ops.cast(step, "float32") + 1', 'ops.cast(step, "float32")'),
        ("step * self.warmup_steps**-1.5", "step * self.warmup_steps**-0.5"),
        ("ops.clip(left / self.cooldown_steps, 0.0, 1.0)", "left / self.cooldown_steps"),
        ("beta_2=0.98", "beta_2=0.999"),
    ],
    "training/whole_batch_optimizer.py": [
        ("factor = 1 / self.accumulate", "factor = 1"),
        ("ops.maximum(norm, self.clip_norm)", "norm"),
        ("self.assign(total, ops.zeros_like(gradient))", "self.assign(total, gradient)"),
        ('replicas.all_reduce("SUM", list(grads))', 'replicas.all_reduce("MEAN", list(grads))'),
        ("factor = factor / replicas.num_replicas_in_sync", "pass"),
        ("ops.where(grown, 2.0, 1.0), 0.5)", "ops.where(grown, 2.0, 1.0), 1.0)"),
        ("        self.inner_optimizer.build(variables)\n", ""),
    ],
    "models/replication.py": [
        ("tf.VariableSynchronization.ON_READ", "tf.VariableSynchronization.ON_WRITE"),
        ("tf.VariableAggregation.SUM", "tf.VariableAggregation.MEAN"),
    ],
    # Batches
    "data/batching.py": [
        ("lengths] = END_ID", "lengths] = 0"),
        ("target[0][:, :-1]], axis=1", "target[0][:, 1:]], axis=1"),
        ("first = step - step % self.accumulate", "first = step"),
        ("slice(part * num_rows, (part + 1) * num_rows)", "slice(num_rows)"),
    ],
    "data/batch_planner.py": [
        ("np.random.default_rng((self.seed, epoch))", "np.random.default_rng(self.seed)"),
        ("epochs = 2 * epoch + 1", "epochs = epoch + 1"),
        ('side="right"', 'side="left"'),
        ("least.sum() <= count", "False"),
        ("epoch * self.rest % len(order)", "epoch % len(order)"),
        ("<= most_sources) & (targets", "<= most_sources) | (targets"),
    ],
    "data/preprocessor.py": [
        ("self._ids + ids", "ids"),
        ("ids[:first] + rest", "ids"),
        ("[self.tokenizer.fingerprint(), *map(str, self._ids)]", "[self.tokenizer.fingerprint()]"),
        ("[*prefix, *ids[:room], *end] if ids", "[*prefix, *ids[:room]] if ids"),
        ("[*prefix, *ids[:room], *end] if ids", "[*prefix, *ids, *end] if ids"),
        ("[] if text.isspace() else ids", "ids"),
    ],
    "translation/preparation.py": [
        ("any(len(ids) > room", "any(len(ids) >= room"),
    ],
    "data/token_store.py": [
        ('dtype = "uint16" if largest <= 1 << 16', 'dtype = "uint16" if largest <= 1 << 17'),
        ("largest = max(x", "largest = min(x"),
        ("max(map(len, pair)) <= max_tokens", "min(map(len, pair)) <= max_tokens"),
        ("np.where(inside, self._tokens[positions_in_file], 0)", "self._tokens[positions_in_file]"),
    ],
    "data/text_corpus.py": [
        ("pair[1 - key], split) == split", "pair[1 - key], split)"),
        ("elif number < -largest_first[0]", "elif number > -largest_first[0]"),
        ("number % len(splits)", "0 % len(splits)"),
    ],
    "data/mixtures.py": [
        ("(number + 1) * rest // len(text) >", "(number + 2) * rest // len(text) >"),
        ("one = lengths[0] / (ratios[0] or 1)", "one = max(lengths) / (ratios[0] or 1)"),
        ("sentences.isdisjoint(pair)", "sentences.isdisjoint(pair[:1])"),
    ],
    "data/text_files.py": [
        ("code[:] = []", "pass"),
        ("segments.setdefault(language, text)", "segments[language] = text"),
        ("parser.EntityDeclHandler = start, refuse_entity", "parser.CommentHandler = start, start"),
    ],
    "data/gettext_corpus.py": [
        ("_SINGLE, _MANY = 1, 5", "_SINGLE, _MANY = 1, 2"),
        ("if start + length > len(data)", "if start > len(data)"),
        ('"fuzzy" not in entry.flags or', "True or"),
        ("(?!#?\\w+;)", ""),
        ("if words[0] in translation.split() and not", "if False and not"),
    ],
    # Search
    "decoding/recorded_loop.py": [
        ("leaves = [x.clone() for x in leaves]", "leaves = list(leaves)"),
        ("if func in _READS and", "if False and"),
        ("self.is_complete = not any(", "self.is_complete = bool("),
        ("is_same = is_read and args and", "is_same = args and"),
        ("list(map(_form, results)) == list(map(_form, leaves))", "leaves"),
        ("tensors = [x.detach() for x in tensors]", "tensors = list(tensors)"),
        ("leaves = [x.detach() for x in repeat(*results)]", "leaves = repeat(*results)"),
        ("self._given |= _storages([x])", "pass"),
        ("outside, first, False", "outside, first, True"),
    ],
    "decoding/search_loop.py": [
        ("state.step + 1 >= self.limits", "state.step >= self.limits"),
        (
            "self.search.penalized(candidates.scores[:, :beam], state.step + 1)",
            "self.search.penalized(candidates.scores[:, :beam], state.step)",
        ),
        (
            "self.search.penalized(scores[:, 0], self.limits)",
            "self.search.penalized(scores[:, 0], state.step + 1)",
        ),
        ("ancestors=gather_rows(state.ancestors, parents),", "ancestors=state.ancestors,"),
        ("state.finished_scores[:, -1]", "state.finished_scores[:, 0]"),
        (
            "ops.clip(state.coverage, SMALLEST_COVERAGE, 1.0)",
            "ops.maximum(state.coverage, SMALLEST_COVERAGE)",
        ),
        (
            "num_starts = beam if self.search.is_stochastic else 1",
            "num_starts = beam",
        ),
        ("coverage=gather_rows(state.coverage, parents)", "coverage=state.coverage"),
        ("order = true_first(is_used)", "order = true_first(~is_used)"),
        (
            "ancestors = state.ancestors & (state.scores > -np.inf)[..., None]",
            "ancestors = state.ancestors",
        ),
        ("is_inside = state.ends.steps > step", "is_inside = state.ends.steps >= step - 1"),
        ("ops.where(is_inside, parents, hypotheses)", "hypotheses"),
    ],
    "data/text_lines.py": [
        ('match[0] if match[0] in source else " "', '" "'),
        ('b"".join([*parts, ended[0]])', "ended[0]"),
        ("if lines and not _has_more_now(file):", "if False:"),
        ("return taken, error", "return [], error"),
    ],
    "decoding/constraints.py": [
        ("is_short = (0 < limits) & (limits < self.min_length)", "is_short = limits < 0"),
        ("progress.step + 1 < self.min_length", "progress.step < self.min_length"),
        ("followers(state, self.size - 1)", "followers(state, self.size)"),
        ("self.penalty * log_probs, log_probs)", "log_probs / self.penalty, log_probs)"),
        ("ops.where(logits > 0, logits / self.penalty,", "ops.where(logits < 0, logits,"),
        ("ops.logical_and(mark(state, token_ids), token_ids != PAD_ID)", "mark(state, token_ids)"),
        ("index = ops.minimum(progress.step, ops.shape(state)[1] - 1)", "index = 0"),
        ("size = 1 << max(len(self.banned_token_ids) - 1, 0)", "size = 2 << max(0, 0)"),
        ("gather_rows(history, parents)[..., :-1]", "history[..., :-1]"),
        ("== history[..., i : i + 1]", "== history[..., :1]"),
        ("return columns > 0", "return columns > 1"),
    ],
    "decoding/static_fields.py": [
        ("return self._with(dict.fromkeys(names, ...))", "return self"),
        ("is_gap = (is_token[:, 1:] > is_token[:, :-1])", "is_gap = (is_token[:, 1:] < False)"),
    ],
    "decoding/sampling.py": [
        ('return super().static_part()._with({"seed": None})', "return super().static_part()"),
        ("if self.seed is not None:", "if self.seed:"),
        (
            "is_kept = cumulated - probabilities < sampling.top_p",
            "is_kept = cumulated < sampling.top_p",
        ),
        ("words = ops.where(encoder_token_ids == PAD_ID, 0, words)", "words = words"),
        ('keepdims=True), "int32") + number_words', 'keepdims=True), "int32") + numbers'),
    ],
    "decoding/resolve_search.py": [
        ("            constraints=default.constraints,\n", ""),
        ('validate_option_names(options, type(found), also=("min_length",))', "pass"),
    ],
    "decoding/batch_compaction.py": [
        (
            "return ops.logical_and(2 * num_unfinished <= size,",
            "return ops.logical_and(num_unfinished <= size,",
        ),
        ("ops.where(is_there, state.finished_scores, -np.inf)", "state.finished_scores"),
    ],
    "decoding/candidates.py": [
        ("values, tokens = choose(2 * beam)", "values, tokens = choose(beam)"),
        ("values = ops.where(token_ids > START_ID, values, -np.inf)", "values = values"),
        (
            "top_k(ops.reshape(values, (-1, size)), count)",
            "top_k(ops.reshape(values, (-1, size)), 2)",
        ),
        ("logits.shape[1], count + more)", "logits.shape[1], count)"),
        ("values if is_early else values - normalizer", "values"),
        ("ops.take_along_axis(logits, forced, axis=-1) - normalizer", "normalizer"),
        ("token_ids[np.isin(token_ids, only)]", "only"),
        ("best = ops.sort(best, axis=-1)", "best = best"),
        ("after = inner - k * block + whole", "after = inner - k * block"),
    ],
    "parsing/tree_grammar.py": [
        (
            "may_open & (2 + words_left + depth + 1 <= progress.tokens_left)",
            "may_open & (1 + words_left + depth + 1 <= progress.tokens_left)",
        ),
        ("may_close = is_inside & ~state.was_opener &", "may_close = is_inside &"),
        (
            "stack = ops.where(is_pushed, opened[..., None], gather_rows(state.stack, parents))",
            "stack = ops.where(is_pushed, opened[..., None], state.stack)",
        ),
        (
            "index = ops.clip(state.num_words - state.words_left, 0, last)",
            "index = ops.clip(state.num_words - state.words_left + 1, 0, last)",
        ),
        ("has_begun & ~state.was_opener &", "has_begun &"),
        ("1 + 2 + words_left + 1 <=", "2 + words_left + 1 <="),
    ],
    "decoding/cpu_parallel.py": [
        ("x[part::num_parts], whole)", "np.split(x, num_parts)[part], whole)"),
        ("keras.StatelessScope(state_mapping=values),", ""),
        ("jax.default_matmul_precision(precision),", ""),
    ],
    "decoding/compilation.py": [
        ("mapping = list(zip(model_ref().variables, values))", "mapping = []"),
        ("while len(programs) > _MOST_PROGRAMS:", "while len(programs) > _MOST_PROGRAMS + 9:"),
    ],
    # Trees
    "parsing/linearization.py": [
        ("closing.get(label, closing.get(None))", "closing.get(label)"),
        ("openings = 0 if step == LEAF else", "openings = 0 if step != OPEN else"),
    ],
    "parsing/traversal.py": [
        ("waiting[-1][0] == depth:", "waiting[-1][0] >= depth:"),
        ("if self._was_opener or not before:", "if not before:"),
        ("while len(self._open) > 2:", "while len(self._open) > 1:"),
        ("range(innermost - depths[-1])", "range(innermost - depths[-1] - 1)"),
        ("if len(constituents) != 1:", "if True:"),
    ],
    "parsing/parser_tokens.py": [
        ("self.starts_word[ids].sum() == 1", "self.starts_word[ids].sum() >= 1"),
        ("if word]", "]"),
    ],
    "parsing/deterministic_attention.py": [
        ("ops.cumsum(starts, axis=1) - 1, -1)", "ops.cumsum(starts, axis=1), -1)"),
        ("ops.maximum(ops.sum(weights, axis=1), 1)[..., None]", "1.0"),
        ("[*self.word_start_ids, self.end_id]", "self.word_start_ids"),
        ("-self.loss_weight * ops.sum(", "-ops.sum("),
    ],
    "parsing/word_tags.py": [
        ("len(self.leaf_sets or [()])", "len(self.leaf_sets)"),
        ("enumerate(words, start=1)", "enumerate(words)"),
    ],
    "parsing/brackets.py": [
        ('r".[^-=|]*"', 'r".[^-|]*"'),
    ],
    # EVALB
    "parsing/evalb.py": [
        ("if bracket.start != bracket.end and not", "if not"),
        ("del left[index]", "pass"),
        (
            "start < bracket.start < end < bracket.end or",
            "start <= bracket.start < end < bracket.end or",
        ),
        (
            "if gold_quote.tag in deleted and quote.tag not in deleted:",
            "if gold_quote.tag in deleted:",
        ),
    ],
    "parsing/evalb_inputs.py": [
        (
            "if tag not in self.parameters.delete_labels_for_length:",
            "if tag not in self.parameters.delete_labels:",
        ),
        ("for bracket in self.brackets[quote.num_opened :]:", "for bracket in self.brackets:"),
    ],
    "parsing/evalb_scores.py": [
        ("row.length <= cutoff_length", "row.length < cutoff_length"),
        ("row.crossing <= 2", "row.crossing < 2"),
    ],
    "evaluation.py": [
        (
            'return [check_strings("references", given)]',
            'return [[x] for x in check_strings("references", given)]',
        ),
    ],
    # Checkpoints, states, devices
    "weights/checkpoints.py": [
        ("total / len(paths)", "total / (len(paths) - 1 or 1)"),
        ("sorted(paths, key=lambda path: get_step(path, ending))", "sorted(paths)"),
    ],
    "weights/weights_file.py": [
        ("if name != STATE_GROUP:", "if True:"),
    ],
    "training/training_state.py": [
        ("write_checksum(path)", "pass"),
    ],
    "training/rolling_checkpoints.py": [
        (
            "kept = list_checkpoints(self.folder)[-self.keep :]",
            "kept = list_checkpoints(self.folder)[-self.keep - 1 :]",
        ),
        ("if get_step(path, ending) > step:", "if get_step(path, ending) >= step:"),
        ("self._save(to_average=is_due)", "self._save(to_average=True)"),
        ("return self.batches == self.num_batches", 'return epoch + 1 == self.params["epochs"]'),
    ],
    "training/trainer.py": [
        ("if within or left < interval:", "if left < interval:"),
        ("min(interval - within, left), 1", "min(interval, left), 1"),
        ("num_batches = options.steps * batches.train.accumulate", "num_batches = options.steps"),
    ],
    "option_fields.py": [
        ("elif not field.metadata.get(_MUTABLE):", "else:"),
    ],
    "validation.py": [
        ("if number is None or number < least:", "if number is None:"),
    ],
    "training/distribution.py": [
        ("return Devices(len(names), (process_id, num_processes))", "return Devices(len(names))"),
    ],
    "files.py": [
        ("            lock.acquire()", "            pass"),
        ("        os.replace(place, old)", "        shutil.rmtree(place)"),
    ],
    "decoding/batched_search.py": [
        ("start = end", "start = max(start + 1, end - 1)"),
    ],
    "export/saved_model.py": [
        (
            "back = tf.argsort(tf.concat([order, rest], axis=0))",
            "back = tf.concat([order, rest], axis=0)",
        ),
        ("token_ids[:, :-1][:, : limit - 1]", "token_ids[:, :-1][:, :limit]"),
        ("is_searched = has_tokens & ~", "is_searched = ~"),
        ("out_type=tf.int32, add_eos=add_eos", "out_type=tf.int32"),
    ],
    "export/to_ctranslate2.py": [
        ("scale_embeddings = config.scale_embeddings", "scale_embeddings = False"),
    ],
}


class Fault(NamedTuple):
    path: str
    number: int  # of the file's, from 1
    old: str
    new: str

    @property
    def name(self):
        return f"{self.path} {self.number}"


class Result(NamedTuple):
    fault: Fault
    found_by: str  # the backend and the test, or "" if none did
    seconds: float


def all_faults(beginning=""):
    """The faults in files whose path begins so; each must still fit its file."""
    for path, changes in FAULTS.items():
        source = (ROOT / "keras_transformer" / path).read_text()
        for number, (old, new) in enumerate(changes, start=1):
            if source.count(old) != 1:
                sys.exit(f"{path} has {source.count(old)} times, not once: {old}")
            if path.startswith(beginning):
                yield Fault(path, number, old, new)


def copy_tree(folder):
    for name in COPIED:
        source, copy = ROOT / name, folder / name
        shutil.copytree(source, copy) if source.is_dir() else shutil.copy2(source, copy)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)


def nearest_tests(path):
    """The test file of the same name, then those of the same folder, then all."""
    mirror = Path("tests", path)
    candidates = [mirror.with_name(f"{mirror.stem}_test.py"), mirror.parent, Path("tests")]
    return [str(path) for path in candidates if (ROOT / path).exists()]


def first_failure(folder, backend, tests):
    """The first test of `make test` that fails under a backend, or ""."""
    command = [
        "make",
        f"test-short-{backend}",
        "FILES=",  # no others under backends that compile
        f"ARGS=-x -n 0 -p no:cacheprovider {' '.join(tests)}",
    ]
    try:
        process = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "CI": "1"},  # which reports a slow test, and does not fail
            capture_output=True,
            text=True,
            timeout=60 * MINUTES,
        )
    except subprocess.TimeoutExpired:
        return "(time)"
    has_no_test = "Error 5" in process.stderr  # pytest's status, if none is of this backend
    if process.returncode == 0 or has_no_test:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", process.stdout, re.MULTILINE)
    return failed[1] if failed else process.stdout[-300:]


def look_for(fault, folder):
    path = folder / "keras_transformer" / fault.path
    source, begin = path.read_text(), time.monotonic()
    path.write_text(source.replace(fault.old, fault.new))
    try:
        tests = nearest_tests(fault.path)
        # Near tests before far ones; of those that compile, which take minutes, near ones alone.
        near = tests[:-1]
        runs = [("torch", near), ("torch", tests), ("jax", near), ("tensorflow", near)]
        for backend, chosen in runs:
            if chosen and (found := first_failure(folder, backend, chosen)):
                return Result(fault, f"{backend}: {found}", time.monotonic() - begin)
        return Result(fault, "", time.monotonic() - begin)
    finally:
        path.write_text(source)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="how the paths of the files begin")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many at a time")
    options = parser.parse_args()
    faults = list(all_faults(options.only))
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(options.jobs) as threads:
        folders = Queue()
        for job in range(options.jobs):
            folder = Path(temporary, str(job))
            folder.mkdir()
            copy_tree(folder)
            folders.put(folder)

        # Whatever fails without a fault would count as finding each.
        if found := first_failure(folder, "torch", ["tests"]):
            sys.exit(f"Without any fault, this fails under PyTorch: {found}")

        def work(fault):
            folder = folders.get()
            try:
                result = look_for(fault, folder)
            finally:
                folders.put(folder)
            print(
                f"{result.seconds:5.0f} s  {fault.name}: {result.found_by or 'NOT FOUND'}",
                flush=True,
            )
            return result

        results = list(threads.map(work, faults))
    missed = [result.fault for result in results if not result.found_by]
    print(f"{len(results) - len(missed)} of {len(results)} faults found. Not found:")
    for fault in missed:
        print(f"- {fault.name}\n  {fault.old}\n  {fault.new}")
    return len(missed) > (1 - SHARE_TO_FIND) * len(results)


if __name__ == "__main__":
    sys.exit(main())
