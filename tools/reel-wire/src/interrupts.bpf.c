// How long soft interrupts ran that had to do with the measured network or with disks, by whom they interrupted: the kernel counts
// that time as its own.

typedef unsigned int u32;
typedef unsigned long long u64;

#define MAP __attribute__((section(".maps"), used))
#define FIELD(name, value) int (*name)[value]

// When the soft interrupt that runs on this processor began.
struct {
    FIELD(type, 6); // array of each processor
    u32 *key;
    u64 *value;
    FIELD(max_entries, 1);
} began MAP;

// Whether a packet of the measured network passed on this processor since then.
struct {
    FIELD(type, 6);
    u32 *key;
    u64 *value;
    FIELD(max_entries, 1);
} touched MAP;

// Nanoseconds by process; 0 is the idle loop.
struct {
    FIELD(type, 1); // hash
    u32 *key;
    u64 *value;
    FIELD(max_entries, 16384);
} spent MAP;

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*const now_ns)(void) = (void *)5;
static u64 (*const current)(void) = (void *)14;

__attribute__((section("tp_btf/softirq_entry"), used)) int entered(u64 *arguments) {
    u32 first = 0;
    u64 *at = map_lookup(&began, &first), *mark = map_lookup(&touched, &first);
    if (at && mark) {
        *at = now_ns();
        *mark = 0;
    }
    return 0;
}

// On the devices of the measured network, both ways.
__attribute__((section("classifier"), used)) int mark(void *packet) {
    u32 first = 0;
    u64 *mark = map_lookup(&touched, &first);
    if (mark) {
        *mark = 1;
    }
    return -1; // TC_ACT_UNSPEC: the next program decides
}

__attribute__((section("tp_btf/softirq_exit"), used)) int left(u64 *arguments) {
    const u32 disks = 4; // BLOCK_SOFTIRQ, include/linux/interrupt.h
    u32 first = 0, process = current() >> 32;
    u64 *at = map_lookup(&began, &first), *mark = map_lookup(&touched, &first);
    if (!at || !*at || !mark || !(*mark || arguments[0] == disks)) {
        return 0;
    }
    u64 took = now_ns() - *at, none = 0;
    u64 *sum = map_lookup(&spent, &process);
    if (!sum) {
        map_update(&spent, &process, &none, 1);
        sum = map_lookup(&spent, &process);
    }
    if (sum) {
        __sync_fetch_and_add(sum, took);
    }
    return 0;
}

__attribute__((section("license"), used)) char terms[] = "Dual MIT/GPL";
