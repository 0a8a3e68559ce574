#!/usr/bin/env python3
"""Writes the tables of Grids.def to standard output: the grids of the IQ
formats, which are part of their definition, as gguf-py has them.

Needs the package gguf; the build does not. Per row a number, the first column's
digit lowest: two bits each of eight digits, or three each of four.
"""

from gguf import quants

GRIDS = {
    "IQ1": quants.IQ1_S,
    "IQ2_XXS": quants.IQ2_XXS,
    "IQ2_XS": quants.IQ2_XS,
    "IQ2_S": quants.IQ2_S,
    "IQ3_XXS": quants.IQ3_XXS,
    "IQ3_S": quants.IQ3_S,
}


def main():
    for name, kind in GRIDS.items():
        kind.init_grid()
        values = list(kind.grid_map)
        rows = kind.grid.reshape(kind.grid_shape)
        bits = 2 if kind.grid_shape[1] == 8 else 3
        print(f"MOE_GRID({name}, {len(rows)},")
        words = []
        for row in rows:
            word = 0
            for i, value in enumerate(row):
                word |= values.index(int(value)) << (bits * i)
            words.append(f"0x{word:x},")
        line = "   "
        for word in words:
            if len(line) + 1 + len(word) > 80:
                print(line)
                line = "   "
            line += " " + word
        print(line.rstrip(",") + ")")


if __name__ == "__main__":
    main()
