"""M2M-100, SMaLL-100 and NLLB become models of nmt that are the same, with the subwords that some languages need."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.equivalence import TransformersModel, difference, random_lines
from helpers.many_languages import TEXT, many_languages_folder, sentencepiece_model
from helpers.runs import write_corpus
from typer.testing import CliRunner

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.cli import app
from nmt.commands.export import export
from nmt.commands.imports import import_model
from nmt.commands.init import InitRequest, init
from nmt.commands.train import train
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data.subwords import normalization, vocabulary
from nmt.data.subwords.sentencepiece_model import subwords
from nmt.errors import NmtError
from nmt.interop.m2m100 import subwords as m2m100_subwords
from nmt.interop.m2m100 import vocabulary as m2m100_vocabulary
from nmt.interop.m2m100.from_transformers import M2M100Importer
from nmt.interop.m2m100.subwords import Subwords
from nmt.interop.source import SourceSettings
from nmt.interop.subwords import tokenizer

pytest.importorskip("transformers")
IMPORTER = M2M100Importer()
LANGUAGES = {"m2m100": ["en", "de"], "small100": ["en", "de"], "nllb": ["en", "deu_Latn"]}
TAGS = {
    "m2m100": [("<en>",), ("<de>",)], "small100": [("<2de>",), ()], "nllb": [("<eng_Latn>",), ("<deu_Latn>",)],
}  # fmt: skip


@pytest.fixture(scope="module")
def m2m100_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return many_languages_folder(tmp_path_factory.mktemp("m2m100"))


@pytest.fixture(scope="module")
def imported(m2m100_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("imported") / "model.safetensors"
    import_model(str(m2m100_folder), file, ["en", "de"])
    return file


@pytest.mark.parametrize(("family", "kind", "changes"), [
    ("m2m100", "unigram", {"activation_function": "gelu", "encoder_layers": 1, "decoder_layers": 2}),
    ("small100", "bpe", {"activation_function": "silu"}),
    ("nllb", "bpe", {}),
])  # fmt: skip
def test_it_is_the_same_model(family: str, kind: str, changes: dict[str, Any], tmp_path: Path) -> None:
    folder, out = many_languages_folder(tmp_path / "theirs", family, kind, **changes), tmp_path / "model.safetensors"
    found = import_model(str(folder), out, LANGUAGES[family])
    assert found is not None and len(found.nmt_lines) > 15
    made = model_file.load(out)
    theirs = in_transformers(folder, LANGUAGES[family])
    assert difference(made, theirs, [*TEXT, *random_lines(made.vocabulary.source)]) < 1e-4
    assert_cut_alike(made, folder, theirs)
    pairs = made.config.data.language_pairs
    assert len(pairs.pairs) == 2 and [pairs.tags(pairs.pairs[0], side) for side in (0, 1)] == TAGS[family]
    license = "cc-by-nc-4.0" if family == "nllb" else "mit"
    assert made.provenance["license"] == license
    translator = nmt.load(out, "cpu")
    lines = ["the house and the garden", "das Wetter ist gut"]
    german = translator.translate(lines, to="de", from_="en")
    assert german != translator.translate(lines, to="en", from_="de")
    ours = nmt.load(out, "cpu", overrides=["decoding.engine=torch"])
    assert german == ours.translate(lines, to="de", from_="en")


@pytest.mark.parametrize("fault", [
    {"position_offset": 1}, {"decoder_start": "bos"}, {"norm_epsilon": 1e-2}, {"activation": "gelu"},
    {"positions": "interleaved"},
])  # fmt: skip
def test_another_model_would_be_noticed(m2m100_folder: Path, fault: dict[str, Any]) -> None:
    read = IMPORTER.read(m2m100_folder, "it", ["en", "de"])
    config = dataclasses.replace(read.config, model=dataclasses.replace(read.config.model, **fault))
    made = dataclasses.replace(read, config=config).checkpoint({})
    assert difference(made, in_transformers(m2m100_folder, ["en", "de"]), TEXT) > 1e-3


@pytest.mark.parametrize(("family", "kind"), [("m2m100", "unigram"), ("small100", "bpe"), ("nllb", "bpe")])
def test_translations_are_compared_with_those_of_transformers(family: str, kind: str, tmp_path: Path) -> None:
    """Both read and write the same tokens of languages. Subwords that are not kept are made improbable there."""
    folder = many_languages_folder(tmp_path / "theirs", family, kind)
    theirs = in_transformers(folder, LANGUAGES[family])
    left_out = torch.ones(theirs.model.config.vocab_size, dtype=torch.bool)
    left_out[[i for i in theirs.target_ids if i >= 0]] = False
    theirs.model.get_input_embeddings().weight.data[left_out] = 0
    theirs.model.save_pretrained(folder)
    found = import_model(str(folder), tmp_path / "model.safetensors", LANGUAGES[family])
    assert found is not None
    pairs = zip(found.nmt_lines, found.program_lines, strict=True)
    begins = [its.strip().startswith(our.strip()) for our, its in pairs]
    assert sum(begins) >= 0.8 * len(begins), str(found)  # of random weights some end at our longest length


def in_transformers(folder: Path, codes: Sequence[str]) -> TransformersModel:
    """With the subwords that are kept."""
    from transformers import M2M100ForConditionalGeneration

    config = SourceSettings("", json.loads((folder / "config.json").read_text()))
    _, rows, _ = m2m100_vocabulary.read(folder, m2m100_vocabulary.family_of(folder), config, codes, None)
    model = M2M100ForConditionalGeneration.from_pretrained(folder, local_files_only=True)
    return TransformersModel(model, rows.original_ids, rows.original_ids)


def assert_cut_alike(made: Checkpoint, folder: Path, theirs: TransformersModel) -> None:
    """Text becomes the ids that transformers' tokenizer gives, where all of these are kept."""
    import transformers

    known = made.config.data.language_pairs
    pair, family = known.pairs[0], m2m100_vocabulary.family_of(folder)
    kind = transformers.NllbTokenizer if family.is_nllb else transformers.M2M100Tokenizer
    tokenizer = kind.from_pretrained(folder, local_files_only=True)
    tokenizer.src_lang = pair.source if known.tagged == "sides" else pair.target
    tags, compared = made.vocabulary.source.tags(known.tags(pair)), 0
    lines = made.vocabulary.source.prepared(list(TEXT))
    for line, ids in zip(lines, made.vocabulary.source.encode(lines), strict=True):
        its = list(tokenizer(line.strip())["input_ids"][:-1])
        if set(its) <= {i for i in theirs.target_ids if i >= 0}:
            compared += 1
            assert [theirs.source_ids[i] for i in (*tags, *ids)] == its
    assert compared > 5


# --------------------------------------------------------------------------- the subwords that languages need


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("of_text", [False, True])
def test_text_is_cut_as_before(kind: str, of_text: bool) -> None:
    proto = sentencepiece_model(kind)
    known, codes = Subwords(proto), ["en", "de"]
    german = [line for line in TEXT if line.isascii()]
    kept = known.for_text(german, codes) if of_text else known.for_languages(codes)
    if kind == "unigram":  # the price of an unknown character follows from the lowest score
        assert min(subwords(proto)[3:], key=lambda each: each.score).piece in kept
    pieces = list(dict.fromkeys(["<pad>", "<unk>", "<s>", "</s>", *sorted(kept)]))
    made = tokenizer(proto, pieces, {}, "it")  # compares all lines of TEXT with its own pieces
    assert (len(made) < 300) == of_text
    whole = vocabulary.Tokenizer(  # all pieces, in the same order
        tokenizer(proto, [*pieces, *sorted(known.for_languages(["xx"]) - kept)], {}, "it").proto
    )
    same = 0
    for line in [*TEXT, *(" ".join(line.split()[::-1]) for line in TEXT)]:
        before = whole.pieces(whole.encode([line])[0])
        if kept.issuperset(before):
            same += 1
            assert made.pieces(made.encode([line])[0]) == before
    assert same >= (10 if of_text else 25)


def test_pieces_of_other_scripts_are_left_out_and_single_characters_stay() -> None:
    known, codes = Subwords(sentencepiece_model()), ["en", "de"]
    kept = known.for_languages(codes)
    assert {"▁the", "天", ".", "1"} <= kept and not any(len(piece) > 1 and "天" in piece[1:] for piece in kept)
    assert "天" not in known.for_text(["the"], codes) and "ß" in known.for_text(["the"], codes)
    cyrillic = known.for_languages(["ru"])
    assert any("погод" in piece for piece in cyrillic) and "▁the" not in cyrillic


def test_the_scripts_of_every_language_are_known() -> None:
    from transformers.models.m2m_100 import tokenization_m2m_100
    from transformers.models.nllb import tokenization_nllb

    codes = *tokenization_m2m_100.FAIRSEQ_LANGUAGE_CODES["m2m100"], *tokenization_nllb.FAIRSEQ_LANGUAGE_CODES
    assert not [code for code in codes if not m2m100_subwords.scripts_of(code)]


def test_only_what_a_text_uses_is_kept(m2m100_folder: Path, imported: Path, tmp_path: Path) -> None:
    text, out = tmp_path / "text", tmp_path / "model.safetensors"
    text.write_text("the house\ndas Haus\n", encoding="utf-8")
    found = import_model(str(m2m100_folder), out, ["en", "de"], [text])
    assert found is not None and len(found.nmt_lines) == 2
    small, large = model_file.load(out).vocabulary, model_file.load(imported).vocabulary
    assert len(small.target) < len(large.target) / 2
    assert small.source.pieces(small.source.encode(["das Haus"])[0]) == large.source.pieces(
        large.source.encode(["das Haus"])[0]
    )

    text.write_text("\n \n", encoding="utf-8")
    with pytest.raises(NmtError, match="has no text"):
        import_model(str(m2m100_folder), out, ["en", "de"], [text])


def test_a_language_that_was_added_is_there_beside_the_others(m2m100_folder: Path, tmp_path: Path) -> None:
    """Its token has an id in added_tokens.json. The others are listed, or known to transformers alone."""
    for path in m2m100_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    rows = json.loads((tmp_path / "config.json").read_text())["vocab_size"]
    known = token_ids(m2m100_folder, "en", "de")
    for special, added in ((None, {}), (["__gsw__"], {}), (["__gsw__"], {"__en__": known[0]})):
        (tmp_path / "added_tokens.json").write_text(json.dumps({"__gsw__": rows - 1, **added}))
        if special is not None:
            content = json.dumps({"additional_special_tokens": special})
            (tmp_path / "special_tokens_map.json").write_text(content)
        assert token_ids(tmp_path, "en", "de", "gsw") == [*known, rows - 1]
    read = IMPORTER.read(tmp_path, "it", ["en", "gsw", "de"])
    assert difference(read.checkpoint({}), in_transformers(tmp_path, ["en", "gsw", "de"]), TEXT) < 1e-4
    # A model that was cut to two languages has their tokens after the pieces: no other ones can be there.
    pieces = len(json.loads((tmp_path / "vocab.json").read_text(encoding="utf-8")))
    (tmp_path / "added_tokens.json").write_text(json.dumps({"__en__": pieces, "__de__": pieces + 1}))
    (tmp_path / "special_tokens_map.json").unlink()
    assert token_ids(tmp_path, "en", "de") == [pieces, pieces + 1]
    with pytest.raises(NmtError, match="--languages: fr: M2M-100 has 2 languages"):
        IMPORTER.read(tmp_path, "it", ["en", "fr"])


def token_ids(folder: Path, *codes: str) -> list[int]:
    """The ids that the tokens of languages have in a model."""
    config = SourceSettings("", json.loads((folder / "config.json").read_text()))
    vocabulary, rows, _ = m2m100_vocabulary.read(folder, m2m100_vocabulary._M2M100, config, codes, None)
    return [rows.original_ids[i] for i in vocabulary.source.tags([f"<{code}>" for code in codes])]


@pytest.mark.parametrize(("size", "expected"), [(6, {"en": 4, "de": 5, "xx": 2}), (5, {"xx": 2})])
def test_languages_that_are_only_listed_follow_the_pieces_where_the_matrix_has_rows(
    tmp_path: Path, size: int, expected: dict[str, int]
) -> None:
    (tmp_path / "special_tokens_map.json").write_text('{"additional_special_tokens": ["__en__", "__de__"]}')
    (tmp_path / "added_tokens.json").write_text('{"__xx__": 2}')
    ids = {piece: i for i, piece in enumerate("abcd")}
    found = m2m100_vocabulary._languages(tmp_path, m2m100_vocabulary._M2M100, ids, size)
    assert {code: i for code, (_, i) in found.items()} == expected


# --------------------------------------------------------------------------- after the import


def test_it_is_trained_further_for_one_pair_and_exported(imported: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, "train", 20, seed=1)
    settings = f"""
run_dir: {tmp_path}/run
data:
  source_language: en
  target_language: de
  train:
  - {{source: {tmp_path}/train.en, target: {tmp_path}/train.de}}
  - {{source: {tmp_path}/train.en, target: {tmp_path}/train.de, tag: <bt>}}
  language_tags: sides
vocabulary: {{shared: true}}
model:
  {{d_model: 32, feed_forward: 48, encoder_layers: 2, decoder_layers: 1, heads: 4, norm: pre, positions: concatenated,
    position_offset: 2, decoder_start: eos}}
training: {{start_from: {imported}, max_steps: 2, batch_tokens: 256, log_every: 1, warmup_steps: 1}}
"""
    files = f"source: {tmp_path}/train.en, target: {tmp_path}/train.de"
    reversed_too = f"data.train=[{{{files}}}, {{{files}, reversed: true}}]"
    with pytest.raises(NmtError, match=r"set data\.language_tags=sides"):
        train(reader.parse(Config, settings, "test config", [reversed_too, "data.language_tags=target"]), "cpu")
    train(reader.parse(Config, settings, "test config"), "cpu")
    [[found]] = nmt.load(tmp_path / "run", "cpu").hypotheses(["one two"], alignment=True)
    assert found.source_pieces is not None and found.source_pieces[0] == "<en>"
    trained = model_file.load(model_file.locate(tmp_path / "run")).vocabulary
    assert trained.source.every_piece() == [*model_file.load(imported).vocabulary.source.every_piece(), "<bt>"]
    if pytest.importorskip("ctranslate2"):
        found = export(tmp_path / "run", "ctranslate2", tmp_path / "folder", lines=TEXT[:5])
        assert found is not None and not found.different


# --------------------------------------------------------------------------- what is refused


def edited(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    path = folder / name
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(change(content)), encoding="utf-8")


def with_value(key: str, value: object) -> Callable[[Any], Any]:
    return lambda content: {**content, key: value}


@pytest.mark.parametrize(("name", "change", "said"), [
    ("config.json", with_value("scale_embedding", False), "scale_embedding: False: cannot be imported"),
    ("config.json", with_value("tie_word_embeddings", False), "tie_word_embeddings: False: cannot be imported"),
    ("config.json", with_value("activation_function", "tanh"), "activation_function: tanh: cannot be imported"),
    ("config.json", with_value("decoder_ffn_dim", 64), "decoder_ffn_dim: 64: cannot be imported"),
    ("config.json", with_value("decoder_start_token_id", 0), "decoder_start_token_id: 0: the id of </s> is 2"),
    ("config.json", with_value("eos_token_id", [2, 5]), r"eos_token_id: \[2, 5\]: a whole number is expected"),
    ("config.json", with_value("vocab_size", 700), "vocab_size: 700"),
    ("config.json", with_value("encoder_layers", 3), r"has no weight model\.encoder\.layers\.2"),
    ("config.json", with_value("encoder_layers", 1), r"weight model\.encoder\.layers\.1\S* does not exist"),
    ("vocab.json", lambda ids: [], "not a mapping of names to values"),
    ("vocab.json", with_value("<s>", 7), "its ids are not 0 to"),
    ("vocab.json", lambda ids: {f"{piece}_" if i < 4 else piece: i for piece, i in ids.items()}, "no subword <s>"),
    ("special_tokens_map.json", lambda _: {"additional_special_tokens": ["__en__"]}, "de: M2M-100 has 1 languages"),
    ("added_tokens.json", lambda content: {"__en__": 9, "__de__": 800}, "9 is the id of a subword and of the language"),
    ("added_tokens.json", lambda content: {"__en__": "x"}, "the id of __en__ is x: a whole number is expected"),
    ("added_tokens.json", lambda _: {"__en__": "9" * 5_000}, "the id of __en__ is .*: a whole number is expected"),
    ("added_tokens.json", lambda content: {"__en__": 10**6, "__de__": 800}, "__en__ has the id 1000000"),
    ("sentencepiece.bpe.model", None, "not a SentencePiece model"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_line(
    m2m100_folder: Path, tmp_path: Path, name: str, change: Callable[[Any], Any] | None, said: str
) -> None:
    for path in m2m100_folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if change is None:
        (tmp_path / name).write_bytes(b"\x0a\xff\xff")
    elif (tmp_path / name).exists():
        edited(tmp_path, name, change)
    else:
        (tmp_path / name).write_text(json.dumps(change({})), encoding="utf-8")
    with pytest.raises(NmtError, match=said) as refused:
        import_model(str(tmp_path), tmp_path / "out.safetensors", ["en", "de"])
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize(("wanted", "said"), [
    ([], "--languages: name at least two, such as --languages en,de: M2M-100 has 100"),
    (["en"], "name at least two"),
    (["en", "en-GB"], "name at least two"),
    (["en", "tlh"], "--languages: tlh: M2M-100 has 100 languages: tl, af, am, .*, zu; to teach a new"),
])  # fmt: skip
def test_languages_must_be_those_of_the_model(m2m100_folder: Path, wanted: list[str], said: str) -> None:
    with pytest.raises(NmtError, match=said):
        IMPORTER.read(m2m100_folder, "it", wanted)


def test_a_config_for_training_further_has_its_tokens_and_codes(tmp_path: Path) -> None:
    for family in ("small100", "nllb"):
        folder, file = many_languages_folder(tmp_path / family, family), tmp_path / f"{family}.safetensors"
        read = IMPORTER.read(folder, "it", ["en", "de"])
        model_file.save(file, read.checkpoint({}))
        write_corpus(tmp_path, "train", 20, seed=1)
        write_corpus(tmp_path, "validation", 2, seed=2)
        config = tmp_path / f"{family}.yaml"
        texts, held_out = (
            [tuple(tmp_path / f"{name}.{code}" for code in ("en", "de"))] for name in ("train", "validation")
        )
        init(InitRequest(config, "en", "de", texts, held_out, start_from=file))
        overrides = ["training.max_steps=1", f"run_dir={tmp_path / family}/run", "training.batch_tokens=128"]
        settings = reader.parse(Config, config.read_text(encoding="utf-8"), "it", overrides)
        train(settings, "cpu")
        trained = model_file.load(model_file.locate(tmp_path / family / "run")).config.data.language_pairs
        of_model = read.config.data.language_pairs
        assert trained.tags(trained.pairs[0]) == of_model.tags(of_model.pairs[0])
        if family == "nllb":
            with pytest.raises(NmtError, match="uses the language code eng_Latn for en"):
                other = [*overrides, "data.source_language=en", f"run_dir={tmp_path}/other"]
                train(reader.parse(Config, config.read_text(encoding="utf-8"), "it", other), "cpu")


def test_a_folder_with_tokenizer_json_alone(tmp_path: Path) -> None:
    folder = many_languages_folder(tmp_path, "nllb")
    command = ["import", str(folder), "--languages", "en,de", "--output", str(tmp_path / "my.safetensors")]
    assert f"next: nmt init my.yaml --start-from {command[-1]}, or" in CliRunner().invoke(app.app, command).stderr
    with pytest.raises(NmtError, match=r"--languages: zh: NLLB has 202 languages: zho_Hans, zho_Hant, ace"):
        IMPORTER.read(folder, "it", ["en", "zh"])
    first = IMPORTER.read(folder, "it", ["en", "de"])
    (folder / "sentencepiece.bpe.model").unlink()  # as transformers 5 stores it
    second = IMPORTER.read(folder, "it", ["en", "de"])
    assert difference(second.checkpoint({}), in_transformers(folder, ["en", "de"]), TEXT) < 1e-4
    assert first.vocabulary.target.every_piece() == second.vocabulary.target.every_piece()
    lines = list(map(normalization.nfc, TEXT))
    assert first.vocabulary.source.encode(lines) == second.vocabulary.source.encode(lines)
    edited(folder, "tokenizer.json", with_value("normalizer", None))
    with pytest.raises(NmtError, match=r"not a byte-pair encoding .*: give a folder that also has sentencepiece"):
        IMPORTER.read(folder, "it", ["en", "de"])
