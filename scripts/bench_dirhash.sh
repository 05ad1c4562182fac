#!/bin/sh
# Measures all times of docs/results/directory-hashes.md and prints them as that page's tables.
#
#     scripts/bench_dirhash.sh [full|try]
#
# Run it as root on a quiet machine: about six minutes, `full` about an hour. With `try` everything is tiny, to see
# whether it works. VERISUM says which program is measured (target/release/verisum), TMPDIR where the file systems lie
# in files: some gigabytes are needed there, better in memory than on a disk that others use.
set -eu
cd "$(dirname "$0")/.."

verisum=${VERISUM:-target/release/verisum}
seed=11223344-5566-7788-99aa-bbccddeeff00
case ${1:-} in
'') names=20000 cycles=20000 directories=4 files=5000 colliding=1000 rounds=10 tries=200000000 most=2000000 ;;
full) names=200000 cycles=100000 directories=100 files=10000 colliding=5000 rounds=10 tries=1000000000 most=10000000 ;;
try) names=2000 cycles=2000 directories=3 files=300 colliding=300 rounds=1 tries=1000000 most=100000 ;;
*) echo "usage: $0 [full|try]" >&2; exit 2 ;;
esac
report=$(mktemp)
trap 'rm -f "$report"' EXIT

# A heading, and the report of a verb as Markdown, with the time that it took.
table() {
    printf '\n## %s\n\n    verisum dirhash %s\n\n' "$1" "$2"
    # shellcheck disable=SC2086 # Options without spaces or patterns.
    (set -f; time -p "$verisum" dirhash $2 --seed "$seed" --export-markdown "$report") 2>&1 >/dev/null |
        sed 's/^/    /'
    echo
    cat "$report"
}

echo "Load: $(cat /proc/loadavg)"
lscpu | grep -E '^(Model name|CPU\(s\)|L2|L3)' || true
uname -sr

printf '\n## One name, and many at once, beside libext2fs\n\n'
cargo bench -q -p verisum-digest --bench namehash

table "Cost of a name" "cost --alg legacy --alg half_md4 --alg tea --alg siphash13 --alg siphash24 --alg halfsiphash24 --alg xxh3"
table "Creates" "bakeoff --real --count $names --names foo%09d --rounds $rounds"
table "Deletes and creates" "bakeoff --real --count $cycles --names foo%d --rounds $rounds"
table "Many directories, remounted, status in reverse" "bakeoff --real --count $files --directories $directories --names file_name_%05d --rounds $rounds"
table "Names of one hash on a mounted ext4" "attack --real --alg legacy --count $colliding --rounds $rounds"
table "Making names of one hash" "attack --count 600 --alg legacy --alg btrfs --alg xfs --alg reiserfs_r5 --alg crc32c_seeded"
table "Searching for them" "attack --count 1 --tries $tries --alg half_md4 --alg tea --alg siphash13"
table "Millions of names in the model" "bakeoff --count $most --alg half_md4"
table "Quality of all" "quality --alg all"
