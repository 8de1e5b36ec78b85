"""The LaTeX mathematics that the catalogue understands: commands and the characters they stand for."""

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "ϑ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "varpi": "ϖ", "rho": "ρ", "varrho": "ϱ", "sigma": "σ", "varsigma": "ς", "tau": "τ", "upsilon": "υ", "phi": "ϕ",
    "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ",
    "Pi": "Π", "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω",
}  # fmt: skip

LETTERS = {"ell": "ℓ", "partial": "∂", "nabla": "∇", "infty": "∞", "hbar": "ℏ", "emptyset": "∅", "top": "⊤", "bot": "⊥",
           "imath": "ı", "jmath": "ȷ", "Re": "ℜ", "Im": "ℑ", "aleph": "ℵ"}  # fmt: skip

OPERATORS = {
    "cdot": "⋅", "times": "×", "otimes": "⊗", "oplus": "⊕", "odot": "⊙", "ominus": "⊖", "circ": "∘", "ast": "∗", "star": "⋆",
    "bullet": "∙", "div": "÷", "pm": "±", "mp": "∓", "in": "∈", "notin": "∉", "ni": "∋", "subset": "⊂", "subseteq": "⊆",
    "supset": "⊃", "supseteq": "⊇", "cup": "∪", "cap": "∩", "setminus": "∖", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥",
    "ll": "≪", "gg": "≫", "ne": "≠", "neq": "≠", "equiv": "≡", "approx": "≈", "sim": "∼", "simeq": "≃", "cong": "≅",
    "propto": "∝", "succeq": "⪰", "preceq": "⪯", "succ": "≻", "prec": "≺", "to": "→", "rightarrow": "→", "leftarrow": "←",
    "leftrightarrow": "↔", "Rightarrow": "⇒", "Leftarrow": "⇐", "Leftrightarrow": "⇔", "mapsto": "↦", "longmapsto": "⟼",
    "forall": "∀", "exists": "∃", "neg": "¬", "land": "∧", "lor": "∨", "wedge": "∧", "vee": "∨", "perp": "⊥",
    "parallel": "∥", "mid": "∣", "colon": ":", "ldots": "…", "dots": "…", "cdots": "⋯", "vdots": "⋮", "ddots": "⋱",
    "prime": "′", "lt": "<", "gt": ">", "models": "⊨", "vdash": "⊢", "triangleq": "≜", "coloneqq": "≔",
    "%": "%", "#": "#", "&": "&", "_": "_", "$": "$",
}  # fmt: skip

LARGE = {"sum": "∑", "prod": "∏", "int": "∫", "bigoplus": "⨁", "bigotimes": "⨂", "bigcup": "⋃", "bigcap": "⋂"}

FENCES = {
    "langle": "⟨", "rangle": "⟩", "lVert": "‖", "rVert": "‖", "Vert": "‖", "|": "‖", "lvert": "|", "rvert": "|", "vert": "|",
    "{": "{", "}": "}", "lbrace": "{", "rbrace": "}", "lbrack": "[", "rbrack": "]", "lfloor": "⌊", "rfloor": "⌋",
    "lceil": "⌈", "rceil": "⌉",
}  # fmt: skip

FUNCTIONS = frozenset(
    ("arccos", "arcsin", "arctan", "arg", "cos", "cosh", "cot", "coth", "det", "dim", "exp", "gcd", "ker", "lg", "ln",
     "log", "sec", "sin", "sinh", "tan", "tanh")
)  # fmt: skip
LIMITS = frozenset(("inf", "lim", "max", "min", "sup"))  # functions whose subscript goes below

SPACES = {",": 0.167, ":": 0.222, ";": 0.278, "!": -0.167, " ": 0.25, "quad": 1.0, "qquad": 2.0, "enspace": 0.5}

ACCENTS = {"hat": "^", "widehat": "^", "bar": "¯", "overline": "¯", "tilde": "~", "widetilde": "~", "vec": "→", "dot": "˙",
           "ddot": "¨"}  # fmt: skip

# Commands that take a word or letters in another face.
FACES = {
    "mathrm": "normal", "operatorname": "normal", "text": "normal", "textrm": "normal", "mathit": "italic", "mathbf": "bold",
    "boldsymbol": "bold", "bm": "bold", "mathbb": "double-struck", "mathcal": "script", "mathscr": "script", "mathsf": "sans",
    "mathtt": "mono", "mathfrak": "fraktur",
}  # fmt: skip

MATRICES = {"matrix": ("", ""), "smallmatrix": ("", ""), "pmatrix": ("(", ")"), "bmatrix": ("[", "]"), "vmatrix": ("|", "|"),
            "Vmatrix": ("‖", "‖"), "Bmatrix": ("{", "}"), "cases": ("{", ""), "aligned": ("", "")}  # fmt: skip

# Spacing and style that a line of text has no use for.
IGNORED = frozenset(("displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "nonumber"))
SIZES = frozenset(f"{size}{side}" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m"))

_BASES = {  # where the capital A, the small a and the digit 0 of a mathematical alphabet lie
    "bold": (0x1D400, 0x1D41A, 0x1D7CE),
    "double-struck": (0x1D538, 0x1D552, 0x1D7D8),
    "script": (0x1D49C, 0x1D4B6, None),
    "sans": (0x1D5A0, 0x1D5BA, 0x1D7E2),
    "mono": (0x1D670, 0x1D68A, 0x1D7F6),
    "fraktur": (0x1D504, 0x1D51E, None),
}
_HOLES = {  # letters that Unicode had before it had the alphabets
    ("double-struck", "C"): "ℂ", ("double-struck", "H"): "ℍ", ("double-struck", "N"): "ℕ", ("double-struck", "P"): "ℙ",
    ("double-struck", "Q"): "ℚ", ("double-struck", "R"): "ℝ", ("double-struck", "Z"): "ℤ", ("script", "B"): "ℬ",
    ("script", "E"): "ℰ", ("script", "F"): "ℱ", ("script", "H"): "ℋ", ("script", "I"): "ℐ", ("script", "L"): "ℒ",
    ("script", "M"): "ℳ", ("script", "R"): "ℛ", ("script", "e"): "ℯ", ("script", "g"): "ℊ", ("script", "o"): "ℴ",
    ("fraktur", "C"): "ℭ", ("fraktur", "H"): "ℌ", ("fraktur", "I"): "ℑ", ("fraktur", "R"): "ℜ", ("fraktur", "Z"): "ℨ",
}  # fmt: skip


def in_face(letter: str, face: str) -> str:
    """A letter in another face; itself where Unicode has none."""
    if (face, letter) in _HOLES:
        return _HOLES[face, letter]
    if face in _BASES and letter.isascii():
        upper, lower, digit = _BASES[face]
        if letter.isupper():
            return chr(upper + ord(letter) - ord("A"))
        if letter.islower():
            return chr(lower + ord(letter) - ord("a"))
        if letter.isdigit() and digit is not None:
            return chr(digit + ord(letter) - ord("0"))
    return letter
