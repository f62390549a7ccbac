"""A teacher and a real service: `transformers serve` with a tiny random chat model."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.commands import messages
from typer.testing import CliRunner

from nmt.cli import app

SECONDS = 300  # of the test: both programs first import PyTorch
LINES = ["A dog runs.", "Two cats sleep in the garden.", "", "I have 3 apples.", "A dog runs."]
SERVE = "from transformers.cli.transformers import app; app()"  # its `main` looks for a newer version on the network
TEMPLATE = (
    "<s>{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def save_chat_model(folder: Path) -> None:
    """A Llama of 7,000 weights whose vocabulary are bytes."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<s>", "</s>"]
    vocabulary = {piece: i for i, piece in enumerate([*special, *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(special)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=512, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


@contextmanager
def transformers_serve(model: Path, folder: Path) -> Iterator[str]:
    """The address of a service on a free port, which is killed at the end."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    options = ["--device", "cpu", "--host", "127.0.0.1", "--port", "0"]
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, "serve", str(model), *options],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    try:
        assert process.stderr
        said = list[str]()
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"Uvicorn running on (http://\S+)", line):
                break
        else:
            raise AssertionError("".join(said))
        yield f"{found[1]}/v1"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.thorough
@pytest.mark.usefixtures("time_limit")
def test_lines_are_translated_by_transformers_serve(tmp_path: Path) -> None:
    """What a random model answers is mostly no translation. Each line keeps its place all the same."""
    model, config, source = tmp_path / "model", tmp_path / "teacher.yaml", tmp_path / "in.en"
    save_chat_model(model)
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")

    def translate(more: str, output: str, name: str = str(model)) -> tuple[list[str], str]:
        config.write_text(
            f"endpoint: {address}\nmodel: {name}\nsource_language: en\ntarget_language: de\nrequests: 2\nretries: 1\n"
            f"parameters: {{max_tokens: 12}}\n{more}",
            encoding="utf-8",
        )
        path = tmp_path / output
        done = CliRunner().invoke(app.app, ["translate", str(config), str(source), "--output", str(path)])
        return path.read_text("utf-8").split("\n") if path.exists() else [], messages(done.stderr)

    with transformers_serve(model, tmp_path) as address:
        lines, said = translate("", "out.de")
        assert len(lines) == 6 and lines[2] == lines[5] == ""
        _, *rejected = (tmp_path / "out.de.rejected.tsv").read_text("utf-8").split("\n")[:-1]
        assert len(rejected) == sum(not translation for translation in lines[:5]) - 1 > 0
        used = re.search(r"used: (\d+) requests, (\d+) tokens of requests and (\d+) of answers", said)
        assert used is not None, said
        requests, asked, answered = map(int, used.groups())
        assert 3 <= requests <= 6, "two requests for each different line at most"
        assert asked > 80 * requests and 0 < answered <= 12 * requests
        kept, _ = translate("rejected: keep\n", "kept.de")
        assert len(kept) == 6 and kept[2] == kept[5] == ""
        assert sum(map(bool, kept)) > sum(map(bool, lines))
        none, said = translate("", "none.de", "no/such-model")
        assert none == [] and re.search(r"\nerror: .*no/such-model.*\n\Z", said), said
