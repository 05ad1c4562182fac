/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/*
 * Checks block hashes: vectors LIST FORM SCHEDULE
 *
 * Each line of LIST is a vector: DIGEST BLOCK_SIZE HEX RUN..., where HEX is - for a digest without
 * bytes and a run is dLENGTH (data: the byte at offset i of the message is i mod 251 + 1) or zLENGTH
 * (zeros).
 *
 * FORM is the way into the library:
 *   simple  the message as bytes, by blkhash_update() in pieces of odd lengths
 *   zero    data by blkhash_update(), zeros by blkhash_zero()
 *   aio     the message as bytes, by blkhash_aio_update(), from as many buffers as the queue is deep
 *   mix     all three by turns
 *
 * SCHEDULE is "rotate" (each vector once; threads and queue depth go through 1 to 64), "few" (the same with
 * 1 to 4 threads) or "sweep" (each vector with every number of threads, while the queue depth goes through 1 to 64).
 */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

enum { MAX = 64, PIECE = 256 * 1024 };

struct vector {
    char *digest, *hex, *runs;
    uint32_t block_size;
};

struct slot {
    unsigned char *data;
    int in_flight;
};

static struct blkhash *hash;
static unsigned depth, in_flight;
static struct slot slots[MAX];

static unsigned char *content;
static size_t length, capacity;

/* The next run of a list: its kind, or 0 at the end. */
static char next_run(const char **runs, size_t *len)
{
    char *end;

    while (**runs == ' ')
        (*runs)++;
    char kind = **runs;
    if (kind == '\0')
        return 0;
    CHECK(kind == 'd' || kind == 'z');
    *len = (size_t)strtoull(*runs + 1, &end, 10);
    *runs = end;
    return kind;
}

static void fill(unsigned char *out, size_t offset, size_t len)
{
    unsigned next = (unsigned)(offset % 251);

    for (size_t i = 0; i < len; i++) {
        out[i] = (unsigned char)(next + 1);
        next = next == 250 ? 0 : next + 1;
    }
}

static void reserve(size_t wanted)
{
    if (wanted > capacity) {
        content = realloc(content, wanted);
        CHECK(content != NULL);
        capacity = wanted;
    }
}

/* Makes the message of a list of runs; keeps it while the list stays the same. */
static void make_content(const char *runs)
{
    static char *made;
    const char *rest = runs;
    size_t len;
    char kind;

    if (runs == NULL) {
        free(made);
        free(content);
        return;
    }
    if (made && strcmp(made, runs) == 0)
        return;
    free(made);
    made = strdup(runs);
    length = 0;
    reserve(1);
    while ((kind = next_run(&rest, &len)) != 0) {
        reserve(length + len);
        if (kind == 'd')
            fill(content + length, length, len);
        else
            memset(content + length, 0, len);
        length += len;
    }
}

/* Waits for the end of at least one update, by the documented protocol. */
static void take_completions(void)
{
    struct blkhash_completion done[7];
    uint64_t counter;
    int fd = blkhash_aio_completion_fd(hash), taken = 0, count;

    while (taken == 0) {
        CHECK(readable(fd, LONG));
        SAME(read(fd, &counter, sizeof(counter)), sizeof(counter));
        while ((count = blkhash_aio_completions(hash, done, 7)) != 0) {
            CHECK(count > 0 && count <= 7);
            for (int i = 0; i < count; i++) {
                struct slot *slot = done[i].user_data;
                SAME(done[i].error, 0);
                CHECK(slot >= slots && slot < slots + depth && slot->in_flight);
                /* It is ours again, and a library that still reads it would find something else. */
                memset(slot->data, 0xaa, PIECE);
                slot->in_flight = 0;
                in_flight--;
            }
            taken += count;
        }
    }
}

/* Adds bytes from a buffer of its own. */
static void aio(const unsigned char *data, size_t len)
{
    unsigned i = 0;

    CHECK(len <= PIECE);
    if (in_flight == depth) {
        SAME(blkhash_aio_update(hash, data, len, NULL), EAGAIN);
        take_completions();
    }
    while (slots[i].in_flight)
        i++;
    CHECK(i < depth);
    memcpy(slots[i].data, data, len);
    SAME(blkhash_aio_update(hash, slots[i].data, len, &slots[i]), 0);
    slots[i].in_flight = 1;
    in_flight++;
}

static size_t piece_len(unsigned turn, size_t left)
{
    static const size_t lengths[] = {PIECE, 65536, 100003, 4096, 131072, 777, 196608, 1, PIECE};
    size_t len = lengths[turn % (sizeof(lengths) / sizeof(*lengths))];

    return len < left ? len : left;
}

static void add_simple(unsigned turn)
{
    static const size_t lengths[] = {1048576, 65537, 7777777, 300000};
    size_t step = lengths[turn % 4];

    for (size_t at = 0; at < length; at += step)
        SAME(blkhash_update(hash, content + at, length - at < step ? length - at : step), 0);
}

static void add_runs(const char *runs)
{
    size_t at = 0, len;
    char kind;

    while ((kind = next_run(&runs, &len)) != 0) {
        if (kind == 'z') {
            SAME(blkhash_zero(hash, len), 0);
        } else {
            reserve(len);
            fill(content, at, len);
            SAME(blkhash_update(hash, content, len), 0);
        }
        at += len;
    }
}

static void add_aio(unsigned turn)
{
    for (size_t at = 0; at < length;) {
        size_t len = piece_len(turn++, length - at);
        aio(content + at, len);
        at += len;
    }
}

static void add_mix(const char *runs, unsigned turn)
{
    size_t at = 0, len;
    char kind;

    while ((kind = next_run(&runs, &len)) != 0) {
        while (len > 0) {
            size_t now = piece_len(turn, len);
            switch (turn++ % 5) {
            case 0:
            case 3:
                if (kind == 'z') {
                    SAME(blkhash_zero(hash, now), 0);
                    break;
                }
                /* fall through */
            case 1:
                SAME(blkhash_update(hash, content + at, now), 0);
                break;
            default:
                aio(content + at, now);
            }
            at += now;
            len -= now;
        }
    }
}

static void check(const struct vector *vector, const char *form, unsigned threads, unsigned turn)
{
    char hex[2 * BLKHASH_MAX_MD_SIZE + 1];
    int uses_queue = *form == 'a' || *form == 'm';

    hash = new_hash(vector->digest, vector->block_size, threads, uses_queue ? depth : 0);
    CHECK(hash != NULL);
    if (*form != 'z')
        make_content(vector->runs);
    if (*form == 's')
        add_simple(turn);
    else if (*form == 'z')
        add_runs(vector->runs);
    else if (*form == 'a')
        add_aio(turn);
    else
        add_mix(vector->runs, turn);
    /* Some of the time the hash is ended while updates are in flight. */
    while (in_flight > 0 && turn % 3 > 0)
        take_completions();
    final_hex(hash, hex);
    while (in_flight > 0)
        take_completions();
    if (strcmp(hex, strcmp(vector->hex, "-") == 0 ? "" : vector->hex) != 0) {
        fprintf(stderr, "%s, block size %u, runs %s, form %s, %u threads, queue depth %u: %s, not %s\n",
                vector->digest, vector->block_size, vector->runs, form, threads, depth, hex, vector->hex);
        exit(1);
    }
    blkhash_free(hash);
}

/* Cuts a line at its spaces, in place. */
static struct vector parse(char *line)
{
    struct vector vector;

    line[strcspn(line, "\n")] = '\0';
    vector.digest = strtok(line, " ");
    char *block_size = strtok(NULL, " ");
    vector.hex = strtok(NULL, " ");
    CHECK(vector.digest && block_size && vector.hex);
    vector.block_size = (uint32_t)strtoul(block_size, NULL, 10);
    vector.runs = strtok(NULL, "");
    if (vector.runs == NULL)
        vector.runs = "";
    return vector;
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t size = 0;
    unsigned number = 0, checks = 0;

    CHECK(argc == 4);
    FILE *list = fopen(argv[1], "r");
    CHECK(list != NULL);
    for (int i = 0; i < MAX; i++) {
        slots[i].data = malloc(PIECE);
        CHECK(slots[i].data != NULL);
    }
    for (; getline(&line, &size, list) > 0; number++) {
        struct vector vector = parse(line);
        int sweep = strcmp(argv[3], "sweep") == 0;
        unsigned most = strcmp(argv[3], "few") == 0 ? 4 : MAX;

        for (unsigned threads = 1; threads <= (sweep ? MAX : 1); threads++) {
            depth = 1 + (13 * number + 29 * threads) % MAX;
            check(&vector, argv[2], sweep ? threads : 1 + number % most, number + threads);
            checks++;
        }
    }
    CHECK(!ferror(list));
    fclose(list);
    make_content(NULL);
    for (int i = 0; i < MAX; i++)
        free(slots[i].data);
    free(line);
    printf("%u hashes\n", checks);
    return 0;
}
