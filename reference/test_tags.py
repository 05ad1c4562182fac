"""Tests of tags.py: published values, and the states of shatag."""

import unittest

import tags


class Tags(unittest.TestCase):
    def test_records_come_back(self):
        for record in (
            tags.Record("sha256", b"\1" * 32, 5, 1_600_000_000_123_456_789, 1_700_000_000),
            tags.Record("xxh3-64", b"\2" * 8, None, None, None),
            tags.Record("md5", b"\3" * 16, 0, -1, None),
        ):
            tag = tags.encode(record)
            self.assertEqual(len(tag), 32 + len(record.digest))
            self.assertEqual(tags.decode(tag), record)
            for at in range(len(tag)):
                with self.assertRaises(tags.Damaged):
                    tags.decode(tag[:at] + bytes([tag[at] ^ 0x10]) + tag[at + 1 :])

    def test_the_check_is_the_catalogued_one(self):
        self.assertEqual(tags.check_of(b"12??3456789"), 0x29B1)

    def test_shatag_has_five_states(self):
        mtime = 1_600_000_000_123_456_789
        at, later = tags.shatag_time(mtime), tags.shatag_time(mtime + 10**6)
        for stored, stamp, expected in (
            ("aa" * 32, at, "ok"),
            ("aa" * 32 + "\0", at[:-6], "ok"),
            ("aa" * 32, later, "timechange"),
            ("bb" * 32, at, "corrupt"),
            ("bb" * 32, later, "outdated"),
            (None, at, "new"),
            ("aa" * 32, None, "new"),
        ):
            self.assertEqual(tags.shatag_state(stored, stamp, "aa" * 32, mtime), expected)

    def test_times_have_ten_and_nine_digits(self):
        self.assertEqual(tags.shatag_time(7 * 10**9 + 1), "0000000007.000000001")

    def test_times_before_1970_are_those_of_cshatag(self):
        text = "18446744073709551614.500000000"
        self.assertEqual(tags.shatag_time(-1_500_000_000), text)
        self.assertEqual(tags.parse_shatag_time(text), (-1_500_000_000, 100))

    def test_times_are_compared_to_100_nanoseconds(self):
        mtime = 1_600_000_000_123_456_789
        for other, expected in ((11, "timechange"), (10, "ok"), (-89, "ok"), (-90, "timechange")):
            stamp = tags.shatag_time(mtime)
            self.assertEqual(tags.shatag_state("aa" * 32, stamp, "aa" * 32, mtime + other), expected)


if __name__ == "__main__":
    unittest.main()
