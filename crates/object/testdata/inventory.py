"""Writes inventory.parquet by pyarrow 22 or later: an inventory with the columns of S3, packed as S3 does."""
import pyarrow as pa, pyarrow.parquet as pq, sys
# The schema that S3 Inventory documents for Parquet.
schema = pa.schema([
    pa.field("bucket", pa.string(), nullable=False), pa.field("key", pa.string(), nullable=False),
    pa.field("version_id", pa.string()), pa.field("is_latest", pa.bool_()), pa.field("is_delete_marker", pa.bool_()),
    pa.field("size", pa.int64()), pa.field("last_modified_date", pa.timestamp("ms", tz="UTC")), pa.field("e_tag", pa.string()),
    pa.field("storage_class", pa.string()), pa.field("encryption_status", pa.string()),
])
rows = [
    ("box", "z", None, True, False, 5, 1795402200000, "00112233445566778899aabbccddeeff", "STANDARD", "SSE-S3"),
    ("box", "a b/c%2F\n", None, True, False, 0, 1795402200123, "00112233445566778899aabbccddeeff-3", "STANDARD", "SSE-KMS"),
    ("box", "gone", "v", True, True, None, 1795402200000, None, None, None),
    ("box", "z", "old", False, False, 4, 1795315800000, "x", "STANDARD", "SSE-S3"),
]
table = pa.table([pa.array([row[at] for row in rows], type=field.type) for at, field in enumerate(schema)], schema=schema)
pq.write_table(table, sys.argv[1], compression="snappy", row_group_size=3)
