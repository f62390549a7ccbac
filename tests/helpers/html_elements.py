"""A page taken apart: its elements, whether all are closed, and what they would have a browser fetch or run."""

from html.parser import HTMLParser

_VOID = {"meta", "link", "input", "br"}


class Elements(HTMLParser):
    """Every element's attributes and the text of each script and style; fails where an element is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    @property
    def attributes(self) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.found]

    @property
    def ids(self) -> set[str | None]:
        """Fails where two elements have the same."""
        ids = [of["id"] for of in self.attributes if "id" in of]
        assert len(ids) == len(set(ids))
        return set(ids)

    def values(self, *names: str) -> set[str | None]:
        """Of attributes of these names."""
        return {of[name] for of in self.attributes for name in names if name in of}

    def check_nothing_from_elsewhere(self, *never: str) -> None:
        """That no element fetches anything, or runs or styles what the policy would stop; nor is one of `never`."""
        for tag, attributes in self.found:
            assert tag not in ("img", "iframe", "object", "base", *never), tag
            assert "src" not in attributes
            assert attributes.get("href", "data:,") == "data:,"
            assert not any(name.startswith("on") or name == "style" for name in attributes), "the policy would stop it"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("script", "style"):
            self.texts.append((self.open[-1], data))
