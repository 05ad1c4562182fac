/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* Compiles as C99 and as C++: nothing but the header, twice, and a use of every function's type. */

#include <blkhash.h>
#include <blkhash.h>

struct blkhash *(*a)(void) = blkhash_new;
struct blkhash *(*b)(const struct blkhash_opts *) = blkhash_new_opts;
int (*c)(struct blkhash *, const void *, size_t) = blkhash_update;
int (*d)(struct blkhash *, size_t) = blkhash_zero;
int (*e)(struct blkhash *, const void *, size_t, void *) = blkhash_aio_update;
int (*f)(struct blkhash *) = blkhash_aio_completion_fd;
int (*g)(struct blkhash *, struct blkhash_completion *, unsigned) = blkhash_aio_completions;
int (*h)(struct blkhash *, unsigned char *, unsigned int *) = blkhash_final;
void (*i)(struct blkhash *) = blkhash_free;
size_t (*j)(const char **, size_t) = blkhash_digests;
struct blkhash_opts *(*k)(const char *) = blkhash_opts_new;
void (*l)(struct blkhash_opts *) = blkhash_opts_free;
int (*m)(struct blkhash_opts *, uint32_t) = blkhash_opts_set_block_size;
int (*n)(struct blkhash_opts *, uint8_t) = blkhash_opts_set_threads;
int (*o)(struct blkhash_opts *, unsigned) = blkhash_opts_set_queue_depth;
const char *(*p)(const struct blkhash_opts *) = blkhash_opts_get_digest_name;
uint32_t (*q)(const struct blkhash_opts *) = blkhash_opts_get_block_size;
uint8_t (*r)(const struct blkhash_opts *) = blkhash_opts_get_threads;
unsigned (*s)(const struct blkhash_opts *) = blkhash_opts_get_queue_depth;

unsigned char md[BLKHASH_MAX_MD_SIZE == 64 ? 64 : -1];
struct blkhash_completion completion = {0, 0};

int main(void)
{
    return 0;
}
