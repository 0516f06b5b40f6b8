// Stands where a network card would be: hands the header of every TCP segment for a simulated viewer to user space and
// drops the segment, before anything copies its payload. What is not for a viewer passes.
//
// A super-segment is seen whole, as a card that segments would get it. A payload that begins a response ("HTTP/") is
// handed over with its first bytes, and that of connections to odd ports whole, in pieces.
//
// Compiled at run time by `tap.rs`, which knows the layout of `struct record`.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

// The beginning of the kernel's context, include/uapi/linux/bpf.h.
struct __sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};

// TC_ACT_OK and TC_ACT_STOLEN. TC_ACT_SHOT would tell TCP that its own device had no room: it would count as not sent.
enum { PASS = 0, TAKE = 4 };
enum { ETHERNET_BYTES = 14, IP_BYTES = 20, TCP_BYTES = 20, PIECES_MAX = 17 };

struct record {
    u64 at_ns;
    u32 address;     // the viewer's, host order
    u16 port;        // the viewer's
    u8 flags;        // TCP's
    u8 unused;
    u32 sequence;
    u32 acknowledged;
    u32 bytes;       // of payload
    u16 window;
    u16 text_bytes;  // of payload that follow
};

struct with_head {
    struct record record;
    u8 text[HEAD_BYTES];
};

struct with_piece {
    struct record record;
    u8 text[PIECE_BYTES];
};

#define MAP __attribute__((section(".maps"), used))
#define FIELD(name, value) int (*name)[value]

struct {
    FIELD(type, 27); // ring buffer
    FIELD(max_entries, RING_BYTES);
} records MAP;

// Segments that found the ring full: they are dropped all the same, as a card with a full queue would.
struct {
    FIELD(type, 2); // array
    u32 *key;
    u64 *value;
    FIELD(max_entries, 1);
} lost MAP;

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const now_ns)(void) = (void *)5;
static long (*const load_bytes)(const void *skb, u32 from, void *to, u32 bytes) = (void *)26;
static void *(*const reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*const submit)(void *data, u64 flags) = (void *)132;
static void (*const discard)(void *data, u64 flags) = (void *)133;

// The reader polls: waking it would be the sender's cost.
enum { NO_WAKEUP = 1 };

static __attribute__((always_inline)) u32 be32(const u8 *p) {
    return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

static __attribute__((always_inline)) u16 be16(const u8 *p) {
    return (u16)(p[0] << 8 | p[1]);
}

// The lesser of the two, from 1 to `most`, a power of two, in a form whose bounds the kernel's verifier sees.
static __attribute__((always_inline)) u32 at_most(u32 bytes, u32 most) {
    u32 less = (bytes < most ? bytes : most) - 1;
    asm volatile("" : "+r"(less));
    return (less & (most - 1)) + 1;
}

static __attribute__((always_inline)) int count_lost(void) {
    u32 first = 0;
    u64 *count = map_lookup(&lost, &first);
    if (count) {
        __sync_fetch_and_add(count, 1);
    }
    return TAKE;
}

__attribute__((section("classifier"), used)) int wire(struct __sk_buff *skb) {
    const u8 *packet = (const u8 *)(unsigned long)skb->data;
    const u8 *end = (const u8 *)(unsigned long)skb->data_end;
    const u8 *ip = packet + ETHERNET_BYTES, *tcp = ip + IP_BYTES;
    if (tcp + TCP_BYTES > end || packet[12] != 8 || packet[13] != 0 || ip[0] != 0x45 || ip[9] != 6) {
        return PASS;
    }
    if ((be32(ip + 16) & VIEWERS_MASK) != VIEWERS_NET) {
        return PASS;
    }
    u32 header = ETHERNET_BYTES + IP_BYTES + (tcp[12] >> 4) * 4;
    if (header > skb->len) {
        return TAKE;
    }
    struct record record = {
        .at_ns = now_ns(),
        .address = be32(ip + 16),
        .port = be16(tcp + 2),
        .flags = tcp[13],
        .sequence = be32(tcp + 4),
        .acknowledged = be32(tcp + 8),
        .bytes = skb->len - header,
        .window = be16(tcp + 14),
    };
    if (record.bytes && record.port & 1) {
        u32 done = 0, all = record.bytes;
        for (int piece = 0; piece < PIECES_MAX && done < all; piece++) {
            u32 count = at_most(all - done, PIECE_BYTES);
            struct with_piece *kept = reserve(&records, sizeof *kept, 0);
            if (!kept) {
                return count_lost();
            }
            kept->record = record;
            kept->record.sequence += done;
            kept->record.bytes = count;
            kept->record.text_bytes = count;
            if (load_bytes(skb, header + done, kept->text, count)) {
                discard(kept, NO_WAKEUP);
                return count_lost();
            }
            submit(kept, NO_WAKEUP);
            done += count;
        }
        return TAKE;
    }
    u8 begin[5] = {};
    if (record.bytes > sizeof begin) {
        load_bytes(skb, header, begin, sizeof begin);
    }
    if (begin[0] == 'H' && begin[1] == 'T' && begin[2] == 'T' && begin[3] == 'P' && begin[4] == '/') {
        struct with_head *head = reserve(&records, sizeof *head, 0);
        if (!head) {
            return count_lost();
        }
        u32 count = at_most(record.bytes, HEAD_BYTES);
        head->record = record;
        head->record.text_bytes = count;
        if (load_bytes(skb, header, head->text, count)) {
            discard(head, NO_WAKEUP);
            return count_lost();
        }
        submit(head, NO_WAKEUP);
        return TAKE;
    }
    struct record *bare = reserve(&records, sizeof *bare, 0);
    if (!bare) {
        return count_lost();
    }
    *bare = record;
    submit(bare, NO_WAKEUP);
    return TAKE;
}

__attribute__((section("license"), used)) char terms[] = "Dual MIT/GPL";
