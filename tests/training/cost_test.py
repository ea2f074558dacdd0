import pytest

from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import TRAINING_ONLY, get_variant, scaled
from keras_transformer.training.cost import training_flops

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("name", "decoder_layers"),
    [("base", None), ("key_dim_16", None), ("heads_16", None), ("layers_2", None), ("base", 2)],
)
def test_counts_every_kernel_once_a_token_and_the_heads_products(name, decoder_layers):
    hyperparameters = scaled(get_variant(name), 1 / 16)
    hyperparameters["num_decoder_layers"] = decoder_layers
    sizes = {k: v for k, v in hyperparameters.items() if k not in TRAINING_ONLY}
    model = Transformer(50, **sizes)
    source, target = 7, 5
    expected = model.config.hidden_dim * 50 * target  # logits
    for weight in model.weights:
        if weight.name != "kernel":
            continue
        is_of_source = "encoder" in weight.path.split("decoder")[0] or (
            "cross" in weight.path and ("key" in weight.path or "value" in weight.path)
        )
        size = 1
        for side in weight.shape:
            size *= side
        expected += size * (source if is_of_source else target)
    heads = model.config.num_heads
    key_dim = hyperparameters["key_dim"] or hyperparameters["hidden_dim"] // heads
    value_dim = hyperparameters["value_dim"] or key_dim
    num_layers = hyperparameters["num_layers"]
    pairs = num_layers * source * source
    pairs += (decoder_layers or num_layers) * (target * target + target * source)
    expected += pairs * heads * (key_dim + value_dim)
    counted = training_flops(hyperparameters, 50, [source], [target])
    assert counted == pytest.approx(6 * expected)


def test_base_costs_about_the_operations_of_table_2():
    # Table 2: 3.3e18 for base's 100,000 steps of 25,000 + 25,000 tokens, had its GPUs never waited.
    steps = 100_000
    pairs = 25_000 // 25
    of_a_step = training_flops(get_variant("base"), 37_000, [25] * pairs, [25] * pairs)
    assert 0.2 < steps * of_a_step / 3.3e18 < 1.0


def test_pairs_add_up():
    hyperparameters = get_variant("tiny")
    one = training_flops(hyperparameters, 100, [3], [4])
    other = training_flops(hyperparameters, 100, [8], [2])
    assert training_flops(hyperparameters, 100, [3, 8], [4, 2]) == pytest.approx(one + other)
