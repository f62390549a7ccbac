"""What a run is recorded to run on: models and versions, and not the machine's name."""

import json
import platform
from pathlib import Path

import torch

import nmt
from nmt.distributed.ranks import Ranks
from nmt.training.environment import environment, processor


def test_the_environment_names_models_and_versions_and_no_host() -> None:
    facts = environment(torch.device("cpu"), Ranks())
    assert (facts["nmt"], facts["torch"]) == (nmt.__version__, torch.__version__)
    assert facts["python"] == platform.python_version()
    assert facts["cores"] >= 1 and facts["ranks"] == 1 and facts["processor"]
    assert json.loads(json.dumps(facts)) == facts
    assert platform.node() not in facts.values()


def test_processors(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: A Processor: 2 GHz\nmodel name\t: A Processor: 2 GHz\n")
    assert processor(cpuinfo) == "A Processor: 2 GHz"
    assert processor(tmp_path / "none") == (platform.processor() or platform.machine())
