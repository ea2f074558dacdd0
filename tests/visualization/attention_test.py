"""Attention weights: those that the model used, with its tokens; and pictures of them."""

import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.visualization import alignment, attention_svg
from tests.decoding.reference_search import NumpyTransformer
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, normal, randomize, to_numpy
from tests.parsing.small_trees import new_parser, trees
from tests.small_corpus import new_model, tokenizer

SOURCE, TARGET = [7, 9, 5, 11, 6, 2], [8, 5, 10, 2]
SIZES = {"num_layers": 2, "hidden_dim": 16, "intermediate_dim": 8, "num_heads": 2}


def model_of(**options):
    return randomize(kt.Transformer(20, **{**SIZES, **options}), seed=3)


def numpy_weights(model, source, target):
    """The weights by the paper's formulas, in float64: a list of layers each."""
    numpy = NumpyTransformer(model)
    found = {"encoder": [], "decoder": [], "cross": []}
    window, positions = model.config.attention_window, np.arange(len(source))
    reach = len(source) if window is None else window // 2
    is_near = np.abs(positions[:, None] - positions) <= reach
    memory = numpy._embed(numpy.encoder, np.array([source]))
    for layer in numpy.encoder.layers:
        memory, weights = numpy._attention_sublayer(layer, "self_attention", memory, None, is_near)
        memory = numpy._feed_forward_sublayer(layer, memory)
        found["encoder"].append(weights[0])
    memory = numpy._norm(numpy.encoder.layer_norm, memory)
    x = numpy._embed(numpy.decoder, np.array([[1, *target[:-1]]]))
    no_later = np.tril(np.ones((len(target), len(target)), bool))
    for layer in numpy.decoder.layers:
        x, own = numpy._attention_sublayer(layer, "self_attention", x, None, no_later)
        x, cross = numpy._attention_sublayer(layer, "cross_attention", x, memory, True)
        x = numpy._feed_forward_sublayer(layer, x)
        found["decoder"].append(own[0])
        found["cross"].append(cross[0])
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"normalize_first": True, "attention_window": 3, "num_decoder_layers": 1},
        {},
        {"use_bias": True, "value_dim": 3},
    ],
)
def test_weights_follow_the_paper_s_formulas(options):
    model = model_of(**options)
    attention = kt.visualization.attention_weights(model, SOURCE, TARGET)
    for kind, expected in numpy_weights(model, SOURCE, TARGET).items():
        weights = getattr(attention, kind)
        assert_close(weights, np.array(expected))
        assert_close(weights.sum(axis=-1), np.ones(weights.shape[:-1]))
    assert (attention.decoder[..., ~np.tril(np.ones((4, 4), bool))] == 0).all()
    if "attention_window" in options:
        far = np.abs(np.arange(6)[:, None] - np.arange(6)) > 1
        assert (attention.encoder[..., far] == 0).all()
    assert attention.source_tokens == ["7", "9", "5", "11", "6", "</s>"]
    assert attention.target_tokens == ["8", "5", "10", "</s>"]
    assert attention.input_tokens == ["<s>", "8", "5", "10"]


def test_padding_gets_no_attention():
    model = model_of()
    alone = kt.visualization.attention_weights(model, SOURCE, TARGET)
    padded = kt.visualization.attention_weights(model, [*SOURCE, 0, 0], TARGET)
    assert (padded.cross[..., 6:] == 0).all() and (padded.encoder[..., 6:] == 0).all()
    assert_close(padded.cross[..., :6], alone.cross)
    assert padded.source_tokens[-1] == "<pad>"


@pytest.mark.parametrize("options", [{}, {"attention_window": 5}])
def test_weights_give_the_outputs_of_the_layers(options):
    source = list(range(3, 20)) * 2  # longer than a block of a window
    model = model_of(**options)
    attention = kt.visualization.attention_weights(model, source, TARGET)
    layer, ids = model.encoder.layers[0].self_attention, np.array([source])
    inputs = model.encoder.embed(ids)
    _, value = layer.project(inputs)
    heads = attention.encoder[0] @ to_numpy(value)[0]  # (heads, source, value_dim)
    merged = np.moveaxis(heads, 0, 1).reshape(1, len(source), -1)
    mask = np.ones((1, 1, len(source)), bool)
    assert_close(layer.output_dense(merged), layer(inputs, attention_mask=mask))


def test_without_a_target_the_weights_are_of_a_greedy_search():
    model = model_of()
    greedy = kt.visualization.attention_weights(model, SOURCE)
    ids, _ = greedy_search(model, [SOURCE])
    assert greedy.cross.shape[2] == (to_numpy(ids) != 0).sum()


@pytest.mark.slow
def test_weights_of_a_quantized_model_are_close():
    model = model_of(num_layers=1)
    expected = kt.visualization.attention_weights(model, SOURCE, TARGET).cross
    model.quantize("int8")
    weights = kt.visualization.attention_weights(model, SOURCE, TARGET).cross
    assert_close(weights.sum(axis=-1), np.ones((1, 2, 4)))
    assert 0 < np.abs(weights - expected).max() < 0.1


def test_attention_of_sentences_is_over_the_tokens_of_the_translator():
    translator = kt.Translator(new_model(), tokenizer(), extra_length=3, target_prefix=["▁dog"])
    attention = kt.visualization.attention_weights(translator, "the cat runs", "a dog")
    assert attention.source_tokens[-1] == attention.target_tokens[-1] == "</s>"
    assert "".join(attention.source_tokens[:-1]).replace("▁", "") == "thecatruns"
    target = "".join(attention.target_tokens[:-1]).replace("▁", "")
    assert target == "dogadog"  # after the prefix
    (translation,) = translator(["the cat runs"])
    found = kt.visualization.attention_weights(translator, "the cat runs")
    again = kt.visualization.attention_weights(translator, "the cat runs", translation)
    if found.target_tokens == again.target_tokens:  # else the search found another segmentation
        assert_close(found.cross, again.cross)
    source, (ids, _) = translator.search_sentence("the cat runs")
    ids = to_numpy(ids)[0, 0]
    assert found.cross.shape[2:] == ((ids != 0).sum(), len(source))


def test_attention_of_a_parser_is_over_the_symbols_of_its_tree():
    parser, tree = new_parser(counts_words=True), trees()[0]
    attention = kt.visualization.attention_weights(parser, tree.leaves(), tree)
    _, symbols = parser.symbols.linearization.linearize(tree)
    assert attention.target_tokens == [*symbols, "</s>"]
    found = kt.visualization.attention_weights(parser, " ".join(tree.leaves()[:3]))
    assert_close(found.cross.sum(-1), np.ones(found.cross.shape[:-1]))


@pytest.mark.once
@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a string", None, "`source` must be an array of 32-bit integers"),
        ([[5, 6, 2]], None, "`source` must be the ids of one sentence"),
        ([], None, "not all of them padding"),
        ([5, 99, 2], None, "from 0 to 19"),
        ([5, 2], [-1], "`target` must be the ids of one sentence, from 0 to 19"),
    ],
)
def test_wrong_ids_are_refused(source, target, message):
    with pytest.raises(kt.UserError, match=message):
        kt.visualization.attention_weights(model_of(num_layers=1), source, target)


@pytest.mark.once
def test_wrong_sentences_are_refused():
    translator = kt.Translator(new_model(), tokenizer(), extra_length=3)
    for sentence, message in ((["the dog"], "must be a string"), (" ", "must have a token")):
        with pytest.raises(kt.UserError, match=message):
            kt.visualization.attention_weights(translator, sentence)


# Pictures


def made_up(queries=3, keys=4):
    """An `Attention` of random weights, 2 layers and 3 heads."""
    weights = {
        "encoder": normal(2, 3, keys, keys),
        "decoder": normal(2, 3, queries, queries, seed=1),
        "cross": normal(2, 3, queries, keys, seed=2),
    }
    weights = {kind: np.exp(x) / np.exp(x).sum(-1, keepdims=True) for kind, x in weights.items()}
    source, target = ["the", "$dog$", "runs", "</s>"][:keys], ["Hund", "läuft", "</s>"][:queries]
    return kt.visualization.Attention(source, target, ["<s>", *target[:-1]], **weights)


def drawn(attention, *args):
    """The lines, boxes and texts of a picture: (start, end, opacity), (place, opacity), text."""
    root = ElementTree.fromstring(attention_svg(attention, *args))

    def elements(name):
        return [x for x in root.iter() if x.tag == f"{{http://www.w3.org/2000/svg}}{name}"]

    rows = {float(x.get("y")) - 5: x.text for x in elements("text")}
    lines = [
        (rows[float(x.get("y1"))], rows[float(x.get("y2"))],
         float(re.search(r"opacity:([\d.]+)", x.get("style"))[1]))
        for x in elements("line")
    ]  # fmt: skip
    boxes = [float(x.get("fill-opacity")) for x in elements("rect") if x.get("fill-opacity")]
    return lines, boxes, [x.text for x in elements("text")]


@pytest.mark.once
def test_lines_and_boxes_of_a_picture_are_as_strong_as_the_weights():
    attention = made_up(queries=3, keys=3)
    attention.target_tokens[:] = attention.source_tokens  # one name per row
    lines, boxes, texts = drawn(attention, "cross", 0, [2, 0], ["the", 1])
    expected = attention.cross[0, [2, 0], :2]
    names = attention.source_tokens
    assert lines == [
        (names[i], names[j], pytest.approx(expected[head, i, j], abs=5e-4))
        for head, i, j in np.argwhere(expected >= 0.01)  # fainter ones are left out
    ]
    # The boxes next to the keys hold the largest weight of the chosen words per head.
    assert_close(boxes[:6], expected.max(axis=1).T.ravel(), atol=5e-4)
    assert texts == ["Encoder-decoder attention, layer 0", *names, *names, "head 2", "head 0"]
    every, boxes, _ = drawn(attention, "cross")
    assert len(every) == (attention.cross[-1] >= 0.01).sum() and boxes == [
        1,
        1,
        1,
    ]  # the legend alone


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "all"}, "`kind` must be one of encoder, decoder, cross"),
        ({"layer": 2}, "`layer` must be from 0 to 1"),
        ({"heads": [0, 3]}, "`heads` must be from 0 to 2"),
        ({"heads": []}, "`heads` must be from 0 to 2"),
        ({"words": ["cat"]}, "`words` must be among the tokens"),
    ],
)
def test_wrong_options_of_a_picture_are_refused(options, message):
    with pytest.raises(kt.UserError, match=message):
        attention_svg(made_up(), **options)


@pytest.mark.once
def test_alignment_is_the_largest_mean_weight():
    attention = made_up()
    table = alignment(attention, layer=1, heads=[0, 2])
    means = attention.cross[1, [0, 2]].mean(axis=0)
    places = means.argmax(axis=1).tolist()
    for (target, source, weight), place, row in zip(table.rows, places, means, strict=True):
        assert source == attention.source_tokens[place] and weight == pytest.approx(row.max())
        assert f"{target:>5}  {weight:.2f}  {source}" in str(table)
    assert table._repr_html_().count("<tr>") == 4 and "&lt;/s&gt;" in table._repr_html_()


@pytest.mark.once
def test_a_page_holds_the_weights_and_needs_nothing_else(tmp_path):
    attention = made_up()
    attention.source_tokens[1] = "</script>"
    attention.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    kinds = json.loads(data)["kinds"]
    assert kinds["cross"]["keys"] == attention.source_tokens
    for kind, values in kinds.items():
        assert_close(np.array(values["weights"]) / 1000, getattr(attention, kind), atol=5.1e-4)
    addresses = set(re.findall(r"https?://[^\"' ]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, and no address
    assert not re.search(r"<link|\bsrc=|@import|url\(", page)
    assert attention._repr_html_().startswith("<iframe srcdoc=")
