/* An example of reel_mms.h: writes titles to standard output, one after the other, or a set of them to files.
 *
 *   cc -O2 -std=c11 -o tap tap.c
 *   ./tap reel.sock my-film | ffmpeg -i - ...
 *   ./tap reel.sock my-film=one.mp4 other-film=other.mp4
 *   ./tap --hold 65536 reel.sock my-film > copy.mp4           holds no more than that of it
 *   ./tap --then aperiodic reel.sock my-film > copy.mp4       begins with deadlines, and continues without
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "reel_mms.h"

#define TITLES_MAX 16

int main(int argc, char **argv) {
    const char *then = NULL, *program = argv[0];
    unsigned long long held_bytes = 0;
    while (argc > 2 && strncmp(argv[1], "--", 2) == 0) {
        if (strcmp(argv[1], "--then") == 0) then = argv[2];
        if (strcmp(argv[1], "--hold") == 0) held_bytes = strtoull(argv[2], NULL, 10);
        argv += 2;
        argc -= 2;
    }
    if (argc < 3 || argc > 2 + TITLES_MAX) {
        fprintf(stderr, "usage: %s [--then CLASS] [--hold BYTES] SOCKET TITLE[=FILE]...\n", program);
        return 2;
    }
    struct reel_client *client = reel_connect(argv[1]);
    if (!client) {
        fprintf(stderr, "no server answers at %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    struct reel_wanted wanted[TITLES_MAX] = {0};
    struct reel_stream *streams[TITLES_MAX];
    int files[TITLES_MAX];
    size_t count = (size_t)argc - 2;
    for (size_t i = 0; i < count; i++) {
        char *file = strchr(argv[i + 2], '=');
        if (file) *file++ = '\0';
        wanted[i].title = argv[i + 2];
        files[i] = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : STDOUT_FILENO;
        if (files[i] < 0) {
            fprintf(stderr, "cannot write %s: %s\n", file, strerror(errno));
            return 1;
        }
    }
    if (reel_open(client, wanted, count, streams) != 0) {
        fprintf(stderr, "%s\n", reel_error(client));
        return 1;
    }
    if (held_bytes > 0 && reel_resize(client, streams, count, held_bytes) != 0) {
        fprintf(stderr, "%s\n", reel_error(client));
        return 1;
    }
    for (size_t i = 0; then && i < count; i++)
        if (reel_change_class(client, streams[i], then) != 0) fprintf(stderr, "%s keeps its class: %s\n", wanted[i].title, reel_error(client));
    /* One call serves all of them; those that have ended leave the set. */
    struct reel_state states[TITLES_MAX];
    struct reel_stream *ended[TITLES_MAX];
    for (size_t left = count; left > 0;) {
        if (reel_read_send(client, streams, files, left, REEL_WAIT) < 0) {
            fprintf(stderr, "%s\n", reel_error(client));
            return 1;
        }
        reel_states(streams, left, states);
        size_t open = 0, over = 0;
        for (size_t i = 0; i < left; i++) {
            if (states[i].ending == REEL_OPEN || (states[i].ending == REEL_COMPLETE && states[i].held > 0)) {
                streams[open] = streams[i];
                files[open++] = files[i];
                continue;
            }
            if (states[i].ending != REEL_COMPLETE) {
                fprintf(stderr, "%s\n", reel_ending_text(states[i].ending));
                return 1;
            }
            ended[over++] = streams[i];
        }
        if (reel_close(client, ended, over) != 0) {
            fprintf(stderr, "%s\n", reel_error(client));
            return 1;
        }
        left = open;
    }
    reel_disconnect(client);
    return 0;
}
