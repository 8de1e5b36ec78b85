"""Reads the LaTeX of a formula into a small tree, from which MathML and plain text are written.

Only mathematics that is listed in ``formula_symbols`` is read. Anything else raises, and the formula is then shown as it was
typed: a plugin's text therefore never reaches a LaTeX file or a page as commands that nobody looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from nqf_registry.report import formula_symbols as symbols

_TOKEN = re.compile(r"\\[a-zA-Z]+\*?|\\.|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
_DEEPEST = 40


class FormulaError(ValueError):
    """The text is no formula that can be read; it is shown as typed."""


@dataclass(frozen=True)
class Symbol:
    """One mark; its kind is identifier, number, operator, fence, function, limit, large, word or space (its width in em)."""

    kind: str
    text: str


@dataclass(frozen=True)
class Group:
    """Nodes one after another."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Scripts:
    """A base with a subscript, a superscript or both."""

    base: Node
    sub: Node | None
    sup: Node | None


@dataclass(frozen=True)
class Fraction:
    """One thing over another; ``line`` is False in a binomial."""

    over: Node
    under: Node
    line: bool = True


@dataclass(frozen=True)
class Root:
    """A root, with its index or None."""

    body: Node
    index: Node | None


@dataclass(frozen=True)
class Fenced:
    """A body between delimiters that grow with it; an empty delimiter is none."""

    left: str
    body: Node
    right: str


@dataclass(frozen=True)
class Table:
    """A matrix or a list of cases, rows of cells."""

    left: str
    rows: tuple[tuple[Node, ...], ...]
    right: str


@dataclass(frozen=True)
class Accent:
    """A mark over a body."""

    mark: str
    body: Node


Node = Symbol | Group | Scripts | Fraction | Root | Fenced | Table | Accent


@lru_cache(maxsize=1024)
def parse(latex: str) -> Group:
    r"""The tree of a formula.

    Args:
        latex: mathematics without dollar signs around it.

    Raises:
        FormulaError: an unknown command, an unbalanced brace, or nothing at all.

    Example:
        >>> parse(r"\tfrac12 x").parts[1]
        Symbol(kind='identifier', text='x')
    """
    if not latex.strip():
        raise FormulaError("there is no formula")
    reader = _Reader([t for t in _TOKEN.findall(latex) if not t.isspace()], latex)
    tree = reader.group(frozenset())
    if reader.peek() is not None:
        raise FormulaError(f"{reader.peek()!r} closes nothing in {latex!r}")
    return tree


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str], source: str) -> None:
        self.tokens, self.at, self.source, self.depth = tokens, 0, source, 0

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self) -> str:
        token = self.peek()
        if token is None:
            raise FormulaError(f"the formula ends too early: {self.source!r}")
        self.at += 1
        return token

    def expect(self, wanted: str) -> None:
        token = self.take()
        if token != wanted:
            raise FormulaError(f"expected {wanted!r}, got {token!r} in {self.source!r}")

    def group(self, stops: frozenset[str]) -> Group:
        """Nodes up to one of the stopping tokens, which is left, or to a token that can only close."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise FormulaError(f"more than {_DEEPEST} levels of braces")
        parts: list[Node] = []
        while (token := self.peek()) is not None and token not in stops and token not in ("}", "&", "\\\\", "\\end", "\\right"):
            node = self.scripted()
            if node is not None:
                parts.append(node)
        self.depth -= 1
        return Group(tuple(parts))

    def scripted(self) -> Node | None:
        """An atom and whatever sub- and superscripts follow it."""
        base = Group(()) if self.peek() in ("^", "_") else self.atom()
        sub: Node | None = None
        sup: Node | None = None
        while (token := self.peek()) in ("^", "_", "'"):
            self.take()
            if token == "'":
                primes = "′"
                while self.peek() == "'":
                    self.take()
                    primes += "′"
                mark = Symbol("operator", primes)
                sup = mark if sup is None else Group((sup, mark))
                if self.peek() == "^":
                    self.take()
                    sup = Group((mark, self.argument()))
            elif token == "^":
                if sup is not None:
                    raise FormulaError(f"two superscripts in {self.source!r}")
                sup = self.argument()
            else:
                if sub is not None:
                    raise FormulaError(f"two subscripts in {self.source!r}")
                sub = self.argument()
        if base is None or (sub is None and sup is None):
            return base
        return Scripts(base, sub, sup)

    def argument(self) -> Node:
        """A braced group or a single token, as TeX takes it."""
        token = self.peek()
        if token == "{":
            self.take()
            body = self.group(frozenset())
            self.expect("}")
            return body.parts[0] if len(body.parts) == 1 else body
        if token is not None and token[0].isdigit() and len(token) > 1:  # \tfrac12 is one over two
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        node = self.atom()
        return Group(()) if node is None else node

    def atom(self) -> Node | None:
        """One node; None for what leaves no mark."""
        token = self.take()
        if token == "{":
            body = self.group(frozenset())
            self.expect("}")
            return body
        if token.startswith("\\") and len(token) > 1:
            return self.command(token[1:])
        if token[0].isdigit():
            return Symbol("number", token)
        if token in ("}", "&", "$", "%", "#", "\\", "^", "_"):
            raise FormulaError(f"{token!r} has no meaning there in {self.source!r}")
        if token in "()[]|":
            return Symbol("fence", token)
        if token == "~":
            return Symbol("space", "0.25")
        if token.isalpha():
            return Symbol("identifier", token)
        if not token.isprintable():
            raise FormulaError(f"{token!r} is no mathematics")
        return Symbol("operator", {"-": "−", "*": "∗"}.get(token, token))

    def command(self, name: str) -> Node | None:
        """What a command stands for."""
        name = name.removesuffix("*")
        for kind, table in (("identifier", symbols.GREEK), ("identifier", symbols.LETTERS), ("operator", symbols.OPERATORS),
                            ("large", symbols.LARGE), ("fence", symbols.FENCES)):  # fmt: skip
            if name in table:
                return Symbol(kind, table[name])
        if name in symbols.FUNCTIONS:
            return Symbol("function", name)
        if name in symbols.LIMITS:
            return Symbol("limit", name)
        if name in symbols.SPACES:
            return Symbol("space", str(symbols.SPACES[name]))
        if name in symbols.IGNORED:
            return None
        if name in symbols.SIZES:
            return Symbol("fence", self.delimiter())
        if name in symbols.FACES:
            return self.face(name)
        if name in symbols.ACCENTS:
            return Accent(symbols.ACCENTS[name], self.argument())
        if name in ("frac", "tfrac", "dfrac", "binom"):
            over, under = self.argument(), self.argument()
            fraction = Fraction(over, under, name != "binom")
            return fraction if fraction.line else Fenced("(", fraction, ")")
        if name == "sqrt":
            index = None
            if self.peek() == "[":
                self.take()
                index = self.group(frozenset("]"))
                self.expect("]")
            return Root(self.argument(), index)
        if name == "left":
            left, body = self.delimiter(), self.group(frozenset())
            self.expect("\\right")
            return Fenced(left, body, self.delimiter())
        if name == "begin":
            return self.table()
        raise FormulaError(f"the command \\{name} is not known in {self.source!r}")

    def face(self, name: str) -> Node:
        """A word, or letters, in the face of a command."""
        face = symbols.FACES[name]
        if face != "normal":
            body = self.argument()
            letters = body.parts if isinstance(body, Group) else (body,)
            return Group(tuple(_faced(letter, face) for letter in letters))
        self.expect("{")
        words: list[str] = []
        while (token := self.take()) != "}":
            if token in ("{", "$") or (token.startswith("\\") and token[1:] not in (*symbols.SPACES, "&", "_", "%", "#")):
                raise FormulaError(f"{token!r} inside \\{name} is not known in {self.source!r}")
            words.append(" " if token[1:] in symbols.SPACES and token.startswith("\\") else token.removeprefix("\\"))
        return Symbol("function" if name == "operatorname" else "word", "".join(words))

    def delimiter(self) -> str:
        r"""The delimiter after \left, \right or \big; empty for a dot."""
        token = self.take()
        if token == ".":
            return ""
        if token in "()[]|/":
            return token
        if token.startswith("\\") and token[1:] in symbols.FENCES:
            return symbols.FENCES[token[1:]]
        raise FormulaError(f"{token!r} is no delimiter in {self.source!r}")

    def name(self) -> str:
        """A braced word."""
        self.expect("{")
        word = ""
        while (token := self.take()) != "}":
            word += token
        return word

    def table(self) -> Table:
        """The rows of an environment."""
        environment = self.name().removesuffix("*")
        if environment not in symbols.MATRICES:
            raise FormulaError(f"the environment {environment!r} is not known in {self.source!r}")
        rows: list[tuple[Node, ...]] = []
        cells: list[Node] = []
        while True:
            cells.append(self.group(frozenset()))
            token = self.take()
            if token == "&":
                continue
            rows.append(tuple(cells))
            cells = []
            if token == "\\\\":
                continue
            if token != "\\end" or self.name().removesuffix("*") != environment:
                raise FormulaError(f"\\begin{{{environment}}} is not closed in {self.source!r}")
            break
        if rows and rows[-1] == (Group(()),):  # a trailing \\ begins no row
            rows.pop()
        left, right = symbols.MATRICES[environment]
        return Table(left, tuple(rows), right)


def _faced(node: Node, face: str) -> Node:
    """A letter in another face; anything else as it is."""
    return Symbol(node.kind, symbols.in_face(node.text, face)) if isinstance(node, Symbol) and len(node.text) == 1 else node
