/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Prints the block hash of a file, or of standard input.
 *
 *     cc -o simple simple.c $(pkg-config --cflags --libs blkhash)
 *     ./simple [FILE]
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <blkhash.h>

enum { READ_SIZE = 1024 * 1024 };

/* Says what failed and why; gives the exit code. */
static int failed(const char *what, int error)
{
    fprintf(stderr, "simple: %s: %s\n", what, strerror(error));
    return 1;
}

/* Adds all of fd to the message. */
static int add_file(struct blkhash *h, int fd, const char *name, char *buf)
{
    for (;;) {
        ssize_t len = read(fd, buf, READ_SIZE);

        if (len == 0)
            return 0;
        if (len < 0) {
            if (errno == EINTR)
                continue;
            return failed(name, errno);
        }

        int error = blkhash_update(h, buf, (size_t)len);
        if (error)
            return failed("blkhash_update", error);
    }
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

int main(int argc, char **argv)
{
    if (argc > 2) {
        fprintf(stderr, "usage: simple [FILE]\n");
        return 2;
    }

    const char *name = argc > 1 ? argv[1] : "-";
    int fd = argc > 1 ? open(name, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0)
        return failed(name, errno);

    int exit_code = 1;
    struct blkhash *h = NULL;
    char *buf = malloc(READ_SIZE);

    if (buf == NULL) {
        failed("malloc", errno);
        goto out;
    }

    h = blkhash_new();
    if (h == NULL) {
        failed("blkhash_new", errno);
        goto out;
    }

    exit_code = add_file(h, fd, name, buf);
    if (exit_code == 0)
        exit_code = print_hash(h, name);

out:
    blkhash_free(h);
    free(buf);
    if (fd != STDIN_FILENO)
        close(fd);
    return exit_code;
}
