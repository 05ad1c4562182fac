/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * libblkhash: the block hash of a message, computed on several cores.
 *
 * With a digest D and a block size B, the block hash of a message of L bytes is
 *
 *     D( D(block 1) | D(block 2) | ... | D(block N) | L as 8 bytes, little endian )
 *
 * where blocks are consecutive runs of B bytes and the last one may be shorter. Only D and B change
 * the value. blkhash(3) is the manual page: the asynchronous protocol, an example, and what every
 * error means.
 *
 * Conventions
 *
 * - Functions that return int return 0 or an errno value, except that the two which return something
 *   else when they succeed (blkhash_aio_completion_fd, blkhash_aio_completions) return a negative
 *   errno value when they fail. Functions that return a pointer return NULL and set errno.
 * - After a call that adds to a message has failed, the message is incomplete, and every later call
 *   that adds to it and blkhash_final() return the same error. Not so EAGAIN and ENOTSUP: they say
 *   that nothing was added, and nothing is lost.
 * - A NULL handle gives EINVAL.
 * - A handle may be used by several threads; calls then wait for each other. Options may be read by
 *   several threads. Nothing may be used while it is freed.
 */

#ifndef BLKHASH_H
#define BLKHASH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* No digest is longer, in bytes. */
#define BLKHASH_MAX_MD_SIZE 64

/* A hash in the making. */
struct blkhash;

/* What a new hash is to be. */
struct blkhash_opts;

/* The end of an asynchronous update. */
struct blkhash_completion {
    void *user_data; /* what was given to blkhash_aio_update() */
    int error;       /* 0, or the errno value with which it failed */
};

/* ---- Starting and ending ---------------------------------------------------------------------- */

/*
 * Starts a hash with the digest sha256, blocks of 64 KiB, 4 threads and no queue.
 *
 * NULL on failure, with errno set: see blkhash_new_opts().
 */
struct blkhash *blkhash_new(void);

/*
 * Starts a hash. The options are not needed any more after this.
 *
 * NULL on failure, with errno EINVAL (opts is NULL, or nobody knows the digest), ELIBACC (the digest is
 * one of OpenSSL's, and libcrypto is not installed or does not offer it), or one of eventfd(2).
 */
struct blkhash *blkhash_new_opts(const struct blkhash_opts *opts);

/*
 * Ends the message, writes its block hash to md, which must have room for BLKHASH_MAX_MD_SIZE bytes,
 * and the number of bytes written to *len unless len is NULL. Waits for updates in flight.
 *
 * After this the message takes nothing any more: adding to it, or a second call, is EINVAL, also when
 * the first one failed. If md is NULL, which is EINVAL as well, nothing was ended.
 */
int blkhash_final(struct blkhash *h, unsigned char *md, unsigned int *len);

/*
 * Ends the library's threads and frees the hash; NULL is allowed. May be called at any time, also while
 * updates are in flight: when it returns, nothing reads their buffers any more, and the completion
 * descriptor is closed.
 */
void blkhash_free(struct blkhash *h);

/* ---- Adding to the message -------------------------------------------------------------------- */

/*
 * Adds len bytes. They were copied or hashed when this returns. buf may be NULL if len is 0.
 *
 * May return EINVAL, EOVERFLOW, ENOMEM, ELIBACC or EIO.
 */
int blkhash_update(struct blkhash *h, const void *buf, size_t len);

/*
 * Adds len zeros, at next to no cost. The value is that of adding them with blkhash_update().
 */
int blkhash_zero(struct blkhash *h, size_t len);

/*
 * Adds len bytes without waiting for them to be hashed. If this returns 0, the bytes must stay as they
 * are until blkhash_aio_completions() has given user_data back, or blkhash_final() has returned 0, or
 * blkhash_free() has returned.
 *
 * EAGAIN: as many updates are in flight as the queue takes; completions must be taken first.
 * ENOTSUP: the hash was made without a queue; blkhash_update() works.
 * Else as blkhash_update(). Calls of all kinds may be mixed; the message is what they add, in order.
 */
int blkhash_aio_update(struct blkhash *h, const void *buf, size_t len, void *user_data);

/* ---- Completions ------------------------------------------------------------------------------ */

/*
 * The descriptor to wait for with poll(2) or the like: an eventfd(2), nonblocking, closed on exec. It
 * belongs to the hash. Once it is readable, read 8 bytes from it, then take completions until fewer are
 * given than asked for. A completion that arrives between the two makes it readable again; so it may
 * also be readable when there is none.
 *
 * -ENOTSUP if the hash was made without a queue.
 */
int blkhash_aio_completion_fd(struct blkhash *h);

/*
 * Takes up to count completions, in no particular order, and returns how many were there: 0 if none.
 * Each taken makes room in the queue. Also works after a failure and after blkhash_final().
 *
 * -ENOTSUP if the hash was made without a queue; -EINVAL if out is NULL and count is not 0; -EIO after
 * an internal error, which has ended all updates: their buffers are free.
 */
int blkhash_aio_completions(struct blkhash *h, struct blkhash_completion *out, unsigned count);

/* ---- Options ---------------------------------------------------------------------------------- */

/*
 * Makes options for a digest, with blocks of 64 KiB, 4 threads and no queue. The name is copied, and
 * looked up by blkhash_new_opts().
 *
 * NULL on failure, with errno EINVAL if digest_name is NULL.
 */
struct blkhash_opts *blkhash_opts_new(const char *digest_name);

/* Frees options; NULL is allowed. */
void blkhash_opts_free(struct blkhash_opts *opts);

/* Sets the block size in bytes, which is part of what defines the value: even and not 0, or EINVAL. */
int blkhash_opts_set_block_size(struct blkhash_opts *opts, uint32_t block_size);

/* Sets the number of threads that hash: 1 to 128, or EINVAL. */
int blkhash_opts_set_threads(struct blkhash_opts *opts, uint8_t threads);

/*
 * Sets how many asynchronous updates can be in flight, or waiting to be taken: up to 65536, or EINVAL.
 * 0 is no queue.
 */
int blkhash_opts_set_queue_depth(struct blkhash_opts *opts, unsigned queue_depth);

/*
 * What was set. The name is valid until the options are freed. Without options, NULL or 0, and errno is
 * EINVAL.
 */
const char *blkhash_opts_get_digest_name(const struct blkhash_opts *opts);
uint32_t blkhash_opts_get_block_size(const struct blkhash_opts *opts);
uint8_t blkhash_opts_get_threads(const struct blkhash_opts *opts);
unsigned blkhash_opts_get_queue_depth(const struct blkhash_opts *opts);

/* ---- Digests ---------------------------------------------------------------------------------- */

/*
 * Writes the names of up to count digests to names, in alphabetical order, and returns how many were
 * written. If names is NULL, returns how many there are. The strings are constants.
 */
size_t blkhash_digests(const char **names, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* BLKHASH_H */
