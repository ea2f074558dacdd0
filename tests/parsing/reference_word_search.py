"""What `WordSynchronousBeamSearch` is held against: the same search in plain Python, sentence by
sentence, with hypotheses as a dict of their tokens, and without stopping before all have ended.
"""

import math

START, END = 1, 2


def reference_word_search(
    predict,
    source,
    may_follow,
    word_ids,
    limit,
    beam_size,
    action_beam_size,
    fast_track,
    alpha=0.0,
    num_results=1,
):
    """Search for one sentence.

    Args:
        predict: a `NumpyTransformer`.
        source: token ids without padding.
        may_follow: function of a tuple of tokens; returns which may come next.
        word_ids: the tokens that consume a word.
        limit: the most tokens of an output.
        (others): those of the search.

    Returns:
        The pair of a list of (tokens, score), the best first, and of the smallest difference that
        decided anything: below some 1e-5, float32 may decide otherwise.
    """
    finished, gaps = {}, [math.inf]

    def best(hypotheses, count):
        """The best of a dict; of equal ones the first, because sorting is stable."""
        ranked = sorted(hypotheses.items(), key=lambda pair: -pair[1])
        if count < len(ranked):
            gaps.append(ranked[max(count, 1) - 1][1] - ranked[count][1] or math.inf)
        return dict(ranked[:count])

    def passes(tokens):
        return tokens[-1] == END or tokens[-1] in word_ids

    waiting = {(): 0.0}
    while waiting:
        live, waiting = waiting, {}
        while live and not is_overtaken(live, waiting, beam_size, gaps):
            successors = successors_of(predict, source, live, may_follow)
            fast = best({y: p for y, p in successors.items() if passes(y)}, fast_track)
            rest = {y: p for y, p in successors.items() if y not in fast}
            kept = {**fast, **best(rest, action_beam_size)}
            live = {}
            for tokens, score in kept.items():
                if tokens[-1] == END or len(tokens) == limit:
                    finished[tokens] = score / ((5 + len(tokens)) / 6) ** alpha
                elif passes(tokens):
                    waiting[tokens] = score
                else:
                    live[tokens] = score
            live = dict(sorted(live.items(), key=lambda pair: -pair[1]))
            waiting = best(waiting, beam_size)
    return list(best(finished, num_results).items()), min(gaps)


def is_overtaken(live, waiting, beam_size, gaps):
    """Whether none that lives can come among those that wait."""
    if len(waiting) < beam_size:
        return False
    difference = max(live.values()) - min(waiting.values())
    gaps.append(abs(difference) or math.inf)
    return difference <= 0


def successors_of(predict, source, live, may_follow):
    """Each live hypothesis with each token that may follow, in the order of rank, then of id."""
    longest = max(map(len, live)) + 1
    # What stands behind a hypothesis, none of its own positions sees.
    targets = [[START, *tokens, *[START] * (longest - 1 - len(tokens))] for tokens in live]
    log_probabilities, _ = predict(source, targets)
    return {
        (*tokens, token): score + log_probabilities[row, len(tokens), token]
        for row, (tokens, score) in enumerate(live.items())
        for token in sorted(may_follow(tokens))
    }


def tree_rules(opening_ids, closing_ids, leaf_ids, num_words, limit, max_depth, max_openings):
    """Which symbols may come next in a tree: the `may_follow` of a `TreeGrammar`."""

    def may_follow(tokens):
        stack, words_left, openings = [], num_words, 0
        for token in tokens:
            openings = openings + 1 if token in opening_ids else 0
            if token in opening_ids:
                stack.append(token)
            elif token in closing_ids:
                stack.pop()
            else:
                words_left -= 1
        if not stack and not words_left:
            return {END}
        allowed = set()
        has_room = 2 + words_left + len(stack) + 1 <= limit - len(tokens)
        if words_left and len(stack) < max_depth and openings < max_openings and has_room:
            allowed |= {*opening_ids}
        if words_left == 1 or (words_left and stack):
            allowed |= {*leaf_ids}
        if stack and not openings and (len(stack) > 1 or not words_left):
            allowed.add(closing_ids[opening_ids.index(stack[-1])])
        return allowed

    return may_follow
