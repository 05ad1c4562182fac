/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Prints the block hash of a file, or of standard input, and reads on while the library hashes: it has
 * several buffers, each of which belongs to the library from blkhash_aio_update() to its completion.
 *
 *     cc -o async async.c $(pkg-config --cflags --libs blkhash)
 *     ./async [FILE]
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <blkhash.h>

enum { BUFFERS = 8, READ_SIZE = 256 * 1024 };

struct buffer {
    struct buffer *next; /* in the list of free buffers */
    char data[READ_SIZE];
};

static struct buffer *free_buffers;
static unsigned in_flight;

/* Says what failed and why; gives the exit code. */
static int failed(const char *what, int error)
{
    fprintf(stderr, "async: %s: %s\n", what, strerror(error));
    return 1;
}

static void give_back(struct buffer *buffer)
{
    buffer->next = free_buffers;
    free_buffers = buffer;
}

/* Waits until at least one update has ended, and takes all that have. */
static int wait_for_completions(struct blkhash *h)
{
    struct pollfd event = {.fd = blkhash_aio_completion_fd(h), .events = POLLIN};
    struct blkhash_completion done[BUFFERS];
    uint64_t counter;
    int count;

    if (event.fd < 0)
        return failed("blkhash_aio_completion_fd", -event.fd);

    while (poll(&event, 1, -1) < 0)
        if (errno != EINTR)
            return failed("poll", errno);

    /* Reading comes first: what completes from now on makes the descriptor readable again. */
    if (read(event.fd, &counter, sizeof(counter)) < 0 && errno != EAGAIN)
        return failed("read", errno);

    do {
        count = blkhash_aio_completions(h, done, BUFFERS);
        if (count < 0)
            return failed("blkhash_aio_completions", -count);

        for (int i = 0; i < count; i++) {
            if (done[i].error)
                return failed("an update", done[i].error);
            give_back(done[i].user_data);
            in_flight--;
        }
    } while (count == BUFFERS);

    return 0;
}

/* Adds all of fd to the message. */
static int add_file(struct blkhash *h, int fd, const char *name)
{
    for (;;) {
        while (free_buffers == NULL)
            if (wait_for_completions(h))
                return 1;

        struct buffer *buffer = free_buffers;
        ssize_t len = read(fd, buffer->data, READ_SIZE);

        if (len == 0)
            break;
        if (len < 0) {
            if (errno == EINTR)
                continue;
            return failed(name, errno);
        }

        /* There are no more buffers than the queue has places, so that this is never EAGAIN. */
        int error = blkhash_aio_update(h, buffer->data, (size_t)len, buffer);
        if (error)
            return failed("blkhash_aio_update", error);
        free_buffers = buffer->next;
        in_flight++;
    }

    while (in_flight > 0)
        if (wait_for_completions(h))
            return 1;
    return 0;
}

static int print_hash(struct blkhash *h, const char *name)
{
    unsigned char md[BLKHASH_MAX_MD_SIZE];
    unsigned int len;

    int error = blkhash_final(h, md, &len);
    if (error)
        return failed("blkhash_final", error);

    for (unsigned int i = 0; i < len; i++)
        printf("%02x", md[i]);
    printf("  %s\n", name);
    return fflush(stdout) == 0 ? 0 : failed("standard output", errno);
}

static struct blkhash *new_hash(void)
{
    struct blkhash *h = NULL;
    struct blkhash_opts *opts = blkhash_opts_new("sha256");

    if (opts == NULL) {
        failed("blkhash_opts_new", errno);
        return NULL;
    }

    int error = blkhash_opts_set_queue_depth(opts, BUFFERS);
    if (error) {
        failed("blkhash_opts_set_queue_depth", error);
    } else {
        h = blkhash_new_opts(opts);
        if (h == NULL)
            failed("blkhash_new_opts", errno);
    }

    blkhash_opts_free(opts);
    return h;
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: async [FILE]\n");
        return 2;
    }

    const char *name = argc > 1 ? argv[1] : "-";
    int fd = argc > 1 ? open(name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0)
        return failed(name, errno);

    int exit_code = 1;
    struct blkhash *h = NULL;
    struct buffer *buffers = calloc(BUFFERS, sizeof(*buffers));

    if (buffers == NULL) {
        failed("calloc", errno);
        goto out;
    }
    for (int i = 0; i < BUFFERS; i++)
        give_back(&buffers[i]);

    h = new_hash();
    if (h == NULL)
        goto out;

    exit_code = add_file(h, fd, name);
    if (exit_code == 0)
        exit_code = print_hash(h, name);

out:
    /* The hash goes first: after an error the library may still be reading the buffers. */
    blkhash_free(h);
    free(buffers);
    if (fd != STDIN_FILENO)
        close(fd);
    return exit_code;
}
