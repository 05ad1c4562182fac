"""Python's `help` has the texts of the stubs, for all that is to be had from `verisum`."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import verisum
import verisum._native

STUBS = Path(__file__).resolve().parents[1] / "verisum" / "_native.pyi"


def texts(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The names of the stubs that have a text, and the text."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield prefix + node.name, text
            if isinstance(node, ast.ClassDef):
                yield from texts(node.body, f"{node.name}.")


WRITTEN = dict(texts(ast.parse(STUBS.read_text()).body))


def public(owner: object) -> Iterator[str]:
    return (name for name in dir(owner) if not name.startswith("_"))


def test_all_that_is_public_has_its_text() -> None:
    seen = {}
    for name in set(verisum.__all__) & set(verisum._native.__all__):
        found = getattr(verisum, name)
        seen[name] = inspect.getdoc(found)
        if inspect.isclass(found):
            seen |= {f"{name}.{own}": inspect.getdoc(getattr(found, own)) for own in public(found)}
    assert len(seen) > 400
    for name, text in seen.items():
        assert text and text == WRITTEN["_Iterator.close" if name.endswith(".close") else name], name


def test_what_is_written_in_python_has_its_text() -> None:
    for name in verisum.__all__:
        assert inspect.getdoc(getattr(verisum, name)), name
    assert "Raises:" in (inspect.getdoc(verisum.hash_files) or "")
