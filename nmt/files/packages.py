"""Packages that only some commands need: whether they are installed, and the command that installs them."""

from importlib.util import find_spec

_DISTRIBUTION = "nmt-toolkit"  # in pyproject.toml; on the package index, `nmt` is another project


def install_command(extra: str) -> str:
    """The command that installs an extra of pyproject.toml, for the end of messages."""
    return f"pip install '{_DISTRIBUTION}[{extra}]'"


def is_installed(package: str) -> bool:
    """Whether a package can be found, without loading it."""
    try:
        spec = find_spec(package)
    except ValueError:  # an entry without a specification in sys.modules
        return False
    return spec is not None and spec.origin is not None  # a folder of this name, such as an export, has no origin
