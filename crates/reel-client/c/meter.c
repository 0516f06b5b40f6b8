/* An example of reel_mms.h under `reel tap --mapped`: counts the bytes of titles, and pours them on if `reel pour --mapped` is there, too. All of
 * it goes through memory that is shared with the server.
 *
 *   cc -O2 -std=c11 -o meter meter.c
 *   reel tap --mapped my-film -- ./meter
 *   reel tap --mapped my-film -- reel pour --mapped studio --rate 8M --type video/mp4 -- ./meter
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "reel_mms.h"

static int failed(const struct reel_client *client) {
    fprintf(stderr, "meter: %s\n", reel_error(client));
    return 1;
}

int main(void) {
    struct reel_client *tap, *pour;
    struct reel_stream *streams[REEL_INHERITED_MAX];
    struct reel_inherited inherited;
    int count = reel_inherit_tap(&tap, streams, REEL_INHERITED_MAX);
    if (count <= 0) return failed(tap);
    /* Without `reel pour --mapped`, standard output is for what was counted. */
    int pours = reel_inherit_pour(&pour, &inherited);
    if (pours < 0) return failed(pour);
    uint64_t bytes = 0, messages = 0;
    for (int left = count; left > 0;) {
        struct reel_message message = {0};
        int taken = reel_read(tap, streams, (size_t)left, &message, 1, REEL_WAIT);
        if (taken < 0) return failed(tap);
        if (taken == 1) {
            if (pours && reel_put(pour, inherited.poured, message.bytes, message.length) != 0) return failed(pour);
            if (reel_give_back(tap, message.stream, 1) != 0) return failed(tap);
            bytes += message.length;
            messages++;
            continue;
        }
        for (int i = 0; i < left; i++) {
            enum reel_ending ending = reel_ending_of(streams[i]);
            if (ending == REEL_OPEN) continue;
            if (ending != REEL_COMPLETE) {
                fprintf(stderr, "meter: %s\n", reel_ending_text(ending));
                return 1;
            }
            reel_close(tap, &streams[i], 1);
            streams[i--] = streams[--left];
        }
    }
    if (pours && reel_end_pour(pour, inherited.poured) != 0) return failed(pour);
    fprintf(pours ? stderr : stdout, "%d titles, %llu bytes in %llu messages\n", count, (unsigned long long)bytes, (unsigned long long)messages);
    reel_disconnect(pour);
    reel_disconnect(tap);
    return 0;
}
