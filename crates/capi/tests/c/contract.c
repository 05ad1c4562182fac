/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Checks what blkhash.h promises beside the values: errors, defaults, completions, threads.
 *
 * contract [without-limits]: the argument leaves out what needs a limit of the address space.
 */

#define _GNU_SOURCE

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include "check.h"

static const char EMPTY_SHA256[] = "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc";

enum { MIB = 1024 * 1024 };

static unsigned char *data;

static void defaults(void)
{
    struct blkhash_opts *opts = blkhash_opts_new("sha1");

    CHECK(opts != NULL);
    CHECK(strcmp(blkhash_opts_get_digest_name(opts), "sha1") == 0);
    SAME(blkhash_opts_get_block_size(opts), 65536);
    SAME(blkhash_opts_get_threads(opts), 4);
    SAME(blkhash_opts_get_queue_depth(opts), 0);
    blkhash_opts_free(opts);
    blkhash_opts_free(NULL);
}

static void options_have_bounds(void)
{
    char name[] = "md5";
    struct blkhash_opts *opts = blkhash_opts_new(name);

    CHECK(opts != NULL);
    name[0] = 'x';
    CHECK(strcmp(blkhash_opts_get_digest_name(opts), "md5") == 0);

    SAME(blkhash_opts_set_block_size(opts, 4096), 0);
    SAME(blkhash_opts_set_block_size(opts, 0), EINVAL);
    SAME(blkhash_opts_set_block_size(opts, 4097), EINVAL);
    SAME(blkhash_opts_set_block_size(opts, UINT32_MAX), EINVAL);
    SAME(blkhash_opts_get_block_size(opts), 4096);
    SAME(blkhash_opts_set_block_size(opts, UINT32_MAX - 1), 0);
    SAME(blkhash_opts_get_block_size(opts), UINT32_MAX - 1);
    SAME(blkhash_opts_set_block_size(opts, 2), 0);

    SAME(blkhash_opts_set_threads(opts, 1), 0);
    SAME(blkhash_opts_set_threads(opts, 128), 0);
    SAME(blkhash_opts_set_threads(opts, 0), EINVAL);
    SAME(blkhash_opts_set_threads(opts, 129), EINVAL);
    SAME(blkhash_opts_set_threads(opts, 255), EINVAL);
    SAME(blkhash_opts_get_threads(opts), 128);

    SAME(blkhash_opts_set_queue_depth(opts, 65536), 0);
    SAME(blkhash_opts_set_queue_depth(opts, 65537), EINVAL);
    SAME(blkhash_opts_set_queue_depth(opts, (unsigned)-1), EINVAL);
    SAME(blkhash_opts_get_queue_depth(opts), 65536);
    SAME(blkhash_opts_set_queue_depth(opts, 0), 0);
    SAME(blkhash_opts_get_queue_depth(opts), 0);
    blkhash_opts_free(opts);
}

static void null_is_an_error(void)
{
    unsigned char md[BLKHASH_MAX_MD_SIZE];
    struct blkhash_completion done;

    errno = 0;
    CHECK(blkhash_opts_new(NULL) == NULL);
    SAME(errno, EINVAL);
    errno = 0;
    CHECK(blkhash_new_opts(NULL) == NULL);
    SAME(errno, EINVAL);

    SAME(blkhash_opts_set_block_size(NULL, 512), EINVAL);
    SAME(blkhash_opts_set_threads(NULL, 1), EINVAL);
    SAME(blkhash_opts_set_queue_depth(NULL, 1), EINVAL);
    errno = 0;
    CHECK(blkhash_opts_get_digest_name(NULL) == NULL);
    SAME(errno, EINVAL);
    SAME(blkhash_opts_get_block_size(NULL), 0);
    SAME(blkhash_opts_get_threads(NULL), 0);
    SAME(blkhash_opts_get_queue_depth(NULL), 0);

    SAME(blkhash_update(NULL, "", 1), EINVAL);
    SAME(blkhash_zero(NULL, 1), EINVAL);
    SAME(blkhash_aio_update(NULL, "", 1, NULL), EINVAL);
    SAME(blkhash_aio_completion_fd(NULL), -EINVAL);
    SAME(blkhash_aio_completions(NULL, &done, 1), -EINVAL);
    SAME(blkhash_final(NULL, md, NULL), EINVAL);
    blkhash_free(NULL);
}

static void unknown_digests(void)
{
    static const char *const names[] = {"", "nosuch", "sha", "openssl:", "openssl:nosuch", "sha256 ",
                                        "\xff\xfe", "sha256\n"};

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        errno = 0;
        CHECK(new_hash(names[i], 0, 1, 0) == NULL);
        SAME(errno, EINVAL);
    }
}

static void known_digests(void)
{
    static const char *const wanted[] = {
        "blake2b512", "blake2s256", "blake3",   "md5",      "md5-sha1", "null",       "ripemd160",
        "sha1",       "sha224",     "sha256",   "sha3-224", "sha3-256", "sha3-384",   "sha3-512",
        "sha384",     "sha512",     "sha512-224", "sha512-256", "shake128", "shake256", "sm3"};
    static const unsigned lengths[] = {64, 32, 32, 16, 36, 0, 20, 20, 28, 32, 28, 32, 48, 64,
                                       48, 64, 28, 32, 16, 32, 32};
    static const char *const others[] = {"SHA256", "sha-256", "SHA2-256", "sha512/256", "blake2b", "b3",
                                         "rmd160", "xxh3-64", "crc32c"};
    const char *names[30] = {NULL};
    unsigned char md[BLKHASH_MAX_MD_SIZE];

    SAME(blkhash_digests(NULL, 0), 21);
    SAME(blkhash_digests(names, 0), 0);
    CHECK(names[0] == NULL);
    SAME(blkhash_digests(names, 2), 2);
    CHECK(strcmp(names[1], "blake2s256") == 0 && names[2] == NULL);
    SAME(blkhash_digests(names, 30), 21);
    CHECK(names[21] == NULL);
    for (int i = 0; i < 21; i++) {
        unsigned len = 99;
        struct blkhash *h = new_hash(names[i], 0, 1, 0);

        CHECK(strcmp(names[i], wanted[i]) == 0);
        CHECK(h != NULL);
        SAME(blkhash_update(h, "abc", 3), 0);
        SAME(blkhash_final(h, md, &len), 0);
        SAME(len, lengths[i]);
        blkhash_free(h);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        struct blkhash *h = new_hash(others[i], 0, 1, 0);
        CHECK(h != NULL);
        blkhash_free(h);
    }
}

static void the_end_is_the_end(void)
{
    unsigned char md[BLKHASH_MAX_MD_SIZE];
    char hex[2 * BLKHASH_MAX_MD_SIZE + 1];
    struct blkhash *h = blkhash_new();

    CHECK(h != NULL);
    SAME(blkhash_update(h, NULL, 0), 0);
    SAME(blkhash_zero(h, 0), 0);
    final_hex(h, hex);
    CHECK(strcmp(hex, EMPTY_SHA256) == 0);
    SAME(blkhash_final(h, md, NULL), EINVAL);
    SAME(blkhash_update(h, "a", 1), EINVAL);
    SAME(blkhash_update(h, NULL, 0), EINVAL);
    SAME(blkhash_zero(h, 1), EINVAL);
    SAME(blkhash_aio_update(h, "a", 1, NULL), EINVAL);
    SAME(blkhash_final(h, md, NULL), EINVAL);
    blkhash_free(h);

    /* The message ends also where there is no room for its hash. */
    h = blkhash_new();
    SAME(blkhash_final(h, NULL, NULL), EINVAL);
    SAME(blkhash_update(h, "a", 1), EINVAL);
    SAME(blkhash_final(h, md, NULL), EINVAL);
    blkhash_free(h);

    h = blkhash_new();
    SAME(blkhash_final(h, md, NULL), 0);
    blkhash_free(h);
    blkhash_free(blkhash_new());
}

static void the_first_error_stays(void)
{
    unsigned char md[BLKHASH_MAX_MD_SIZE];
    struct blkhash *h = blkhash_new();

    SAME(blkhash_update(h, NULL, 1), EINVAL);
    SAME(blkhash_update(h, "a", 1), EINVAL);
    SAME(blkhash_zero(h, 1), EINVAL);
    SAME(blkhash_final(h, md, NULL), EINVAL);
    blkhash_free(h);

    h = blkhash_new();
    SAME(blkhash_update(h, "a", SIZE_MAX), EINVAL);
    SAME(blkhash_zero(h, 1), EINVAL);
    blkhash_free(h);

    h = new_hash("sha256", 0, 2, 4);
    SAME(blkhash_update(h, "abc", 3), 0);
    SAME(blkhash_zero(h, SIZE_MAX), EOVERFLOW);
    SAME(blkhash_update(h, "a", 1), EOVERFLOW);
    SAME(blkhash_update(h, NULL, 1), EOVERFLOW);
    SAME(blkhash_aio_update(h, "a", 1, NULL), EOVERFLOW);
    CHECK(!readable(blkhash_aio_completion_fd(h), 0));
    SAME(blkhash_final(h, md, NULL), EOVERFLOW);
    SAME(blkhash_final(h, md, NULL), EINVAL);
    SAME(blkhash_update(h, "a", 1), EINVAL);
    blkhash_free(h);
}

static void without_a_queue(void)
{
    struct blkhash_completion done;
    char hex[2 * BLKHASH_MAX_MD_SIZE + 1];
    struct blkhash *h = blkhash_new();

    SAME(blkhash_aio_completion_fd(h), -ENOTSUP);
    SAME(blkhash_aio_completions(h, &done, 1), -ENOTSUP);
    SAME(blkhash_aio_completions(h, NULL, 0), -ENOTSUP);
    SAME(blkhash_aio_update(h, "a", 1, NULL), ENOTSUP);
    /* Nothing was added, and nothing is lost. */
    SAME(blkhash_update(h, NULL, 0), 0);
    final_hex(h, hex);
    CHECK(strcmp(hex, EMPTY_SHA256) == 0);
    blkhash_free(h);
}

static void take(struct blkhash *h, void *user_data, int error)
{
    struct blkhash_completion done = {NULL, 12345};

    SAME(blkhash_aio_completions(h, &done, 1), 1);
    CHECK(done.user_data == user_data);
    SAME(done.error, error);
}

static void the_descriptor(void)
{
    struct blkhash_completion done[4] = {{NULL, 0}};
    uint64_t counter;
    int a, b, c;
    struct blkhash *h = new_hash("sha256", 0, 2, 3);
    int fd = blkhash_aio_completion_fd(h);

    CHECK(fd >= 0);
    SAME(blkhash_aio_completion_fd(h), fd);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    CHECK(!readable(fd, 0));
    SAME(read(fd, &counter, sizeof(counter)), -1);
    SAME(errno, EAGAIN);
    SAME(blkhash_aio_completions(h, done, 4), 0);
    SAME(blkhash_aio_completions(h, NULL, 0), 0);
    SAME(blkhash_aio_completions(h, NULL, 1), -EINVAL);

    /* Without bytes, and by a null pointer for user data: a completion as any other. */
    SAME(blkhash_aio_update(h, NULL, 0, NULL), 0);
    CHECK(readable(fd, LONG));
    SAME(read(fd, &counter, sizeof(counter)), sizeof(counter));
    take(h, NULL, 0);

    /* The queue is full until completions are taken, not only until the updates have ended. */
    SAME(blkhash_aio_update(h, data, MIB, &a), 0);
    SAME(blkhash_aio_update(h, data, 5, &b), 0);
    SAME(blkhash_aio_update(h, data, MIB, &c), 0);
    SAME(blkhash_aio_update(h, data, 1, NULL), EAGAIN);
    SAME(blkhash_update(h, data, 100), 0);
    CHECK(readable(fd, LONG));
    SAME(blkhash_aio_update(h, data, 1, NULL), EAGAIN);

    /* Whoever reads first and takes one at a time is woken up for each. */
    for (int i = 0; i < 3; i++) {
        int count;
        CHECK(readable(fd, LONG));
        SAME(read(fd, &counter, sizeof(counter)), sizeof(counter));
        count = blkhash_aio_completions(h, &done[i], 1);
        CHECK(count == 0 || count == 1);
        i -= count == 0;
    }
    CHECK(done[0].error == 0 && done[1].error == 0 && done[2].error == 0);
    CHECK((done[0].user_data == &a) + (done[1].user_data == &a) + (done[2].user_data == &a) == 1);
    CHECK((done[0].user_data == &b) + (done[1].user_data == &b) + (done[2].user_data == &b) == 1);
    CHECK((done[0].user_data == &c) + (done[1].user_data == &c) + (done[2].user_data == &c) == 1);
    /* A completion can be taken just before its wake-up comes; there are no more wake-ups than that. */
    for (int i = 0; i < 3 && readable(fd, 1000); i++)
        SAME(read(fd, &counter, sizeof(counter)), sizeof(counter));
    SAME(blkhash_aio_completions(h, done, 4), 0);
    CHECK(!readable(fd, 1000));

    /* After the end the rest can still be taken. */
    SAME(blkhash_aio_update(h, data, 3 * MIB, &a), 0);
    char hex[2 * BLKHASH_MAX_MD_SIZE + 1];
    final_hex(h, hex);
    CHECK(readable(fd, LONG));
    take(h, &a, 0);
    blkhash_free(h);
    SAME(fcntl(fd, F_GETFD), -1);
}

static int open_descriptors(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");

    CHECK(folder != NULL);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/* The buffers are freed as soon as blkhash_free() has returned. */
static void freed_in_flight(void)
{
    int before = open_descriptors();

    for (int round = 0; round < 12; round++) {
        unsigned char *buffers[16];
        struct blkhash *h = new_hash(round % 2 ? "sha512" : "md5", 4096, 1 + 5 * (unsigned)round, 16);

        CHECK(h != NULL);
        SAME(blkhash_update(h, data, 1000), 0);
        for (int i = 0; i < 16; i++) {
            buffers[i] = malloc(MIB);
            CHECK(buffers[i] != NULL);
            memset(buffers[i], i + 1, MIB);
            SAME(blkhash_aio_update(h, buffers[i], MIB, buffers[i]), 0);
        }
        if (round % 3 == 0)
            CHECK(readable(blkhash_aio_completion_fd(h), LONG));
        blkhash_free(h);
        for (int i = 0; i < 16; i++)
            free(buffers[i]);
    }
    SAME(open_descriptors(), before);
}

static volatile sig_atomic_t delivered;

static void on_signal(int number)
{
    (void)number;
    delivered++;
}

/* With the signal blocked here, it can only be delivered to a thread of the library. */
static void signals_stay_with_the_application(void)
{
    struct sigaction action;
    sigset_t set, before, after, pending;
    struct blkhash *h = new_hash("sha256", 0, 8, 0);

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    SAME(sigaction(SIGUSR1, &action, NULL), 0);
    SAME(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    SAME(blkhash_update(h, data, 8 * MIB), 0);
    SAME(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    for (int number = 1; number < NSIG; number++)
        SAME(sigismember(&after, number), sigismember(&before, number));

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    SAME(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
    SAME(kill(getpid(), SIGUSR1), 0);
    SAME(blkhash_update(h, data, 8 * MIB), 0);
    SAME(delivered, 0);
    SAME(sigpending(&pending), 0);
    SAME(sigismember(&pending, SIGUSR1), 1);
    SAME(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    SAME(delivered, 1);
    blkhash_free(h);
}

struct shared {
    struct blkhash *h;
    int taken;
};

static void *take_all(void *argument)
{
    struct shared *shared = argument;
    struct blkhash_completion done[3];
    uint64_t counter;
    int fd = blkhash_aio_completion_fd(shared->h), count;

    while (shared->taken < 200) {
        CHECK(readable(fd, LONG));
        SAME(read(fd, &counter, sizeof(counter)), sizeof(counter));
        do {
            count = blkhash_aio_completions(shared->h, done, 3);
            CHECK(count >= 0);
            for (int i = 0; i < count; i++)
                SAME(done[i].error, 0);
            shared->taken += count;
        } while (count == 3);
    }
    return NULL;
}

/* One thread adds, another takes completions. */
static void two_threads_on_one_handle(void)
{
    char hex[2 * BLKHASH_MAX_MD_SIZE + 1], wanted[2 * BLKHASH_MAX_MD_SIZE + 1];
    struct shared shared = {new_hash("sha1", 4096, 2, 8), 0};
    struct blkhash *other = new_hash("sha1", 4096, 1, 0);
    pthread_t taker;

    SAME(pthread_create(&taker, NULL, take_all, &shared), 0);
    for (int i = 0; i < 200; i++) {
        int error;
        while ((error = blkhash_aio_update(shared.h, data, 20000, data)) == EAGAIN)
            usleep(100);
        SAME(error, 0);
        SAME(blkhash_update(other, data, 20000), 0);
    }
    SAME(pthread_join(taker, NULL), 0);
    final_hex(shared.h, hex);
    final_hex(other, wanted);
    CHECK(strcmp(hex, wanted) == 0);
    blkhash_free(shared.h);
    blkhash_free(other);
}

/* Blocks longer than the library holds in memory are hashed as they come. */
static void very_long_blocks(void)
{
    char hex[2 * BLKHASH_MAX_MD_SIZE + 1], wanted[2 * BLKHASH_MAX_MD_SIZE + 1];
    struct blkhash *one = new_hash("sha256", 1u << 31, 3, 2);
    struct blkhash *two = new_hash("sha256", 1u << 31, 3, 0);

    SAME(blkhash_aio_update(one, data, 2 * MIB, data), 0);
    CHECK(readable(blkhash_aio_completion_fd(one), LONG));
    take(one, data, 0);
    SAME(blkhash_update(two, data, MIB), 0);
    SAME(blkhash_update(two, data + MIB, MIB), 0);
    SAME(blkhash_zero(one, 2 * MIB), 0);
    SAME(blkhash_zero(two, 2 * MIB), 0);
    final_hex(one, hex);
    final_hex(two, wanted);
    CHECK(strcmp(hex, wanted) == 0);
    blkhash_free(one);
    blkhash_free(two);
}

static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file != NULL);
    CHECK(fscanf(file, "%zu", &pages) == 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Without room for a thread's stack no thread can be started: a real failure in the middle. */
static void no_threads(void)
{
    struct rlimit old, tight;
    unsigned char md[BLKHASH_MAX_MD_SIZE];
    struct blkhash *h = new_hash("sha256", 0, 2, 2);
    struct blkhash *sync = new_hash("sha256", 512, 2, 0);
    int fd = blkhash_aio_completion_fd(h);
    struct blkhash_completion done[2];
    uint64_t counter;
    int error;

    /* A stage that is nearly full, so that no memory is needed for it below. */
    SAME(blkhash_update(sync, data, 1000 * 1024), 0);
    SAME(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = address_space() + 512 * 1024;
    SAME(setrlimit(RLIMIT_AS, &tight), 0);
    SAME(blkhash_aio_update(h, data, MIB, &done), 0);
    error = blkhash_update(sync, data, 100 * 1024);
    SAME(setrlimit(RLIMIT_AS, &old), 0);

    CHECK(readable(fd, LONG));
    SAME(read(fd, &counter, sizeof(counter)), sizeof(counter));
    SAME(blkhash_aio_completions(h, done, 2), 1);
    CHECK(done[0].user_data == &done);
    SAME(done[0].error, ENOMEM);
    SAME(blkhash_aio_completions(h, done, 2), 0);
    SAME(blkhash_update(h, "a", 1), ENOMEM);
    SAME(blkhash_aio_update(h, "a", 1, NULL), ENOMEM);
    SAME(blkhash_final(h, md, NULL), ENOMEM);
    SAME(blkhash_final(h, md, NULL), EINVAL);
    blkhash_free(h);

    SAME(error, ENOMEM);
    SAME(blkhash_zero(sync, 1), ENOMEM);
    SAME(blkhash_final(sync, md, NULL), ENOMEM);
    blkhash_free(sync);
}

/* Also for the threads of the tests before. */
static void no_thread_is_left(void)
{
    int tasks = 0;

    for (int patience = 0; patience < LONG; patience++) {
        struct dirent *entry;
        DIR *folder = opendir("/proc/self/task");

        CHECK(folder != NULL);
        tasks = 0;
        while ((entry = readdir(folder)) != NULL)
            tasks += entry->d_name[0] != '.';
        closedir(folder);
        if (tasks == 1)
            break;
        usleep(1000);
    }
    SAME(tasks, 1);
}

int main(int argc, char **argv)
{
    int limits = !(argc > 1 && strcmp(argv[1], "without-limits") == 0);

    data = malloc(8 * MIB);
    CHECK(data != NULL);
    for (int i = 0; i < 8 * MIB; i++)
        data[i] = (unsigned char)(i % 251 + 1);

    if (limits)
        no_threads();
    defaults();
    options_have_bounds();
    null_is_an_error();
    unknown_digests();
    known_digests();
    the_end_is_the_end();
    the_first_error_stays();
    without_a_queue();
    the_descriptor();
    freed_in_flight();
    signals_stay_with_the_application();
    two_threads_on_one_handle();
    very_long_blocks();
    no_thread_is_left();
    free(data);
    puts("all as promised");
    return 0;
}
