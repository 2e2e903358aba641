"""Make odd tables by seed, and what reading them must give.

They are written letter by letter, with nothing of the reader that they test.
"""

from dataclasses import dataclass

import numpy as np

ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1", "mac-roman")
LETTERS = 'abcXYZ 019.,;|\t"\n\r\u00e5\u00e9\u00fc-_/'
ENDS = ("\n", "\r\n", "\r")


@dataclass(frozen=True)
class Odd:
    """Bytes of a file, its delimiter, decimal sign and encoding, its texts and its numbers.

    `damaged_line`: the line that has a cell too many or too few, 0 for none.
    """

    data: bytes
    options: tuple[str, str, str]
    texts: list[str]
    numbers: list[float]
    damaged_line: int


def odd_table(seed: int) -> Odd:
    """Return a table with a text and a number column between others, by a random maker."""
    chance = np.random.default_rng(seed)

    def of(some: object) -> str:
        return str(some[int(chance.integers(len(some)))])  # type: ignore[index, arg-type]

    separator, end, encoding = of(",;\t|"), of(ENDS), of(ENCODINGS)
    decimal = of(".,")
    mark = of(["", "", "." if decimal == "," else ",", " ", "'"])
    quotes_all, has_blanks = chance.random() < 0.3, chance.random() < 0.3
    trailing = int(chance.integers(3)) if chance.random() < 0.3 else 0

    def cell(text: str) -> str:
        needs = any(letter in text for letter in f'{separator}"\n\r') or text.startswith(" ")
        if needs or quotes_all:
            return '"' + text.replace('"', '""') + '"'
        return text

    def line(cells: list[str]) -> str:
        return separator.join(cell(text) for text in cells) + separator * trailing + end

    def written(number: float) -> str:
        whole, _, fraction = f"{abs(number):.{digits}f}".partition(".")
        if mark and len(whole) > 3:
            first = len(whole) % 3 or 3
            groups = [whole[:first], *(whole[i : i + 3] for i in range(first, len(whole), 3))]
            whole = mark.join(groups)
        sign = "-" if number < 0 else ""
        return sign + whole + (decimal + fraction if fraction else "")

    size, digits = int(chance.integers(1, 30)), int(chance.integers(4))
    texts = [
        "t" + "".join(of(LETTERS) for _ in range(int(chance.integers(8)))) for _ in range(size)
    ]
    exact = [
        round(float(chance.normal()) * 10 ** float(chance.integers(7)), digits) for _ in range(size)
    ]
    rows = [[text, written(number), "e"] for text, number in zip(texts, exact, strict=True)]
    last = of(["rest", "rest", "rest, of all", "a;b"])
    body, damaged_line = line(["name", "n", last]), 0
    if chance.random() < 0.15:
        body = f"sep={separator}{end}{body}"
    damaged = int(chance.integers(size)) if chance.random() < 0.1 else -1
    for number, row in enumerate(rows):
        if number == damaged:
            row = row[:1] if chance.random() < 0.5 else [*row, "more"]
            damaged_line = 1 + body.replace("\r\n", "\n").replace("\r", "\n").count("\n")
            body += separator.join(map(cell, row)) + end
            continue
        body += line(row) + (end if has_blanks and chance.random() < 0.2 else "")
    return Odd(
        data=body.encode(encoding),
        options=(separator, decimal, encoding),
        texts=texts,
        numbers=exact,
        damaged_line=damaged_line,
    )
