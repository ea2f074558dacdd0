"""The memory that the conversion of a base model takes."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.once]

# Memory beyond that of a process that has converted a small model.
SCRIPT = """
import json, sys, time
import keras_transformer as kt

def memory(entry):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(entry)) * 1024

small, base, preset = sys.argv[1:]
kt.Translator.from_preset(kt.convert.marian(small)).save_to_preset(preset + ".small")
before, begin = memory("VmRSS"), time.perf_counter()
kt.Translator.from_preset(kt.convert.marian(base)).save_to_preset(preset)
seconds = time.perf_counter() - begin
print(json.dumps({"peak": memory("VmHWM") - before, "seconds": seconds}))
"""


# Of a mapped file of PyTorch's, the pages that were read count too, until the system wants them.
@pytest.mark.parametrize(("form", "most"), [("safetensors", 2.5), ("bin", 3.0)])
def test_memory_is_a_few_times_the_weights(form, most, tmp_path):
    pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")

    from tests.convert.hf_marian_folder import random_config, spm, vocabulary, write_folder

    names = vocabulary((spm(0), spm(1)), size=32000)
    base = {
        **{"d_model": 512, "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048},
        **{"encoder_layers": 6, "decoder_layers": 6, "activation_function": "swish"},
        **{"encoder_attention_heads": 8, "decoder_attention_heads": 8, "scale_embedding": True},
        **{"vocab_size": len(names), "max_position_embeddings": 512},
    }
    configs = {"small": random_config(1), "base": {**base, "vocabularies": [names]}}
    for name, config in configs.items():
        model = write_folder(tmp_path / name, **config)
        weights = tmp_path / name / "model.safetensors"
        size = weights.stat().st_size
        if form == "bin":
            torch.save(model.state_dict(), tmp_path / name / "pytorch_model.bin")
            weights.unlink()
    arguments = [str(tmp_path / name) for name in ("small", "base", "preset")]
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    print(f"{form}: {size / 1e6:.0f} MB of weights, {result['peak'] / size:.2f} times that, "
          f"{result['seconds']:.1f} s")  # fmt: skip
    assert result["peak"] <= most * size
