/* Streams for programs: titles of a Reel server on this machine, read where they lie in its memory; and streams that a program pours into it
 * (reel_pour), also those that a command has opened for it (reel_inherit_tap, reel_inherit_pour), both at the end of this file.
 *
 *   struct reel_client *client = reel_connect("reel.sock");
 *   struct reel_wanted wanted = { .title = "my-film" };
 *   struct reel_stream *stream;
 *   if (!client || reel_open(client, &wanted, 1, &stream) != 0) return fprintf(stderr, "%s\n", reel_error(client));
 *   struct reel_message message;
 *   while (reel_read(client, &stream, 1, &message, 1, REEL_WAIT) > 0) {
 *       look_at(message.bytes, message.length);
 *       if (reel_give_back(client, stream, 1) != 0) break;      // what was looked at was taken back meanwhile
 *   }
 *   reel_close(client, &stream, 1);
 *   reel_disconnect(client);
 *
 * Calls take sets of streams: one call serves many. A client belongs to one thread. In steady state none of them calls the kernel.
 * What lies where, and why, is in docs/design/streams-for-programs.md. C11, Linux; everything is in this file.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef REEL_MMS_H
#define REEL_MMS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#endif
#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#endif
#ifndef F_SEAL_SHRINK
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- what lies in shared memory: indices of words of 8 bytes ---- */

enum reel_producer_word {
    REEL_P_MAGIC = 0,        /* "REELMMS1", written last */
    REEL_P_SLOTS = 1,        /* descriptors in the ring, a power of two */
    REEL_P_BYTES_AT = 2,     /* where bytes that are not of the arena begin */
    REEL_P_BYTES = 3,        /* how many of those there are */
    REEL_P_WRITTEN = 16,     /* messages written so far; alone in its cache lines */
    REEL_P_WAITS = 32,       /* a ticket while the producer waits for space, else 0 */
    REEL_P_WAITS_BELOW = 33, /* it is to be told when fewer messages than this are unread */
    REEL_P_EPOCH = 34,       /* grows when messages are taken back that were not read */
    REEL_P_ENDED = 35,       /* 0 while messages come, else an enum reel_ending */
    REEL_P_MOVED_NS = 36     /* by how much the clock of a stream in step was moved so far; only grows */
};

enum reel_consumer_word {
    REEL_C_READ = 0,        /* messages given back so far; alone in its cache lines */
    REEL_C_WAITS = 16,      /* a ticket while the consumer waits for messages, else 0 */
    REEL_C_WAITS_ABOVE = 17 /* it is to be told when more messages than this are unread */
};

enum reel_slot_word {
    REEL_S_TURN = 0,     /* number of the message plus one */
    REEL_S_OFFSET = 1,   /* where it lies, in bytes from the start of its memory */
    REEL_S_BYTES = 2,    /* its length (low 32 bits) and REEL_IN_PRODUCER */
    REEL_S_POSITION = 3, /* its place in the stream */
    REEL_S_DUE_NS = 4,   /* when it is due, CLOCK_MONOTONIC; all ones if at no fixed time */
    REEL_S_EPOCH = 5,    /* the epoch in which it was written */
    REEL_S_SHOWN_NS = 6, /* of a stream in step: the media time of its first byte; else 0 */
    REEL_S_MOVED_NS = 7  /* of a stream in step: REEL_P_MOVED_NS when it was written; else 0 */
};

#define REEL_IN_PRODUCER ((uint64_t)1 << 32)
#define REEL_SLOT_WORDS 8
#define REEL_SLOTS_AT_BYTES 4096
#define REEL_SLOTS_MAX ((uint64_t)1 << 16)

/* Why no more messages come. */
enum reel_ending {
    REEL_OPEN = 0,
    REEL_COMPLETE = 1,
    REEL_HELD_TOO_LONG = 2,
    REEL_BAD_COUNTER = 3,
    REEL_LOST = 4,
    REEL_STOPPED = 5,
    REEL_CLOSED = 6
};

/* ---- what is said on the socket ---- */

enum reel_op { REEL_OP_OPEN = 1, REEL_OP_CLOSE = 2, REEL_OP_BELL = 3, REEL_OP_CHANGE = 4, REEL_OP_POUR = 5, REEL_OP_RESIZE = 6, REEL_OP_OPEN_IN_STEP = 7 };

/* Why a stream was not opened, or keeps its class. A number that is not among these means REEL_REFUSED_OTHER: only the text says it. */
enum reel_refusal {
    REEL_REFUSED_OTHER = 1,
    REEL_REFUSED_NO_SUCH_TITLE = 2,
    REEL_REFUSED_BAD_REQUEST = 3,
    REEL_REFUSED_NOT_ADMITTED = 4,
    REEL_REFUSED_TOO_LONG = 5,
    REEL_REFUSED_UNAVAILABLE = 6
};

#define REEL_VERSION 3
#define REEL_TEXT_BYTES_MAX 1024
#define REEL_STEP_MAX 16

struct reel_request {
    char magic[4]; /* "RLMS" */
    uint16_t version, op;
    uint64_t tag, from; /* bytes; of a stream in step, nanoseconds of media time */
    uint16_t title_bytes, class_bytes;
    uint16_t number, of; /* of a stream in step: which one of how many; else 0 */
    char text[REEL_TEXT_BYTES_MAX];
};

/* A request to pour: two descriptors come with it, of the memory that the program writes and of that which the server writes. */
struct reel_pour_request {
    char magic[4];
    uint16_t version, op;
    uint64_t tag, zero_bytes;
    uint16_t name_bytes, type_bytes;
    uint32_t zero;
    uint64_t bytes_per_s, workahead_bytes, delay_ns, producer_bytes;
    char text[REEL_TEXT_BYTES_MAX];
};

struct reel_reply {
    char magic[4];
    uint16_t version, op;
    uint64_t tag;
    uint16_t refused, text_bytes; /* refused: 0, or a number of enum reel_refusal */
    uint32_t retry_after_s;
    uint64_t file_bytes, arena_bytes, producer_bytes, consumer_bytes;
    char text[REEL_TEXT_BYTES_MAX];
};

_Static_assert(offsetof(struct reel_request, text) == 32, "no holes");
_Static_assert(offsetof(struct reel_pour_request, text) == 64, "no holes");
_Static_assert(offsetof(struct reel_reply, text) == 56, "no holes");

/* ---- the interface ---- */

/* What to open. */
struct reel_wanted {
    const char *title; /* id of the title */
    const char *klass; /* name of the class; NULL for a stream with deadlines */
    uint64_t from_bytes;
};

/* A message in place: it stays until it is given back. */
struct reel_message {
    struct reel_stream *stream;
    const void *bytes;
    size_t length;
    uint64_t position; /* its place in the stream */
    uint64_t due_ns;   /* CLOCK_MONOTONIC; UINT64_MAX if at no fixed time; as it was when the message was written: reel_due_ns */
    uint64_t shown_ns; /* of a stream in step: the media time of its first byte */
    uint64_t moved_ns; /* of a stream in step: by how much its clock had been moved */
};

/* How a stream stands. */
struct reel_state {
    uint64_t file_bytes, done_bytes;
    uint64_t held; /* messages taken and not given back */
    enum reel_ending ending;
};

enum reel_wait { REEL_POLL = 0, REEL_WAIT = 1 };

struct reel_stream {
    uint64_t tag;
    const _Atomic uint64_t *theirs;
    _Atomic uint64_t *own;
    size_t theirs_bytes, own_bytes;
    const unsigned char *arena;
    size_t arena_bytes;
    uint64_t slots, written, taken, read, ticket, rung;
    uint64_t file_bytes, done_bytes;
    /* Of the first message held: bytes that reel_send has written. */
    size_t sent_bytes;
};

struct reel_client {
    int socket;
    const unsigned char *arena;
    size_t arena_bytes;
    uint64_t next_tag;
    uint64_t kernel_calls;
    char error[REEL_TEXT_BYTES_MAX + 64];
};

/* What a call that failed has to say. */
static inline const char *reel_error(const struct reel_client *client) {
    return client ? client->error : "there is no memory for a client";
}

static inline const char *reel_ending_text(enum reel_ending ending) {
    switch (ending) {
    case REEL_OPEN: return "the stream continues";
    case REEL_COMPLETE: return "the stream is complete";
    case REEL_HELD_TOO_LONG: return "messages were held for too long and were taken back";
    case REEL_BAD_COUNTER: return "the reader's counters were not true";
    case REEL_LOST: return "stored bytes are lost";
    case REEL_STOPPED: return "the server stops";
    case REEL_CLOSED: return "the stream was closed";
    }
    return "the server ended the stream";
}

/* ---- inside ---- */

static inline int reel_fail_(struct reel_client *client, const char *what, int error) {
    snprintf(client->error, sizeof client->error, error ? "%s: %s" : "%s", what, strerror(error));
    return -1;
}

static inline uint64_t reel_get_(const _Atomic uint64_t *words, size_t index) {
    return atomic_load_explicit(&words[index], memory_order_relaxed);
}

static inline void reel_set_(_Atomic uint64_t *words, size_t index, uint64_t value) {
    atomic_store_explicit(&words[index], value, memory_order_relaxed);
}

static inline int reel_say_(struct reel_client *client, enum reel_op op, uint64_t tag, const struct reel_wanted *wanted) {
    struct reel_request request = {.magic = "RLMS", .version = REEL_VERSION, .op = op, .tag = tag};
    size_t title = 0, klass = 0;
    memcpy(request.magic, "RLMS", 4);
    if (wanted) {
        title = strlen(wanted->title);
        klass = wanted->klass ? strlen(wanted->klass) : 0;
        if (title + klass > REEL_TEXT_BYTES_MAX) return reel_fail_(client, "the title's id is too long", 0);
        request.from = wanted->from_bytes;
        request.title_bytes = (uint16_t)title;
        request.class_bytes = (uint16_t)klass;
        memcpy(request.text, wanted->title, title);
        if (klass) memcpy(request.text + title, wanted->klass, klass);
    }
    size_t length = offsetof(struct reel_request, text) + title + klass;
    /* A bell that does not fit is one of many that the server has not heard yet. */
    int flags = MSG_NOSIGNAL | (op == REEL_OP_BELL ? MSG_DONTWAIT : 0);
    client->kernel_calls++;
    if (send(client->socket, &request, length, flags) < 0 && !(op == REEL_OP_BELL && errno == EAGAIN))
        return reel_fail_(client, "the server is gone", errno);
    return 0;
}

#define REEL_DESCRIPTORS_MAX 4

/* The next message in a socket and its descriptors; its bytes, 0 at the end, or -1. */
static inline ssize_t reel_receive_(int socket, void *message, size_t room, int *fds, int most, int *count, int flags) {
    union {
        char space[CMSG_SPACE(REEL_DESCRIPTORS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec vector = {.iov_base = message, .iov_len = room};
    struct msghdr header = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    *count = 0;
    ssize_t got = recvmsg(socket, &header, flags | MSG_CMSG_CLOEXEC);
    if (got < 0) return -1;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        size_t fits = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < fits; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            if (*count < most) fds[(*count)++] = fd;
            else close(fd);
        }
    }
    return got;
}

/* Whether these are the bytes of a server's message. */
static inline int reel_is_reply_(const struct reel_reply *reply, ssize_t got) {
    return (size_t)got >= offsetof(struct reel_reply, text) && memcmp(reply->magic, "RLMS", 4) == 0 &&
        reply->version == REEL_VERSION && reply->text_bytes == (size_t)got - offsetof(struct reel_reply, text);
}

/* The next message of the server: 1, or 0 if there is none now, or -1. */
static inline int reel_hear_(struct reel_client *client, struct reel_reply *reply, int fds[3], int *count, int flags) {
    client->kernel_calls++;
    ssize_t got = reel_receive_(client->socket, reply, sizeof *reply, fds, 3, count, flags);
    if (got < 0) return errno == EAGAIN || errno == EINTR ? 0 : reel_fail_(client, "the socket failed", errno);
    if (got == 0) return reel_fail_(client, "the server has closed the connection", 0);
    if (!reel_is_reply_(reply, got)) return reel_fail_(client, "the server does not speak this version of streams for programs", 0);
    return 1;
}

/* Maps memory that cannot become shorter; closes the descriptor. */
static inline void *reel_map_(int fd, uint64_t bytes, int protection) {
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    void *memory = MAP_FAILED;
    if (seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &status) == 0 && (uint64_t)status.st_size >= bytes && bytes > 0)
        memory = mmap(NULL, (size_t)bytes, protection, MAP_SHARED, fd, 0);
    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

static inline struct reel_stream *reel_map_stream_(struct reel_client *client, const struct reel_reply *reply, int fds[3]) {
    struct reel_stream *stream = calloc(1, sizeof *stream);
    if (client->arena) {
        close(fds[0]);
    } else {
        client->arena = reel_map_(fds[0], reply->arena_bytes, PROT_READ);
        client->arena_bytes = (size_t)reply->arena_bytes;
    }
    const _Atomic uint64_t *theirs = reel_map_(fds[1], reply->producer_bytes, PROT_READ);
    _Atomic uint64_t *own = reel_map_(fds[2], reply->consumer_bytes, PROT_READ | PROT_WRITE);
    uint64_t magic = 0, slots = 0;
    if (stream && client->arena && theirs && own && reply->producer_bytes >= REEL_SLOTS_AT_BYTES && reply->consumer_bytes >= 4096) {
        magic = reel_get_(theirs, REEL_P_MAGIC);
        atomic_thread_fence(memory_order_acquire);
        slots = reel_get_(theirs, REEL_P_SLOTS);
    }
    if (memcmp(&magic, "REELMMS1", 8) != 0 || slots == 0 || slots > REEL_SLOTS_MAX || (slots & (slots - 1)) ||
        REEL_SLOTS_AT_BYTES + slots * REEL_SLOT_WORDS * 8 > reply->producer_bytes) {
        if (theirs) munmap((void *)(uintptr_t)theirs, (size_t)reply->producer_bytes);
        if (own) munmap((void *)own, (size_t)reply->consumer_bytes);
        free(stream);
        reel_fail_(client, "the server's memory cannot be used", 0);
        return NULL;
    }
    stream->tag = reply->tag;
    stream->theirs = theirs;
    stream->own = own;
    stream->theirs_bytes = (size_t)reply->producer_bytes;
    stream->own_bytes = (size_t)reply->consumer_bytes;
    stream->arena = client->arena;
    stream->arena_bytes = client->arena_bytes;
    stream->slots = slots;
    stream->file_bytes = reply->file_bytes;
    return stream;
}

/* The next message of one stream, which is `taken`: 1, 0 if there is none, -1 if it lies nowhere. */
static inline int reel_look_(struct reel_client *client, struct reel_stream *stream, uint64_t number, struct reel_message *message) {
    if (number == stream->written) {
        uint64_t written = reel_get_(stream->theirs, REEL_P_WRITTEN);
        if (written <= number || written - stream->read > stream->slots) return 0;
        atomic_thread_fence(memory_order_acquire); /* the count before what it counts */
        stream->written = written;
    }
    size_t slot = REEL_SLOTS_AT_BYTES / 8 + (size_t)(number & (stream->slots - 1)) * REEL_SLOT_WORDS;
    if (reel_get_(stream->theirs, slot + REEL_S_TURN) != number + 1) return 0;
    uint64_t offset = reel_get_(stream->theirs, slot + REEL_S_OFFSET), bytes = reel_get_(stream->theirs, slot + REEL_S_BYTES);
    const unsigned char *memory = bytes & REEL_IN_PRODUCER ? (const unsigned char *)stream->theirs : stream->arena;
    size_t room = bytes & REEL_IN_PRODUCER ? stream->theirs_bytes : stream->arena_bytes;
    message->length = (size_t)(uint32_t)bytes;
    if (offset > room || message->length > room - offset)
        return reel_fail_(client, "a message lies outside of its memory", 0);
    message->stream = stream;
    message->bytes = memory + offset;
    message->position = reel_get_(stream->theirs, slot + REEL_S_POSITION);
    message->due_ns = reel_get_(stream->theirs, slot + REEL_S_DUE_NS);
    message->shown_ns = reel_get_(stream->theirs, slot + REEL_S_SHOWN_NS);
    message->moved_ns = reel_get_(stream->theirs, slot + REEL_S_MOVED_NS);
    return 1;
}

static inline int reel_is_valid_(const struct reel_stream *stream, uint64_t number) {
    size_t slot = REEL_SLOTS_AT_BYTES / 8 + (size_t)(number & (stream->slots - 1)) * REEL_SLOT_WORDS;
    uint64_t epoch = reel_get_(stream->theirs, slot + REEL_S_EPOCH);
    atomic_thread_fence(memory_order_acquire); /* what was looked at before this question */
    return reel_get_(stream->theirs, REEL_P_EPOCH) == epoch;
}

/* Raises the flag, then tests: 1 if the producer will tell, 0 if there is something already. */
static inline int reel_await_(struct reel_stream *stream) {
    uint64_t above = stream->taken - stream->read;
    reel_set_(stream->own, REEL_C_WAITS_ABOVE, above);
    atomic_thread_fence(memory_order_release);
    reel_set_(stream->own, REEL_C_WAITS, ++stream->ticket);
    atomic_thread_fence(memory_order_seq_cst); /* our flag before its count; there its count before our flag */
    if (reel_get_(stream->theirs, REEL_P_WRITTEN) - stream->read > above || reel_get_(stream->theirs, REEL_P_ENDED) != 0) {
        reel_set_(stream->own, REEL_C_WAITS, 0);
        return 0;
    }
    return 1;
}

/* ---- calls ---- */

/* Connects to the server whose socket is at `path`; NULL with errno set if there is none. */
static inline struct reel_client *reel_connect(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    strcpy(address.sun_path, path);
    struct reel_client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    client->next_tag = 1;
    client->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (client->socket < 0 || connect(client->socket, (struct sockaddr *)&address, sizeof address) != 0) {
        int error = errno;
        if (client->socket >= 0) close(client->socket);
        free(client);
        errno = error;
        return NULL;
    }
    return client;
}

/* Asks for one stream of a set in step. */
static inline int reel_ask_in_step_(struct reel_client *client, uint64_t tag, const struct reel_wanted *wanted, uint64_t from_ns, size_t number, size_t of) {
    struct reel_request request = {.version = REEL_VERSION, .op = REEL_OP_OPEN_IN_STEP, .tag = tag, .from = from_ns};
    size_t title = strlen(wanted->title), klass = wanted->klass ? strlen(wanted->klass) : 0;
    if (title + klass > REEL_TEXT_BYTES_MAX) return reel_fail_(client, "the title's id is too long", 0);
    memcpy(request.magic, "RLMS", 4);
    request.title_bytes = (uint16_t)title;
    request.class_bytes = (uint16_t)klass;
    request.number = (uint16_t)number;
    request.of = (uint16_t)of;
    memcpy(request.text, wanted->title, title);
    if (klass) memcpy(request.text + title, wanted->klass, klass);
    client->kernel_calls++;
    if (send(client->socket, &request, offsetof(struct reel_request, text) + title + klass, MSG_NOSIGNAL) < 0)
        return reel_fail_(client, "the server is gone", errno);
    return 0;
}

static inline int reel_close(struct reel_client *client, struct reel_stream **set, size_t count);

/* Opens `count` streams (at most REEL_STEP_MAX) that are in step: titles, or tracks such as film#video, film#audio, film#text and film#3, all
 * from the media time `from_ns` and in one class (that of the first; from_bytes is not used). They are admitted together: 0; else -1, all are
 * NULL, and reel_error says why. What they have of one media time is due at the same time. When one of them is late, the clock of all is
 * moved, so ask reel_due_ns when a message is due, and give back what was due: the clock stands while a program keeps it. */
static inline int reel_open_in_step(struct reel_client *client, const struct reel_wanted *wanted, size_t count, uint64_t from_ns, struct reel_stream **streams) {
    uint64_t first = client->next_tag;
    int result = 0;
    for (size_t i = 0; i < count; i++) streams[i] = NULL;
    if (count == 0 || count > REEL_STEP_MAX) return reel_fail_(client, "1 to 16 streams can be in step", 0);
    for (size_t i = 0; i < count; i++) {
        struct reel_wanted one = {.title = wanted[i].title, .klass = wanted[0].klass};
        if (strlen(one.title) + (one.klass ? strlen(one.klass) : 0) > REEL_TEXT_BYTES_MAX) return reel_fail_(client, "the title's id is too long", 0);
    }
    client->next_tag += count;
    for (size_t i = 0; i < count; i++) {
        struct reel_wanted one = {.title = wanted[i].title, .klass = wanted[0].klass};
        if (reel_ask_in_step_(client, first + i, &one, from_ns, i, count) != 0) return -1;
    }
    /* All are answered when all were asked for. */
    for (size_t answers = 0; answers < count;) {
        struct reel_reply reply;
        int fds[3], descriptors, heard = reel_hear_(client, &reply, fds, &descriptors, 0);
        int ours = heard == 1 && reply.op == REEL_OP_OPEN && reply.tag >= first && reply.tag - first < count;
        if (ours && !reply.refused && descriptors == 3 && !streams[reply.tag - first]) {
            streams[reply.tag - first] = reel_map_stream_(client, &reply, fds);
            if (!streams[reply.tag - first]) result = -1;
            answers++;
            continue;
        }
        for (int d = 0; d < descriptors; d++) close(fds[d]);
        if (heard < 0) return -1;
        if (!ours) continue;
        snprintf(client->error, sizeof client->error, "%.*s", (int)reply.text_bytes, reply.text);
        result = -1;
        answers++;
    }
    if (result != 0) {
        char error[sizeof client->error];
        memcpy(error, client->error, sizeof error);
        reel_close(client, streams, count);
        memcpy(client->error, error, sizeof error);
    }
    return result;
}

/* When a message is due, CLOCK_MONOTONIC: as it says, or later by as much as the clock of its set was moved since. UINT64_MAX if at no fixed
 * time. Calls no kernel. */
static inline uint64_t reel_due_ns(const struct reel_message *message) {
    uint64_t moved = reel_get_(message->stream->theirs, REEL_P_MOVED_NS);
    uint64_t more = moved > message->moved_ns ? moved - message->moved_ns : 0;
    return message->due_ns > UINT64_MAX - more ? UINT64_MAX : message->due_ns + more;
}

/* Opens `count` streams; those that are refused are NULL. 0 if all were opened; else -1, and reel_error says why the last was not. */
static inline int reel_open(struct reel_client *client, const struct reel_wanted *wanted, size_t count, struct reel_stream **streams) {
    int result = 0;
    for (size_t i = 0; i < count; i++) streams[i] = NULL;
    for (size_t i = 0; i < count; i++) {
        uint64_t tag = client->next_tag++;
        if (reel_say_(client, REEL_OP_OPEN, tag, &wanted[i]) != 0) return -1;
        for (;;) {
            struct reel_reply reply;
            int fds[3], descriptors, heard = reel_hear_(client, &reply, fds, &descriptors, 0);
            if (heard == 1 && reply.op == REEL_OP_OPEN && reply.tag == tag && !reply.refused && descriptors == 3) {
                streams[i] = reel_map_stream_(client, &reply, fds);
                if (!streams[i]) result = -1;
                break;
            }
            for (int d = 0; d < descriptors; d++) close(fds[d]);
            if (heard < 0) return -1;
            if (heard == 1 && reply.op == REEL_OP_OPEN && reply.tag == tag) {
                snprintf(client->error, sizeof client->error, "%.*s", (int)reply.text_bytes, reply.text);
                result = -1;
                break;
            }
        }
    }
    return result;
}

/* Changes how many bytes of each stream of a set are there at most that were not given back, from now on: at least one message, and no more
 * than a stream begins with (1 MiB). 0, or -1 if the connection failed. */
static inline int reel_resize(struct reel_client *client, struct reel_stream *const *set, size_t count, uint64_t held_bytes) {
    for (size_t i = 0; i < count; i++) {
        struct reel_wanted wanted = {.title = "", .klass = "", .from_bytes = held_bytes};
        if (set[i] && reel_say_(client, REEL_OP_RESIZE, set[i]->tag, &wanted) != 0) return -1;
    }
    return 0;
}

/* Has a stream continue in another class, by its name; NULL for that of streams with deadlines. It is admitted there, and no byte is lost or
 * comes twice: 0. Else -1: it keeps its class and what is reserved for it, and reel_error says why. */
static inline int reel_change_class(struct reel_client *client, struct reel_stream *stream, const char *klass) {
    struct reel_wanted wanted = {.title = "", .klass = klass};
    if (reel_say_(client, REEL_OP_CHANGE, stream->tag, &wanted) != 0) return -1;
    for (;;) {
        struct reel_reply reply;
        int fds[3], descriptors, heard = reel_hear_(client, &reply, fds, &descriptors, 0);
        for (int d = 0; d < descriptors; d++) close(fds[d]);
        if (heard < 0) return -1;
        if (heard == 0 || reply.op != REEL_OP_CHANGE || reply.tag != stream->tag) continue;
        if (!reply.refused) return 0;
        snprintf(client->error, sizeof client->error, "%.*s", (int)reply.text_bytes, reply.text);
        return -1;
    }
}

static inline enum reel_ending reel_ending_of(const struct reel_stream *stream) {
    uint64_t ending = reel_get_(stream->theirs, REEL_P_ENDED);
    atomic_thread_fence(memory_order_acquire);
    if (ending == REEL_COMPLETE && reel_get_(stream->theirs, REEL_P_WRITTEN) != stream->taken) return REEL_OPEN;
    return (enum reel_ending)ending;
}

/* Takes up to `most` messages of a set of streams; how many, or -1. With REEL_WAIT it waits until there is one, or one of the streams has
 * ended: then 0. */
static inline int reel_read(struct reel_client *client, struct reel_stream *const *set, size_t count, struct reel_message *messages, int most, enum reel_wait wait) {
    for (;;) {
        int taken = 0, ended = 0, sleeps = 1;
        for (size_t i = 0; i < count; i++) {
            struct reel_stream *stream = set[i];
            while (stream && taken < most) {
                int found = reel_look_(client, stream, stream->taken, &messages[taken]);
                if (found < 0) return -1;
                if (found == 0) break;
                stream->taken++;
                taken++;
            }
            ended |= !stream || reel_ending_of(stream) != REEL_OPEN;
        }
        if (taken > 0 || ended || wait == REEL_POLL) return taken;
        for (size_t i = 0; i < count; i++) sleeps &= reel_await_(set[i]);
        int result = 1;
        if (sleeps) {
            struct pollfd socket = {.fd = client->socket, .events = POLLIN};
            client->kernel_calls++;
            result = poll(&socket, 1, -1) < 0 && errno != EINTR ? reel_fail_(client, "poll", errno) : 1;
            while (result == 1) {
                struct reel_reply bell;
                int fds[3], descriptors;
                result = reel_hear_(client, &bell, fds, &descriptors, MSG_DONTWAIT);
                for (int d = 0; d < descriptors; d++) close(fds[d]);
            }
        }
        for (size_t i = 0; i < count; i++) reel_set_(set[i]->own, REEL_C_WAITS, 0);
        if (result < 0) return -1;
    }
}

/* Gives the oldest `count` messages of a stream back. -1 if they were taken back before: then what was read of them is not to be trusted. */
static inline int reel_give_back(struct reel_client *client, struct reel_stream *stream, uint64_t count) {
    if (count > stream->taken - stream->read) return reel_fail_(client, "more messages are given back than were taken", 0);
    if (count == 0) return 0;
    if (!reel_is_valid_(stream, stream->read + count - 1))
        return reel_fail_(client, reel_ending_text(reel_ending_of(stream)), 0);
    for (uint64_t i = 0; i < count; i++) {
        size_t slot = REEL_SLOTS_AT_BYTES / 8 + (size_t)((stream->read + i) & (stream->slots - 1)) * REEL_SLOT_WORDS;
        stream->done_bytes += (uint32_t)reel_get_(stream->theirs, slot + REEL_S_BYTES);
    }
    stream->read += count;
    stream->sent_bytes = 0;
    atomic_thread_fence(memory_order_release); /* the bytes were read before the count says so */
    reel_set_(stream->own, REEL_C_READ, stream->read);
    atomic_thread_fence(memory_order_seq_cst); /* our count before its flag */
    uint64_t ticket = reel_get_(stream->theirs, REEL_P_WAITS);
    if (ticket == 0 || ticket == stream->rung) return 0;
    atomic_thread_fence(memory_order_acquire);
    if (reel_get_(stream->theirs, REEL_P_WRITTEN) - stream->read >= reel_get_(stream->theirs, REEL_P_WAITS_BELOW)) return 0;
    stream->rung = ticket;
    return reel_say_(client, REEL_OP_BELL, 0, NULL);
}

/* Writes what is held of each stream to its file descriptor and gives it back; the bytes written, or -1. Stops at a descriptor that takes
 * no more now. */
static inline int64_t reel_send(struct reel_client *client, struct reel_stream *const *set, const int *files, size_t count) {
    int64_t all = 0;
    for (size_t i = 0; i < count; i++) {
        struct reel_stream *stream = set[i];
        while (stream && stream->read < stream->taken) {
            struct reel_message message;
            if (reel_look_(client, stream, stream->read, &message) != 1) return reel_fail_(client, "a message is gone", 0);
            ssize_t wrote = write(files[i], (const char *)message.bytes + stream->sent_bytes, message.length - stream->sent_bytes);
            if (wrote < 0 && errno == EINTR) continue;
            if (wrote < 0 && errno == EAGAIN) break;
            if (wrote < 0) return reel_fail_(client, "cannot write", errno);
            all += wrote;
            stream->sent_bytes += (size_t)wrote;
            if (stream->sent_bytes == message.length && reel_give_back(client, stream, 1) != 0) return -1;
        }
    }
    return all;
}

/* Both: takes what has come for each stream and writes it to its descriptor. */
static inline int64_t reel_read_send(struct reel_client *client, struct reel_stream *const *set, const int *files, size_t count, enum reel_wait wait) {
    struct reel_message messages[64];
    if (reel_read(client, set, count, messages, 64, wait) < 0) return -1;
    return reel_send(client, set, files, count);
}

/* How streams stand. Calls no kernel. */
static inline void reel_states(struct reel_stream *const *set, size_t count, struct reel_state *states) {
    for (size_t i = 0; i < count; i++) {
        states[i] = (struct reel_state){.ending = REEL_CLOSED};
        if (!set[i]) continue;
        states[i].file_bytes = set[i]->file_bytes;
        states[i].done_bytes = set[i]->done_bytes;
        states[i].held = set[i]->taken - set[i]->read;
        states[i].ending = reel_ending_of(set[i]);
    }
}

/* Ends streams. */
static inline int reel_close(struct reel_client *client, struct reel_stream **set, size_t count) {
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        if (!set[i]) continue;
        if (reel_say_(client, REEL_OP_CLOSE, set[i]->tag, NULL) != 0) result = -1;
        munmap((void *)(uintptr_t)set[i]->theirs, set[i]->theirs_bytes);
        munmap((void *)set[i]->own, set[i]->own_bytes);
        free(set[i]);
        set[i] = NULL;
    }
    return result;
}

/* ---- pouring: a stream that is played to others while it is written (docs/programs.md) ---- */

#define REEL_POUR_SLOTS 256
#define REEL_POUR_MESSAGE_BYTES_MAX 65536
#define REEL_POUR_BYTES_MAX ((uint64_t)8 << 20)
#define REEL_CONSUMER_BYTES 4096

/* What to pour. */
struct reel_pour_wanted {
    const char *name;         /* it is played at /live/NAME */
    const char *content_type; /* such as video/mp2t */
    uint64_t bytes_per_s;     /* the server takes no more */
    uint64_t workahead_bytes; /* what it takes before its time */
    uint64_t delay_ns;        /* how long after its time a byte is due at a viewer */
};

/* A stream that is poured. */
struct reel_poured {
    uint64_t tag;
    _Atomic uint64_t *own;
    const _Atomic uint64_t *theirs;
    size_t own_bytes;
    uint64_t written, read, ticket, rung, position;
    /* The ring of bytes: how many there are, were taken and were given back; and what each unread message has taken. */
    uint64_t space, taken, freed, taken_by[REEL_POUR_SLOTS];
};

/* Makes memory for two processes, which the other one can write or not; its descriptor is in `fd`. */
static inline void *reel_share_(const char *name, size_t bytes, int others_write, int *fd) {
    *fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0) return NULL;
    void *memory = MAP_FAILED;
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | (others_write ? 0 : F_SEAL_FUTURE_WRITE);
    if (ftruncate(*fd, (off_t)bytes) == 0) memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (memory != MAP_FAILED && fcntl(*fd, F_ADD_SEALS, seals) == 0) return memory;
    if (memory != MAP_FAILED) munmap(memory, bytes);
    close(*fd);
    return NULL;
}

/* Asks for a stream to be poured, with its two memories; the server's answer. */
static inline int reel_ask_to_pour_(struct reel_client *client, const struct reel_poured *poured, const struct reel_pour_wanted *wanted, const int fds[2]) {
    struct reel_pour_request request = {.version = REEL_VERSION, .op = REEL_OP_POUR, .tag = poured->tag};
    size_t name = strlen(wanted->name), type = strlen(wanted->content_type);
    if (name + type > REEL_TEXT_BYTES_MAX) return reel_fail_(client, "the name of the stream is too long", 0);
    memcpy(request.magic, "RLMS", 4);
    request.name_bytes = (uint16_t)name;
    request.type_bytes = (uint16_t)type;
    request.bytes_per_s = wanted->bytes_per_s;
    request.workahead_bytes = wanted->workahead_bytes;
    request.delay_ns = wanted->delay_ns;
    request.producer_bytes = poured->own_bytes;
    memcpy(request.text, wanted->name, name);
    memcpy(request.text + name, wanted->content_type, type);
    union {
        char space[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {.space = {0}};
    struct iovec vector = {.iov_base = &request, .iov_len = offsetof(struct reel_pour_request, text) + name + type};
    struct msghdr header = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    struct cmsghdr *part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(part), fds, 2 * sizeof(int));
    client->kernel_calls++;
    if (sendmsg(client->socket, &header, MSG_NOSIGNAL) < 0) return reel_fail_(client, "the server is gone", errno);
    for (;;) {
        struct reel_reply reply;
        int given[3], descriptors, heard = reel_hear_(client, &reply, given, &descriptors, 0);
        for (int d = 0; d < descriptors; d++) close(given[d]);
        if (heard < 0) return -1;
        if (heard == 0 || reply.op != REEL_OP_POUR || reply.tag != poured->tag) continue;
        if (!reply.refused) return 0;
        snprintf(client->error, sizeof client->error, "%.*s", (int)reply.text_bytes, reply.text);
        return -1;
    }
}

static inline void reel_free_poured_(struct reel_poured *poured) {
    if (poured->own) munmap((void *)poured->own, poured->own_bytes);
    if (poured->theirs) munmap((void *)(uintptr_t)poured->theirs, REEL_CONSUMER_BYTES);
    free(poured);
}

/* Pours a stream; NULL if it is refused, and reel_error says why. */
static inline struct reel_poured *reel_pour(struct reel_client *client, const struct reel_pour_wanted *wanted) {
    struct reel_poured *poured = calloc(1, sizeof *poured);
    if (!poured) {
        reel_fail_(client, "there is no memory for a stream", errno);
        return NULL;
    }
    size_t at = REEL_SLOTS_AT_BYTES + REEL_POUR_SLOTS * REEL_SLOT_WORDS * 8;
    uint64_t space = wanted->workahead_bytes + wanted->bytes_per_s / 4;
    if (space < 2 * REEL_POUR_MESSAGE_BYTES_MAX) space = 2 * REEL_POUR_MESSAGE_BYTES_MAX;
    if (space > REEL_POUR_BYTES_MAX) space = REEL_POUR_BYTES_MAX;
    poured->space = (space + 4095) / 4096 * 4096;
    poured->own_bytes = at + (size_t)poured->space;
    poured->tag = client->next_tag++;
    int fds[2] = {-1, -1};
    poured->own = reel_share_("reel-poured", poured->own_bytes, 0, &fds[0]);
    poured->theirs = poured->own ? reel_share_("reel-poured-reader", REEL_CONSUMER_BYTES, 1, &fds[1]) : NULL;
    if (!poured->theirs) {
        reel_fail_(client, "there is no memory for a stream", errno);
        if (poured->own) close(fds[0]);
        reel_free_poured_(poured);
        return NULL;
    }
    reel_set_(poured->own, REEL_P_SLOTS, REEL_POUR_SLOTS);
    reel_set_(poured->own, REEL_P_BYTES_AT, at);
    reel_set_(poured->own, REEL_P_BYTES, poured->space);
    reel_set_(poured->own, REEL_P_EPOCH, 1);
    atomic_thread_fence(memory_order_release);
    uint64_t magic;
    memcpy(&magic, "REELMMS1", 8);
    reel_set_(poured->own, REEL_P_MAGIC, magic);
    int result = reel_ask_to_pour_(client, poured, wanted, fds);
    close(fds[0]);
    close(fds[1]);
    if (result == 0) return poured;
    reel_free_poured_(poured);
    return NULL;
}

/* Takes back the memory of what the server has read. */
static inline int reel_reclaim_(struct reel_client *client, struct reel_poured *poured) {
    uint64_t read = reel_get_(poured->theirs, REEL_C_READ);
    if (read < poured->read || read > poured->written) return reel_fail_(client, "the server's counters are impossible", 0);
    atomic_thread_fence(memory_order_acquire); /* the count before the memory that it frees is written */
    for (; poured->read < read; poured->read++) poured->freed += poured->taken_by[poured->read % REEL_POUR_SLOTS];
    return 0;
}

/* Writes one message if there is room: 1, or 0 if there is none. */
static inline int reel_post_(struct reel_poured *poured, const void *bytes, size_t length) {
    uint64_t at = poured->taken % poured->space, left_out = at + length > poured->space ? poured->space - at : 0;
    if (poured->written - poured->read == REEL_POUR_SLOTS || poured->taken - poured->freed + left_out + length > poured->space) return 0;
    at = REEL_SLOTS_AT_BYTES + REEL_POUR_SLOTS * REEL_SLOT_WORDS * 8 + (at + left_out) % poured->space;
    memcpy((unsigned char *)(uintptr_t)poured->own + at, bytes, length);
    size_t slot = REEL_SLOTS_AT_BYTES / 8 + (size_t)(poured->written % REEL_POUR_SLOTS) * REEL_SLOT_WORDS;
    reel_set_(poured->own, slot + REEL_S_OFFSET, at);
    reel_set_(poured->own, slot + REEL_S_BYTES, length | REEL_IN_PRODUCER);
    reel_set_(poured->own, slot + REEL_S_POSITION, poured->position);
    reel_set_(poured->own, slot + REEL_S_DUE_NS, UINT64_MAX);
    reel_set_(poured->own, slot + REEL_S_EPOCH, 1);
    reel_set_(poured->own, slot + REEL_S_TURN, poured->written + 1);
    poured->taken_by[poured->written % REEL_POUR_SLOTS] = left_out + length;
    poured->taken += left_out + length;
    poured->position += length;
    poured->written++;
    atomic_thread_fence(memory_order_release); /* the message before the count */
    reel_set_(poured->own, REEL_P_WRITTEN, poured->written);
    return 1;
}

/* Tells the server that there are messages, if it waits for them. */
static inline int reel_tell_(struct reel_client *client, struct reel_poured *poured) {
    atomic_thread_fence(memory_order_seq_cst); /* our count before its flag */
    uint64_t ticket = reel_get_(poured->theirs, REEL_C_WAITS);
    if (ticket == 0 || ticket == poured->rung) return 0;
    atomic_thread_fence(memory_order_acquire);
    if (poured->written - reel_get_(poured->theirs, REEL_C_READ) <= reel_get_(poured->theirs, REEL_C_WAITS_ABOVE)) return 0;
    poured->rung = ticket;
    return reel_say_(client, REEL_OP_BELL, 0, NULL);
}

/* Waits until fewer than `level` messages are unread. */
static inline int reel_await_reads_(struct reel_client *client, struct reel_poured *poured, uint64_t level) {
    for (;;) {
        reel_set_(poured->own, REEL_P_WAITS_BELOW, level);
        atomic_thread_fence(memory_order_release);
        reel_set_(poured->own, REEL_P_WAITS, ++poured->ticket);
        atomic_thread_fence(memory_order_seq_cst); /* our flag before its count */
        int result = reel_reclaim_(client, poured);
        if (result == 0 && poured->written - poured->read >= level) {
            struct reel_reply bell;
            int fds[3], descriptors;
            result = reel_hear_(client, &bell, fds, &descriptors, 0);
            for (int d = 0; d < descriptors; d++) close(fds[d]);
            result = result < 0 ? -1 : 1;
        }
        reel_set_(poured->own, REEL_P_WAITS, 0);
        if (result <= 0) return result;
    }
}

/* Puts bytes into a stream; waits while it is ahead of its rate by as much as it may be. */
static inline int reel_put(struct reel_client *client, struct reel_poured *poured, const void *bytes, size_t length) {
    const unsigned char *left = bytes;
    while (length > 0) {
        size_t message = length < REEL_POUR_MESSAGE_BYTES_MAX ? length : REEL_POUR_MESSAGE_BYTES_MAX;
        if (reel_reclaim_(client, poured) != 0) return -1;
        if (reel_post_(poured, left, message)) {
            left += message;
            length -= message;
        } else if (reel_tell_(client, poured) != 0 || reel_await_reads_(client, poured, (poured->written - poured->read + 1) / 2) != 0) {
            return -1;
        }
    }
    return reel_tell_(client, poured);
}

/* Ends a stream when the server has taken all of it. */
static inline int reel_end_pour(struct reel_client *client, struct reel_poured *poured) {
    int result = reel_await_reads_(client, poured, 1);
    reel_set_(poured->own, REEL_P_ENDED, REEL_COMPLETE);
    atomic_thread_fence(memory_order_seq_cst);
    if (result == 0) result = reel_say_(client, REEL_OP_CLOSE, poured->tag, NULL);
    reel_free_poured_(poured);
    return result;
}

/* ---- streams that a command has opened for this program: reel tap --mapped, reel pour --mapped (docs/programs.md) ---- */

#define REEL_INHERITED_MAX 16

/* A stream that was begun for this program, and what was declared; the texts are in `text`. */
struct reel_inherited {
    struct reel_poured *poured;
    struct reel_pour_wanted wanted;
    char text[REEL_TEXT_BYTES_MAX + 2];
};

/* A message that waits in standard input or output, with its descriptors; its bytes, or 0 if there is none. */
static inline size_t reel_waiting_(int standard, void *message, size_t room, int fds[4], int *count) {
    int domain = 0, type = 0;
    socklen_t bytes = sizeof domain;
    *count = 0;
    if (getsockopt(standard, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain != AF_UNIX) return 0;
    if (getsockopt(standard, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 || type != SOCK_SEQPACKET) return 0;
    ssize_t got = reel_receive_(standard, message, room, fds, 4, count, MSG_DONTWAIT);
    return got > 0 ? (size_t)got : 0;
}

/* Replaces standard input or output, so that no other program has the socket. */
static inline int reel_leave_standard_(struct reel_client *client, int standard) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, standard) < 0) return reel_fail_(client, "/dev/null", errno);
    close(null);
    return 0;
}

/* A client whose connection has not come yet. */
static inline struct reel_client *reel_unconnected_(void) {
    struct reel_client *client = calloc(1, sizeof *client);
    if (!client) return NULL;
    client->socket = -1;
    client->next_tag = 1;
    return client;
}

/* Takes the streams that `reel tap --mapped` has opened for this program, at most `most`: how many, in the order of the command. Standard input
 * is empty from then on. 0 if the program was started in another way: standard input is as it was. -1 if what waited there is not valid.
 * reel_error says why; call reel_disconnect in any case. */
static inline int reel_inherit_tap(struct reel_client **inherited, struct reel_stream **streams, int most) {
    struct reel_client *client = *inherited = reel_unconnected_();
    int count = 0;
    if (!client) return -1;
    for (;;) {
        struct reel_reply reply;
        int fds[4], descriptors;
        size_t got = reel_waiting_(STDIN_FILENO, &reply, sizeof reply, fds, &descriptors);
        if (got == 0 && count > 0) return reel_leave_standard_(client, STDIN_FILENO) == 0 ? count : -1;
        if (got == 0) {
            reel_fail_(client, "standard input is no stream of `reel tap --mapped`, or another program has taken it", 0);
            return 0;
        }
        int is_right = reel_is_reply_(&reply, (ssize_t)got) && reply.op == REEL_OP_OPEN && !reply.refused && descriptors == 4;
        if (!is_right || count == most) {
            for (int d = 0; d < descriptors; d++) close(fds[d]);
            return reel_fail_(client, is_right ? "more streams were opened than this program reads" : "standard input has no valid stream of `reel tap --mapped`, or one of another version", 0);
        }
        if (client->socket < 0) client->socket = fds[0]; /* all of them came over one connection */
        else close(fds[0]);
        if (reply.tag >= client->next_tag) client->next_tag = reply.tag + 1;
        streams[count] = reel_map_stream_(client, &reply, &fds[1]);
        if (!streams[count]) return -1;
        count++;
    }
}

/* Takes the stream that `reel pour --mapped` has begun for this program: 1. What is written to standard output from then on is lost. 0 or -1 as
 * for reel_inherit_tap. */
static inline int reel_inherit_pour(struct reel_client **inherited, struct reel_inherited *stream) {
    struct reel_client *client = *inherited = reel_unconnected_();
    if (!client) return -1;
    struct reel_pour_request request;
    int fds[4], descriptors;
    size_t got = reel_waiting_(STDOUT_FILENO, &request, sizeof request, fds, &descriptors), head = offsetof(struct reel_pour_request, text);
    if (got == 0) {
        reel_fail_(client, "standard output is no stream of `reel pour --mapped`, or another program has taken it", 0);
        return 0;
    }
    uint64_t at = REEL_SLOTS_AT_BYTES + REEL_POUR_SLOTS * REEL_SLOT_WORDS * 8, bytes = request.producer_bytes;
    if (got < head || memcmp(request.magic, "RLMS", 4) != 0 || request.version != REEL_VERSION || request.op != REEL_OP_POUR ||
        (size_t)request.name_bytes + request.type_bytes != got - head || descriptors != 3 || bytes < at + 2 * REEL_POUR_MESSAGE_BYTES_MAX || bytes > at + REEL_POUR_BYTES_MAX) {
        for (int d = 0; d < descriptors; d++) close(fds[d]);
        return reel_fail_(client, "standard output has no valid stream of `reel pour --mapped`, or one of another version", 0);
    }
    client->socket = fds[0];
    client->next_tag = request.tag + 1;
    struct reel_poured *poured = calloc(1, sizeof *poured);
    _Atomic uint64_t *own = reel_map_(fds[1], bytes, PROT_READ | PROT_WRITE);
    const _Atomic uint64_t *theirs = reel_map_(fds[2], REEL_CONSUMER_BYTES, PROT_READ);
    if (!poured || !own || !theirs) {
        if (own) munmap((void *)own, (size_t)bytes);
        if (theirs) munmap((void *)(uintptr_t)theirs, REEL_CONSUMER_BYTES);
        free(poured);
        return reel_fail_(client, "the memory of the stream cannot be used", 0);
    }
    poured->tag = request.tag;
    poured->own = own;
    poured->theirs = theirs;
    poured->own_bytes = (size_t)bytes;
    poured->space = bytes - at;
    memset(stream, 0, sizeof *stream);
    stream->poured = poured;
    memcpy(stream->text, request.text, request.name_bytes);
    memcpy(stream->text + request.name_bytes + 1, request.text + request.name_bytes, request.type_bytes);
    stream->wanted = (struct reel_pour_wanted){
        .name = stream->text, .content_type = stream->text + request.name_bytes + 1, .bytes_per_s = request.bytes_per_s,
        .workahead_bytes = request.workahead_bytes, .delay_ns = request.delay_ns};
    return reel_leave_standard_(client, STDOUT_FILENO) == 0 ? 1 : -1;
}

/* Ends a connection. Streams that are open must be closed before. */
static inline void reel_disconnect(struct reel_client *client) {
    if (!client) return;
    if (client->arena) munmap((void *)(uintptr_t)client->arena, client->arena_bytes);
    if (client->socket >= 0) close(client->socket);
    free(client);
}

#endif
