/* Stands between reel and a few calls of its kernel (LD_PRELOAD), and has them fail when a test wants that.
 *
 * Orders are files in the directory $REEL_TEST_KERNEL:
 *   enter     "THREAD ERRNO once|always": io_uring_enter fails in threads whose name begins with THREAD
 *   register  "FIRST COUNT ERRNO": of the calls that register buffers with a ring, COUNT fail from number FIRST on
 *   setup     "FIRST COUNT ERRNO": the same of the calls that make a ring
 *   clock     "SECONDS": the clock of the day is wrong by so much
 * An order that is carried out once is renamed to NAME.done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

enum { REGISTER_BUFFERS = 0, REGISTER_BUFFERS_TAGGED = 15, REGISTER_CLONE = 30 };

static FILE *order(const char *name, char path[512]) {
    const char *directory = getenv("REEL_TEST_KERNEL");
    if (!directory) return NULL;
    snprintf(path, 512, "%s/%s", directory, name);
    return fopen(path, "re");
}

static int entering_fails(void) {
    char path[512], done[520], thread[64] = "", often[16] = "", own[17] = "";
    int error = 0;
    FILE *file = order("enter", path);
    if (!file) return 0;
    int fields = fscanf(file, "%63s %d %15s", thread, &error, often);
    fclose(file);
    prctl(PR_GET_NAME, own);
    if (fields != 3 || strncmp(own, thread, strlen(thread)) != 0) return 0;
    if (strcmp(often, "once") == 0) {
        snprintf(done, sizeof done, "%s.done", path);
        if (rename(path, done) != 0) return 0;
    }
    return error;
}

static int counted_fails(const char *name, atomic_int *calls) {
    char path[512];
    int number = atomic_fetch_add(calls, 1), first = 0, count = 0, error = 0;
    FILE *file = order(name, path);
    if (!file) return 0;
    int fields = fscanf(file, "%d %d %d", &first, &count, &error);
    fclose(file);
    return fields == 3 && number >= first && number < first + count ? error : 0;
}

long syscall(long number, ...) {
    static long (*kernel)(long, ...);
    static atomic_int registered, made;
    if (!kernel) kernel = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list rest;
    long words[6];
    va_start(rest, number);
    for (int at = 0; at < 6; at++) words[at] = va_arg(rest, long);
    va_end(rest);
    int before = errno, error = 0;
    if (number == SYS_io_uring_enter) error = entering_fails();
    if (number == SYS_io_uring_register
        && (words[1] == REGISTER_BUFFERS || words[1] == REGISTER_BUFFERS_TAGGED || words[1] == REGISTER_CLONE))
        error = counted_fails("register", &registered);
    if (number == SYS_io_uring_setup) error = counted_fails("setup", &made);
    errno = before;
    if (error) {
        errno = error;
        return -1;
    }
    return kernel(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*kernel)(clockid_t, struct timespec *);
    if (!kernel) kernel = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = kernel(clock, now);
    if (result == 0 && clock == CLOCK_REALTIME) {
        char path[512];
        long seconds = 0;
        int before = errno;
        FILE *file = order("clock", path);
        if (file) {
            if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
            fclose(file);
        }
        errno = before;
    }
    return result;
}
