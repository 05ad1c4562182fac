"""Tests of parity.py: the field, and a code that recovers from any of its blocks."""

import itertools
import random
import unittest

import parity


class Field(unittest.TestCase):
    def test_it_is_a_field(self):
        values = random.Random(7).sample(range(1, 65536), 60)
        for a, b, c in itertools.product(values[:10], values[10:20], values[20:30]):
            self.assertEqual(parity.multiply(a, b ^ c), parity.multiply(a, b) ^ parity.multiply(a, c))
            self.assertEqual(parity.divide(parity.multiply(a, b), b), a)
        self.assertEqual(parity.multiply(1, 0xABCD), 0xABCD)
        # The basis is Cantor's: each element is x² + x of the next.
        for bit in range(15):
            element = 1 << (bit + 1)
            self.assertEqual(parity.multiply(element, element) ^ element, 1 << bit)


class Code(unittest.TestCase):
    def test_one_parity_block_is_the_sum(self):
        self.assertEqual([parity.coefficient(1, 0, index) for index in range(9)], [1] * 9)

    def test_any_blocks_are_enough(self):
        chance = random.Random(5)
        count, rows, run = 7, 3, 4
        data = [chance.randbytes(64) for _ in range(count)]
        blocks = {}
        for row in range(rows):
            total = [0] * 32
            for index, block in enumerate(data):
                parity.add_product(total, parity.coefficient(run, row, index), parity.symbols(block))
            blocks[row] = parity.block_of(total)
        for lost in itertools.combinations(range(count), 2):
            for left in itertools.combinations(range(rows), 2):
                partial = [None if index in lost else block for index, block in enumerate(data)]
                found = parity.solve(run, partial, {row: blocks[row] for row in left})
                self.assertEqual(found, data)


if __name__ == "__main__":
    unittest.main()
