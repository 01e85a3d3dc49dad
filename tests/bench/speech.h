/* HTTP and OpenAI's chat as server.c speaks them: the texts of an answer, and what it needs of a request. */
#ifndef SPEECH_H
#define SPEECH_H

#include <ctype.h>
#include <strings.h>
#include <sys/socket.h>

#include "record.h"

/* `json` as one SSE event in one HTTP chunk. */
static int event_chunk(char *to, size_t room, const char *json)
{
    return snprintf(to, room, "%zx\r\ndata: %s\n\n\r\n", strlen(json) + 8, json);
}

/* One event of the answer `number`; `rest` is what follows the members that are always the same. */
static int chunk_of(char *to, size_t room, uint32_t number, const char *rest)
{
    char json[400];
    snprintf(json, sizeof json,
             "{\"id\":\"chatcmpl-%u\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\",%s}",
             number, rest);
    return event_chunk(to, room, json);
}

static int head_text(char *to, size_t room)
{
    return snprintf(to, room,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
                    "connection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n");
}

static int role_text(char *to, size_t room, uint32_t number)
{
    return chunk_of(to, room, number,
                    "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]");
}

static int last_text(char *to, size_t room, uint32_t number, int tokens)
{
    char usage[160];
    int n = chunk_of(to, room, number, "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]");
    snprintf(usage, sizeof usage,
             "\"choices\":[],\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":%d,\"total_tokens\":%d}", tokens,
             tokens + 32);
    n += chunk_of(to + n, room - (size_t)n, number, usage);
    n += event_chunk(to + n, room - (size_t)n, "[DONE]");
    return n + snprintf(to + n, room - (size_t)n, "0\r\n\r\n");
}

static const char *find(const char *in, size_t length, const char *what)
{
    return memmem(in, length, what, strlen(what));
}

static const char *header(const char *head, size_t length, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = head; (p = find(p, length - (size_t)(p - head), "\r\n")); ) {
        p += 2;
        if (length - (size_t)(p - head) > n && !strncasecmp(p, name, n) && p[n] == ':') {
            for (p += n + 1; *p == ' '; p++)
                ;
            return p;
        }
    }
    return NULL;
}

/* What follows `"key"`, a colon and blanks; NULL where the body has no such key. */
static const char *json_value(const char *body, size_t length, const char *key)
{
    char quoted[64];
    const char *end = body + length;
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    for (const char *p = body; (p = find(p, (size_t)(end - p), quoted));) {
        for (p += strlen(quoted); p < end && isspace((unsigned char)*p); p++)
            ;
        if (p == end || *p++ != ':')
            continue; /* the word as a value */
        for (; p < end && isspace((unsigned char)*p); p++)
            ;
        return p < end ? p : NULL;
    }
    return NULL;
}

static void copy_prompt(struct record *r, const char *body, size_t length)
{
    const char *messages = json_value(body, length, "messages"), *end = body + length;
    const char *p = messages ? json_value(messages, (size_t)(end - messages), "content") : NULL;
    if (p && *p == '[') /* content in parts: the text of the first */
        p = json_value(p, (size_t)(end - p), "text");
    if (!p || *p != '"')
        return;
    p++;
    for (int i = 0; i < PROMPT_BYTES && p < end && *p != '"'; i++, p++)
        r->prompt[i] = *p;
}

/* The kernel's stamp is of the wall clock; both clocks are read here to bring it over. */
static uint64_t kernel_stamp(struct msghdr *message, uint64_t now)
{
    for (struct cmsghdr *m = CMSG_FIRSTHDR(message); m; m = CMSG_NXTHDR(message, m)) {
        if (m->cmsg_level != SOL_SOCKET || m->cmsg_type != SCM_TIMESTAMPING)
            continue;
        struct timespec stamp, wall;
        memcpy(&stamp, CMSG_DATA(m), sizeof stamp);
        clock_gettime(CLOCK_REALTIME, &wall);
        int64_t age = (int64_t)(wall.tv_sec - stamp.tv_sec) * (int64_t)NS + (wall.tv_nsec - stamp.tv_nsec);
        if (stamp.tv_sec && age >= 0 && age < (int64_t)NS)
            return now - (uint64_t)age;
    }
    return now;
}

#endif
