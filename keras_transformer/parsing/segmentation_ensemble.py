"""Several segmentations of each sentence, searched apart and taken together (Kudo, 2018)."""

import itertools

import numpy as np
from keras import ops

from keras_transformer.validation import positive_integer

# Of Provilkov et al. (2020), and with a unigram vocabulary α of Kudo (2018).
_STRENGTH = 0.1


class Segmentations:
    """The usual segmentation of each sentence, and others that are drawn.

    A model that was trained on segmentations that were drawn (`subword_sampling`) reads a
    sentence in any of them, and what misleads it in one does not in another. Of n of them, s_1 to
    s_n, an output y has the probability

    ```
    P(y | x) = 1/n Σ_i P(y | s_i)
    ```

    where P(y | s_i) is taken for 0 if the search in s_i does not find y. The segmentations of a
    sentence depend on it alone, not on its neighbours.

    Args:
        number: n, the usual segmentation included.
        tokenizer: what makes the usual one, a `Tokenizer` or a `WordTokenizer`.

    Raises:
        UserError: if `number` is no positive integer.
    """

    def __init__(self, number, tokenizer):
        self.number = positive_integer("num_segmentations", number)
        self._sampler = tokenizer.sampler(_STRENGTH) if self.number > 1 else None

    def repeated(self, sentences):
        """What is to be searched: a list of pairs (sentence, index of a segmentation)."""
        return list(itertools.product(sentences, range(self.number)))

    def of(self, token_ids, limit=None):
        """All segmentations of a sentence, a list of lists of ids: the usual one is the first.

        Args:
            token_ids: the ids of the usual one.
            limit: the most ids that may be searched: in place of one of more, the usual one is.
        """
        drawn = [self._sampler([token_ids], seed)[0] for seed in range(1, self.number)]
        fits = [limit is None or len(ids) <= limit for ids in drawn]
        return [token_ids, *(ids if fit else token_ids for ids, fit in zip(drawn, fits))]

    def together(self, results, search):
        """What was found for each sentence in all of its segmentations.

        Args:
            results: list of pairs (one of `repeated`, its outputs), in the same order. The outputs
                are a list of pairs (ids, score), or None where nothing was searched.
            search: the `Search`, which says how scores become of log-probabilities.

        Yields:
            Pairs (sentence, outputs): each output once, with the score of P(y | x), the best first;
            or None.
        """
        for group in zip(*[iter(results)] * self.number):
            (sentence, _), outputs = group[0]
            if self.number > 1 and outputs is not None:
                outputs = _mixed([outputs for _, outputs in group], search)
            yield sentence, outputs


def log_probabilities(outputs, search):
    """Of outputs, not without any: their scores without the penalty of their lengths.

    Args:
        outputs: list of pairs (ids, score).
        search: the `Search` that gave them the scores.

    Returns:
        Float array.
    """
    token_ids, scores = zip(*outputs)
    return np.array(scores) / _factors(token_ids, search)


def _factors(token_ids, search):
    """What log-probabilities are multiplied by."""
    # A penalty of coverage stays in them: it is unknown here.
    lengths = ops.convert_to_tensor([np.count_nonzero(ids) for ids in token_ids], "int32")
    return ops.convert_to_numpy(search.penalised(ops.ones(len(token_ids)), lengths))


def _mixed(outputs_of_each, search):
    found = {}
    for outputs in filter(None, outputs_of_each):
        # Of samples several may be the same.
        different = {tuple(ids[ids != 0].tolist()): (ids, score) for ids, score in outputs}
        totals = log_probabilities(list(different.values()), search)
        for (key, (ids, _)), log_probability in zip(different.items(), totals):
            known = found.get(key, (ids, -np.inf))[1]
            found[key] = ids, np.logaddexp(known, log_probability)
    if not found:
        return []
    token_ids, totals = zip(*found.values())
    scores = (np.array(totals) - np.log(len(outputs_of_each))) * _factors(token_ids, search)
    return sorted(zip(token_ids, scores.tolist()), key=lambda output: -output[1])
