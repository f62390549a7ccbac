"""Endpoint files for tests."""

from pathlib import Path

# Without the rules that know languages: the service spells words backwards, which is no language.
CLEAN = "clean: {language: null, copies: null}"


def write(folder: Path, address: str, more: str = "") -> Path:
    """The file of an endpoint with these further lines."""
    path = folder / "teacher.yaml"
    lines = [f"endpoint: {address}", "model: tiny", "source_language: en", "target_language: de", CLEAN, more, ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
