/*
 * Times libext2fs's name hashes for namehash.rs, which compiles and starts this.
 *
 * Each line of standard input is "VERSION LENGTH COUNT ROUNDS"; the answer is a line
 * "NANOSECONDS CHECK": how long it took to hash COUNT names of LENGTH bytes ROUNDS times, and the sum
 * of hashes and minor hashes of one round, modulo 2^32.
 */

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <ext2fs/ext2fs.h>

enum { MOST_NAMES = 256, MOST_BYTES = 255 };

static char names[MOST_NAMES][MOST_BYTES];

/* The names of namehash.rs. */
static void make_names(uint32_t length, uint32_t count)
{
	uint32_t state = length;

	for (uint32_t name = 0; name < count; name++)
		for (uint32_t place = 0; place < length; place++) {
			state = state * 1664525u + 1013904223u;
			names[name][place] = (char)(state >> 24);
		}
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(void)
{
	static const __u32 seed[4] = { 0x44332211, 0x88776655, 0xccbbaa99, 0x00ffeedd };
	uint32_t version, length, count, rounds;

	while (scanf("%u %u %u %u", &version, &length, &count, &rounds) == 4) {
		uint32_t check = 0;
		uint64_t start;

		if (length > MOST_BYTES || count > MOST_NAMES)
			return 2;
		make_names(length, count);
		start = now();
		for (uint32_t round = 0; round < rounds; round++) {
			check = 0;
			for (uint32_t name = 0; name < count; name++) {
				ext2_dirhash_t hash, minor;

				if (ext2fs_dirhash((int)version, names[name], (int)length, seed, &hash, &minor))
					return 1;
				check += hash + minor;
			}
		}
		printf("%llu %u\n", (unsigned long long)(now() - start), check);
		fflush(stdout);
	}
	return 0;
}
