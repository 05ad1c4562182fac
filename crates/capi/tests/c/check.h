/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* What the test programs in C have in common. */

#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <blkhash.h>

/* Ends the program if a condition does not hold. */
#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__, #condition); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* Ends the program if two integers differ; shows them. */
#define SAME(left, right)                                                                        \
    do {                                                                                         \
        long long left_ = (long long)(left), right_ = (long long)(right);                        \
        if (left_ != right_) {                                                                   \
            fprintf(stderr, "%s:%d: %s: %s is %lld, %s is %lld\n", __FILE__, __LINE__, __func__, \
                    #left, left_, #right, right_);                                               \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

/* Whether the descriptor becomes readable within so many milliseconds. */
static inline int readable(int fd, int timeout)
{
    struct pollfd event = {.fd = fd, .events = POLLIN};
    int ready = poll(&event, 1, timeout);

    CHECK(ready >= 0);
    return ready == 1 && (event.revents & POLLIN);
}

/* The patience for what must happen, in milliseconds: a valgrind run on a busy machine is slow. */
enum { LONG = 120 * 1000 };

static inline struct blkhash *new_hash(const char *digest, uint32_t block_size, unsigned threads,
                                       unsigned queue_depth)
{
    struct blkhash_opts *opts = blkhash_opts_new(digest);

    CHECK(opts != NULL);
    if (block_size)
        SAME(blkhash_opts_set_block_size(opts, block_size), 0);
    SAME(blkhash_opts_set_threads(opts, (uint8_t)threads), 0);
    SAME(blkhash_opts_set_queue_depth(opts, queue_depth), 0);
    struct blkhash *h = blkhash_new_opts(opts);
    blkhash_opts_free(opts);
    return h;
}

/* Ends the message and writes its hash in hexadecimal. */
static inline void final_hex(struct blkhash *h, char hex[2 * BLKHASH_MAX_MD_SIZE + 1])
{
    unsigned char md[BLKHASH_MAX_MD_SIZE];
    unsigned int len = 1000;

    SAME(blkhash_final(h, md, &len), 0);
    CHECK(len <= BLKHASH_MAX_MD_SIZE);
    hex[0] = '\0';
    for (unsigned int i = 0; i < len; i++)
        sprintf(hex + 2 * i, "%02x", md[i]);
}

#endif
