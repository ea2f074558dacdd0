"""The languages of requests: their codes, their names, and the detection of a text's language."""

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from keras_transformer.data.language_selection import matching_language, select
from keras_transformer.server import directions as directions_module
from keras_transformer.server.directions import Directions, LanguageDetector, language_names
from tests.helpers import error_of
from tests.server.running import copying_translator, post, running, translation

pytestmark = pytest.mark.once

NLLB = (
    "ajp_Arab als_Latn arb_Arab arb_Latn ary_Arab azj_Latn deu_Latn eng_Latn gaz_Latn khk_Cyrl "
    "lij_Latn ltg_Latn lvs_Latn nob_Latn pes_Arab plt_Latn quy_Latn tgl_Latn uzn_Latn yue_Hant "
    "zho_Hans zho_Hant zsm_Latn"
).split()


@pytest.fixture(scope="module")
def port():
    with running(copying_translator()) as port:
        yield port


@pytest.mark.parametrize(
    ("code", "codes", "found"),
    [
        ("EN", ["en", "de"], "en"),
        ("en-US", ["en", "de"], "en"),
        ("de_DE", ["en", "de"], "de"),
        ("eng", ["en", "de"], "en"),
        ("en", NLLB, "eng_Latn"),
        ("lv", NLLB, "lvs_Latn"),
        ("zh-TW", NLLB, "zho_Hant"),
        ("zh-hans", NLLB, "zho_Hans"),
        ("pt-br", ["pt", "pt_BR"], "pt_BR"),
        ("pt", ["pt", "pt_BR"], "pt"),
        ("zh", NLLB, None),  # two scripts
        ("fr", ["en", "de"], None),
        ("", ["en"], None),
    ],
)
def test_a_code_must_match_exactly_one_language(code, codes, found):
    assert matching_language(code, codes) == found


def test_python_accepts_the_codes_that_the_server_accepts():
    translator = copying_translator()
    assert translator.in_languages("EN-us", "de_DE").metadata["target"] == "de"
    assert "target_lang=['de', 'fr']" in error_of(translator.in_languages, None, ["de", "fr"])
    tokens = {"language_tokens": {"target_lang": ["source_prefix", {"fra_Latn": "dog"}]}}
    _, metadata = select(translator.preprocessor, tokens, target_lang="fr")
    assert metadata["target"] == "fra_Latn"


@pytest.mark.parametrize("codes", [("EN", "de"), ("en-US", "de_DE"), ("eng", "DEU")])
def test_requests_may_spell_codes_differently(port, codes):
    source, target = codes
    assert translation(port, "the dog", source=source, target=target)["translatedText"] == "the dog"


@pytest.mark.parametrize("text", ["", "OK", "Hotel", "Berlin", "!!!", "😀", "—", "2026", ["", ""]])
def test_a_text_of_doubtful_language_is_translated(port, text):
    answer = translation(port, text, source="auto")
    assert isinstance(answer["translatedText"], type(text))
    detected = answer["detectedLanguage"]
    assert (detected[0] if isinstance(text, list) else detected)["language"] == "en"


def test_a_text_in_the_target_language_comes_back_with_a_warning(port):
    text = "Das ist ein kleiner Hund, und er schläft nicht."
    for source in ("auto", "de"):
        answer = translation(port, text, source=source, warnings=True, alternatives=1)
        assert answer["translatedText"] == text and answer["alternatives"] == []
        assert "already in the language" in answer["warnings"][0]
    # English words and German ones: something is to be translated.
    mixed = translation(port, "A dog runs fast. Ein Hund rennt schnell.", source="auto")
    assert mixed["detectedLanguage"]["language"] == "en"


def test_only_source_languages_are_detected():
    directions = Directions(copying_translator())
    directions.targets = {"en": ["de"], "fr": ["de"]}
    text = "Le chien dort dans la maison de ses parents."
    assert directions.source_of(text, "de")[:1] == ("fr",)
    directions.targets = {"en": ["de"], "fr": ["en"]}
    assert directions.source_of(text, "de")[:1] == ("en",)


def test_all_directions_of_a_model_share_one_detector(monkeypatch):
    made = []

    def detector(codes):
        made.append(codes)
        return lambda text: []

    monkeypatch.setattr(directions_module, "LanguageDetector", detector)
    directions = Directions(copying_translator())
    codes = ["en", "de", "fr"]
    directions.targets = {code: [x for x in codes if x != code] for code in codes}
    for code in codes:
        directions.source_of("a text", code)
    assert len(made) == 1


def test_a_detector_knows_the_languages_of_nllb_by_their_own_codes():
    detector = LanguageDetector(NLLB)
    for text, code in {
        "这是一个测试": "zho_Hans",
        "Kjo është një provë e vogël.": "als_Latn",
        "Bu kichik sinov, yaxshi kun.": "uzn_Latn",
        "Ity dia fitsapana kely.": "plt_Latn",
        "هذا اختبار صغير": "arb_Arab",
        "Šis ir neliels tests par valodu.": "lvs_Latn",
    }.items():
        assert detector(text)[0].language == code
    assert detector("123") == []


def test_language_names_are_unique_and_old_codes_have_names():
    names = language_names(NLLB)
    assert len({*names.values()}) == len(names)
    assert names["ajp_Arab"] == "Levantine Arabic" and names["zho_Hant"] == "Chinese (zho_Hant)"
    old = ("sh", "iw", "in", "ji", "mo", "jw", "bh")
    assert language_names(old)["iw"] == "Hebrew"


def test_all_languages_of_nllb_are_listed_and_detected():
    translator = copying_translator()
    languages = {code: "dog" for code in NLLB}
    translator.metadata = {
        "language_tokens": {
            "source_lang": ["source_prefix", languages],
            "target_lang": ["target_prefix", languages],
        }
    }
    with running(translator) as port:
        status, found, _ = post(port, "/detect", {"q": "这是一个测试"})
        assert (status, found[0]["language"]) == (200, "zho_Hans")
