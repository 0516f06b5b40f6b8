/* An example of streams in step: plays tracks of a title to files or named pipes, each byte when it is due.
 *
 *   cc -O2 -std=c11 -o in_step in_step.c
 *   ./in_step reel.sock 0 'my-film#video=pictures.mp4' 'my-film#audio=sound.mp4'       from its beginning
 *   ./in_step reel.sock 62.5 'my-film#video=pictures.mp4' 'my-film#audio=sound.mp4'    from a minute later
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "reel_mms.h"
#include <time.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What is shown of a stream, and what comes next. */
struct shown {
    struct reel_message next;
    uint64_t shown_ns;
    int has_next, has_shown, file;
};

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

/* Shows all of a stream that is due, and gives it back. */
static int show_due(struct reel_client *client, struct reel_stream **stream, struct shown *shown) {
    for (;;) {
        if (!shown->has_next) {
            int taken = reel_read(client, stream, 1, &shown->next, 1, REEL_POLL);
            if (taken < 0) return fail(reel_error(client));
            shown->has_next = taken == 1;
        }
        /* The clock may have been moved since the message was taken. */
        uint64_t due_ns = shown->has_next ? reel_due_ns(&shown->next) : 0;
        if (!shown->has_next || (due_ns > now_ns() && due_ns != UINT64_MAX)) return 0;
        if (write(shown->file, shown->next.bytes, shown->next.length) != (ssize_t)shown->next.length) return fail("cannot write");
        shown->shown_ns = shown->next.shown_ns;
        shown->has_shown = 1;
        shown->has_next = 0;
        if (reel_give_back(client, *stream, 1) != 0) return fail(reel_error(client));
    }
}

int main(int argc, char **argv) {
    size_t count = argc > 3 ? (size_t)argc - 3 : 0;
    if (count < 1 || count > REEL_STEP_MAX) {
        fprintf(stderr, "usage: %s SOCKET SECONDS TITLE[#TRACK]=FILE...\n", argv[0]);
        return 2;
    }
    struct reel_client *client = reel_connect(argv[1]);
    if (!client) return fail("no server answers there");
    struct reel_wanted wanted[REEL_STEP_MAX] = {0};
    struct reel_stream *streams[REEL_STEP_MAX];
    struct shown all[REEL_STEP_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        char *file = strrchr(argv[i + 3], '=');
        if (!file) return fail("a stream is TITLE=FILE");
        *file++ = '\0';
        wanted[i].title = argv[i + 3];
        all[i].file = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (all[i].file < 0) return fail("a file cannot be written");
    }
    double seconds = strtod(argv[2], NULL);
    if (!(seconds >= 0 && seconds < 1e9)) return fail("the time is a number of seconds");
    if (reel_open_in_step(client, wanted, count, (uint64_t)(seconds * 1e9), streams) != 0) return fail(reel_error(client));
    uint64_t most_apart_ns = 0;
    size_t left = count;
    while (left > 0) {
        for (size_t i = 0; i < count; i++) {
            struct shown *shown = &all[i];
            struct reel_state state;
            if (!streams[i]) continue;
            if (show_due(client, &streams[i], shown) != 0) return 1;
            reel_states(&streams[i], 1, &state);
            if (state.ending == REEL_OPEN || shown->has_next) continue;
            if (state.ending != REEL_COMPLETE) return fail(reel_ending_text(state.ending));
            reel_close(client, &streams[i], 1);
            left--;
        }
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < count; j++)
                if (streams[i] && streams[j] && all[i].has_shown && all[j].has_shown && all[i].shown_ns > all[j].shown_ns + most_apart_ns)
                    most_apart_ns = all[i].shown_ns - all[j].shown_ns;
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    printf("at most %.0f ms apart\n", (double)most_apart_ns / 1e6);
    reel_disconnect(client);
    return 0;
}
