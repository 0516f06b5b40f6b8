/* An example of reel_mms.h: plays standard input to others while it comes.
 *
 *   cc -O2 -std=c11 -o pour pour.c
 *   ffmpeg -re -i film.mkv -c copy -f mpegts - | ./pour reel.sock studio 5000000 video/mp2t
 *   mpv http://127.0.0.1:8080/live/studio
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "reel_mms.h"

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: %s SOCKET NAME BITS_PER_SECOND TYPE\n", argv[0]);
        return 2;
    }
    struct reel_client *client = reel_connect(argv[1]);
    if (!client) {
        fprintf(stderr, "no server answers at %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    uint64_t bytes_per_s = strtoull(argv[3], NULL, 10) / 8, workahead = bytes_per_s / 2;
    if (workahead > REEL_POUR_BYTES_MAX / 2) workahead = REEL_POUR_BYTES_MAX / 2;
    struct reel_pour_wanted wanted = {
        .name = argv[2], .content_type = argv[4], .bytes_per_s = bytes_per_s,
        .workahead_bytes = workahead, .delay_ns = 1000000000};
    struct reel_poured *poured = reel_pour(client, &wanted);
    if (!poured) {
        fprintf(stderr, "%s\n", reel_error(client));
        return 1;
    }
    /* Whole packets of a transport stream, so that viewers begin with one; the rest at the end. */
    static char bytes[256 * 188];
    size_t held = 0, packet = strcmp(argv[4], "video/mp2t") == 0 ? 188 : 1;
    for (;;) {
        ssize_t got = read(STDIN_FILENO, bytes + held, sizeof bytes - held);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            perror("cannot read standard input");
            return 1;
        }
        held += (size_t)got;
        size_t whole = got > 0 ? held - held % packet : held;
        if (reel_put(client, poured, bytes, whole) != 0) {
            fprintf(stderr, "%s\n", reel_error(client));
            return 1;
        }
        memmove(bytes, bytes + whole, held - whole);
        held -= whole;
        if (got == 0) break;
    }
    int result = reel_end_pour(client, poured);
    if (result != 0) fprintf(stderr, "%s\n", reel_error(client));
    reel_disconnect(client);
    return result != 0;
}
