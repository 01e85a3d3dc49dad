/* What server.c and client.c write and measurements.py reads: one file header, then one record per request.
 *
 * All times are CLOCK_MONOTONIC nanoseconds; 0 means "did not happen". Numbers are little-endian, as on every machine
 * this benchmark runs on. A record is followed by `events` times of 8 bytes, one per content event.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define NS 1000000000ull
#define PROMPT_BYTES 64
#define ID_BYTES 48

struct file_header {
    char magic[8];       /* "HRBENCH1" */
    uint32_t is_server;  /* 1: send times of the server, 0: receive times of the client */
    uint32_t records;
    uint64_t start_ns;   /* client: all connections are open, first request follows */
    uint64_t end_ns;     /* client: last answer read; server: file written */
    uint64_t cpu_ns;     /* user + system time between the two; server: of the whole process */
    uint64_t rss_kib;    /* peak resident set */
    uint64_t gap_ns;     /* server: planned time between events, 0 flat out */
    uint64_t reserved;
};

struct record {
    uint32_t number;      /* server: order of arrival; client: order of sending */
    uint32_t nth;         /* n-th request on its connection, from 0 */
    uint32_t port;        /* the client's port */
    uint32_t events;      /* content events sent or received */
    uint64_t t_request_ns;/* server: last byte of the request arrived; client: last byte handed to the socket */
    uint64_t t_planned_ns;/* server: when the first event was due */
    uint64_t t_end_ns;    /* last byte of the answer */
    uint32_t status;      /* client: HTTP status; server: 200, or 0 where the client left before the end */
    uint32_t done;        /* client: [DONE] and the end of the body were seen; server: sent */
    char id[ID_BYTES];         /* server: x-request-id of the request; client: id of the chunks */
    char prompt[PROMPT_BYTES]; /* server: the first bytes of the first message's content */
};

struct request {
    struct record record;
    uint64_t *times;
    uint32_t room;
};

static inline uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static inline void *must(void *memory)
{
    if (!memory) {
        perror("out of memory");
        exit(1);
    }
    return memory;
}

/* Many systems allow a process 1024 open files until it asks for more. */
static inline void allow_many_files(void)
{
    struct rlimit files;
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static inline void add_time(struct request *r, uint64_t t)
{
    if (r->record.events == r->room) {
        r->room = r->room ? r->room * 2 : 64;
        r->times = must(realloc(r->times, r->room * sizeof *r->times));
    }
    r->times[r->record.events++] = t;
}

static inline uint64_t peak_rss_kib(void)
{
    char line[256];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static inline uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static inline int write_records(const char *path, struct file_header *head, struct request **all, uint32_t count)
{
    char part[4096];
    snprintf(part, sizeof part, "%s.part", path);
    FILE *f = fopen(part, "wb");
    if (!f) {
        perror(part);
        return -1;
    }
    memcpy(head->magic, "HRBENCH1", 8);
    head->records = count;
    head->rss_kib = peak_rss_kib();
    fwrite(head, sizeof *head, 1, f);
    for (uint32_t i = 0; i < count; i++) {
        fwrite(&all[i]->record, sizeof all[i]->record, 1, f);
        if (all[i]->record.events)
            fwrite(all[i]->times, sizeof(uint64_t), all[i]->record.events, f);
    }
    int bad = ferror(f);
    if (fclose(f) || bad || rename(part, path)) {
        perror(path);
        return -1;
    }
    return 0;
}

/* Grows a list of requests by one that is all zero. */
static inline struct request *new_request(struct request ***all, uint32_t *count, uint32_t *room)
{
    if (*count == *room) {
        *room = *room ? *room * 2 : 4096;
        *all = must(realloc(*all, *room * sizeof **all));
    }
    struct request *r = must(calloc(1, sizeof *r));
    r->record.number = *count;
    (*all)[(*count)++] = r;
    return r;
}

#endif
