/* libnvidia-ml.so.1 for tests: answers pynvml from the file `state` beside the library, read anew at each call, so that
 * a test can let values move while somebody reads. Lines are "key value":
 *
 *     cards 2                       how many there are
 *     1.temp 84                     a value of the second card; without it, the default below
 *     fail.nvmlDeviceGetPowerUsage 3        the call fails for every card with this NVML code
 *     1.fail.nvmlDeviceGetPowerUsage 3      for the second card only
 *
 * With -DOLD_DRIVER the newer functions are not there, as in libraries of years ago. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long u64;
typedef unsigned int u32;

enum { OK = 0, NO_SUCH_CARD = 2, TOO_SMALL = 7, MOST_CARDS = 8 };
static const u64 NO_FIGURE = ~0ULL;

/* A handle points into this array; its place is the card's number. */
static char cards[MOST_CARDS];

static FILE *state_file(void) {
    Dl_info self;
    char path[4096];
    if (!dladdr((void *)&state_file, &self) || !self.dli_fname) return NULL;
    snprintf(path, sizeof path, "%s", self.dli_fname);
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) + 7 > sizeof path) return NULL;
    strcpy(slash, "/state");
    return fopen(path, "r");
}

/* The text after the key, or 0. */
static int text_of(char *out, size_t room, const char *format, ...) {
    char key[200], line[400];
    va_list rest;
    va_start(rest, format);
    vsnprintf(key, sizeof key, format, rest);
    va_end(rest);
    FILE *file = state_file();
    if (!file) return 0;
    size_t length = strlen(key);
    int found = 0;
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            line[strcspn(line, "\n")] = '\0';
            snprintf(out, room, "%s", line + length + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static int number_of(const void *card) { return (int)((const char *)card - cards); }

static u64 figure(const void *card, const char *name, u64 otherwise) {
    char text[80];
    return text_of(text, sizeof text, "%d.%s", number_of(card), name) ? strtoull(text, NULL, 0) : otherwise;
}

static int count(void) {
    char text[80];
    return text_of(text, sizeof text, "cards") ? atoi(text) : 1;
}

static int refusal(const void *card, const char *function) {
    char text[80];
    if (text_of(text, sizeof text, "fail.%s", function)) return atoi(text);
    if (card && text_of(text, sizeof text, "%d.fail.%s", number_of(card), function)) return atoi(text);
    return OK;
}

#define MAY(card) do { int code_ = refusal(card, __func__); if (code_ != OK) return code_; } while (0)

static int string(const void *card, const char *name, const char *otherwise, char *out, u32 room) {
    if (!text_of(out, room, "%d.%s", number_of(card), name)) snprintf(out, room, otherwise, number_of(card));
    return OK;
}

int nvmlInitWithFlags(u32 flags) { (void)flags; MAY(NULL); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    static char words[40];
    snprintf(words, sizeof words, "stub error %d", code);
    return words;
}
int nvmlSystemGetDriverVersion(char *out, u32 room) { MAY(NULL); snprintf(out, room, "610.1"); return OK; }
int nvmlDeviceGetCount_v2(u32 *out) { MAY(NULL); *out = (u32)count(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(u32 index, void **out) {
    if (index >= (u32)count() || index >= MOST_CARDS) return NO_SUCH_CARD;
    *out = cards + index;
    MAY(*out);
    return OK;
}
int nvmlDeviceGetUUID(void *card, char *out, u32 room) { MAY(card); return string(card, "uuid", "GPU-stub-%d", out, room); }
int nvmlDeviceGetName(void *card, char *out, u32 room) { MAY(card); return string(card, "name", "Stub %d", out, room); }
int nvmlDeviceGetVbiosVersion(void *card, char *out, u32 room) { MAY(card); return string(card, "vbios", "90.00.%d", out, room); }

struct memory { u64 total, free, used; };
int nvmlDeviceGetMemoryInfo(void *card, struct memory *out) {
    MAY(card);
    out->total = figure(card, "vram", 24ULL << 30);
    out->free = out->total - figure(card, "reserved", 512ULL << 20) - figure(card, "allocated", 4ULL << 30);
    out->used = out->total - out->free;
    return OK;
}
/* With "0.temp_step 2" each reading of the first card is two degrees above the last. */
static u32 celsius(const void *card) {
    static u32 asked[MOST_CARDS];
    u64 step = figure(card, "temp_step", 0);
    return (u32)(figure(card, "temp", 50) + (step ? step * asked[number_of(card)]++ : 0));
}
int nvmlDeviceGetTemperature(void *card, u32 sensor, u32 *out) { (void)sensor; MAY(card); *out = celsius(card); return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *card, u64 *out) { MAY(card); *out = figure(card, "reasons", 0); return OK; }
int nvmlDeviceGetTemperatureThreshold(void *card, u32 which, u32 *out) {
    MAY(card);
    *out = (u32)figure(card, which == 1 ? "slowdown" : "shutdown", 95);
    return OK;
}
int nvmlDeviceGetPowerUsage(void *card, u32 *out) { MAY(card); *out = (u32)figure(card, "mw", 200000); return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *card, u32 *out) { MAY(card); *out = (u32)figure(card, "limit_mw", 350000); return OK; }
int nvmlDeviceGetTotalEnergyConsumption(void *card, u64 *out) { MAY(card); *out = figure(card, "mj", 5000000); return OK; }
int nvmlDeviceGetClockInfo(void *card, u32 which, u32 *out) {
    MAY(card);
    *out = (u32)figure(card, which == 2 ? "memory_mhz" : "sm_mhz", which == 2 ? 9000 : 1800);
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *card, u32 *out) { MAY(card); out[0] = (u32)figure(card, "busy", 98); out[1] = 40; return OK; }
int nvmlDeviceGetEccMode(void *card, u32 *now, u32 *next) { MAY(card); *now = *next = (u32)figure(card, "ecc", 1); return OK; }
int nvmlDeviceGetMigMode(void *card, u32 *now, u32 *next) { MAY(card); *now = *next = (u32)figure(card, "mig", 0); return OK; }

struct process { u32 pid; u64 used; u32 instance, compute; };
static int running(const void *card, u32 *many, struct process *out) {
    u32 there = (u32)figure(card, "processes", 0);
    if (*many < there || (there && !out)) { *many = there; return TOO_SMALL; }
    for (u32 i = 0; i < there; i++) {
        char name[20];
        snprintf(name, sizeof name, "pid%u", i);
        out[i] = (struct process){(u32)figure(card, name, 4000 + i), figure(card, "process_bytes", NO_FIGURE), 0, 0};
    }
    *many = there;
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(void *card, u32 *many, struct process *out) { MAY(card); return running(card, many, out); }

#ifndef OLD_DRIVER
struct memory_v2 { u32 version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *card, struct memory_v2 *out) {
    MAY(card);
    out->total = figure(card, "vram", 24ULL << 30);
    out->reserved = figure(card, "reserved", 512ULL << 20);
    out->used = figure(card, "allocated", 4ULL << 30);
    out->free = out->total - out->reserved - out->used;
    return OK;
}
struct temperature { u32 version, sensor; int celsius; };
int nvmlDeviceGetTemperatureV(void *card, struct temperature *out) { MAY(card); out->celsius = (int)celsius(card); return OK; }
int nvmlDeviceGetCurrentClocksEventReasons(void *card, u64 *out) { MAY(card); *out = figure(card, "reasons", 0); return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *card, u32 *many, struct process *out) { MAY(card); return running(card, many, out); }
#endif
