/* The floor: the same closed loop as the engine's, in plain C with one epoll set and nothing between it and the socket.
 *
 *   client --port N --log FILE [--streams 64] [--seconds 5] [--requests 0] [--ramp-ms 500] [--prompt-bytes 128]
 *          [--max-tokens 64]
 *
 * All connections are open before the first request. Requests are sent for --seconds, or until --requests are sent;
 * starts are spread over --ramp-ms (0: one burst). It does what any client must: HTTP head and chunks, events split at
 * the blank line, content told from role and usage, [DONE] seen; it parses no JSON beyond that.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "record.h"

static struct {
    const char *log;
    int port, streams, requests, ramp_ms, prompt_bytes, max_tokens;
    double seconds;
} options = {.streams = 64, .seconds = 5, .ramp_ms = 500, .prompt_bytes = 128, .max_tokens = 64};

struct connection {
    int fd;
    uint32_t nth, port;
    struct request *request;
    char in[65536];      /* HTTP not yet taken apart */
    size_t in_length;
    char event[65536];   /* SSE not yet complete */
    size_t event_length;
    size_t chunk_left;   /* bytes of the chunk that are still to come */
    bool in_body, after_chunk;
};

static struct request **requests;
static uint32_t request_count, request_room, in_flight;
static struct connection **connections;
static char body[16384], filler[8192];
static uint64_t stop_ns;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void send_request(struct connection *c)
{
    struct request *r = c->request = new_request(&requests, &request_count, &request_room);
    char text[20480];
    r->record.nth = c->nth++;
    r->record.port = c->port;
    int n = snprintf(r->record.prompt, PROMPT_BYTES, "c-%u", r->record.number);
    int length = snprintf(body, sizeof body,
                          "{\"model\":\"bench\",\"messages\":[{\"role\":\"user\",\"content\":\"%s %.*s\"}],\"max_tokens\":%d,"
                          "\"temperature\":0.0,\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
                          r->record.prompt, options.prompt_bytes > n ? options.prompt_bytes - n : 0, filler,
                          options.max_tokens);
    n = snprintf(text, sizeof text,
                 "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
                 "accept: text/event-stream\r\ncontent-length: %d\r\n\r\n%s", options.port, length, body);
    if (send(c->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        fail("client: send");
    r->record.t_request_ns = now_ns();
    c->in_length = c->event_length = 0;
    c->in_body = c->after_chunk = false;
    c->chunk_left = 0;
    in_flight++;
}

static bool may_send(void)
{
    return options.requests ? request_count < (uint32_t)options.requests : now_ns() < stop_ns;
}

static void take_event(struct connection *c, const char *event, size_t length, uint64_t t)
{
    struct record *r = &c->request->record;
    static const char mark[] = "\"content\":\"";
    if (length >= 12 && !memcmp(event, "data: [DONE]", 12)) {
        r->done = 1;
        return;
    }
    const char *content = memmem(event, length, mark, sizeof mark - 1);
    if (!content || content + sizeof mark - 1 >= event + length || content[sizeof mark - 1] == '"')
        return; /* role, finish or usage */
    if (!r->id[0] && length > 16 && !memcmp(event, "data: {\"id\":\"", 13)) {
        const char *end = memchr(event + 13, '"', length - 13);
        if (end && end - event - 13 < ID_BYTES)
            memcpy(r->id, event + 13, (size_t)(end - event - 13));
    }
    add_time(c->request, t);
}

static void take_text(struct connection *c, const char *text, size_t length, uint64_t t)
{
    if (c->event_length + length > sizeof c->event)
        fail("client: an event is too long");
    const char *from = text, *end = text + length;
    if (c->event_length) {
        memcpy(c->event + c->event_length, text, length);
        from = c->event;
        end = from + c->event_length + length;
    }
    for (const char *split; (split = memmem(from, (size_t)(end - from), "\n\n", 2)); from = split + 2)
        take_event(c, from, (size_t)(split - from), t);
    c->event_length = (size_t)(end - from);
    memmove(c->event, from, c->event_length);
}

static void end_request(struct connection *c, uint64_t t)
{
    c->request->record.t_end_ns = t;
    c->request = NULL;
    in_flight--;
    if (may_send())
        send_request(c);
}

/* Takes apart what has come; returns how many bytes of `in` were used. */
static size_t take_http(struct connection *c, uint64_t t)
{
    char *p = c->in, *end = c->in + c->in_length;
    if (!c->in_body) {
        char *split = memmem(p, c->in_length, "\r\n\r\n", 4);
        if (!split)
            return 0;
        c->request->record.status = (uint32_t)atoi(p + 9);
        c->in_body = true;
        p = split + 4;
    }
    while (p < end) {
        if (c->chunk_left) {
            size_t n = c->chunk_left < (size_t)(end - p) ? c->chunk_left : (size_t)(end - p);
            take_text(c, p, n, t);
            c->chunk_left -= n;
            p += n;
            c->after_chunk = c->chunk_left == 0;
            continue;
        }
        size_t skip = c->after_chunk ? 2 : 0;
        char *line = (size_t)(end - p) > skip ? memmem(p + skip, (size_t)(end - p) - skip, "\r\n", 2) : NULL;
        if (!line)
            break;
        c->chunk_left = strtoul(p + skip, NULL, 16);
        if (!c->chunk_left) {
            if (end - line < 4)
                break;
            end_request(c, t);
            return (size_t)-1;
        }
        c->after_chunk = false;
        p = line + 2;
    }
    return (size_t)(p - c->in);
}

static void read_in(struct connection *c)
{
    ssize_t n = recv(c->fd, c->in + c->in_length, sizeof c->in - c->in_length, MSG_DONTWAIT);
    uint64_t t = now_ns();
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN)
            return;
        fail("client: the server closed a connection");
    }
    if (!c->request)
        return;
    c->in_length += (size_t)n;
    size_t used = take_http(c, t);
    if (used == (size_t)-1) /* the answer is over, and the next request has its own empty buffer */
        return;
    c->in_length -= used;
    memmove(c->in, c->in + used, c->in_length);
}

static void open_connections(int epoll_fd)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    connections = must(calloc((size_t)options.streams, sizeof *connections));
    for (int i = 0; i < options.streams; i++) {
        struct connection *c = connections[i] = must(calloc(1, sizeof *c));
        struct sockaddr_in here;
        socklen_t size = sizeof here;
        int one = 1;
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&there, sizeof there))
            fail("client: connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        getsockname(c->fd, (struct sockaddr *)&here, &size);
        c->port = ntohs(here.sin_port);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e);
    }
}

static void run(int epoll_fd, uint64_t start_ns)
{
    struct epoll_event events[256];
    int started = 0;
    while (started < options.streams || in_flight) {
        int patience_ms = 1000;
        for (; started < options.streams; started++) {
            uint64_t due = start_ns + (uint64_t)options.ramp_ms * 1000000ull * (uint64_t)started / (uint64_t)options.streams;
            uint64_t now = now_ns();
            if (due > now) {
                patience_ms = (int)((due - now) / 1000000ull) + 1;
                break;
            }
            if (may_send())
                send_request(connections[started]);
        }
        int n = epoll_wait(epoll_fd, events, 256, patience_ms);
        for (int i = 0; i < n; i++)
            read_in(events[i].data.ptr);
    }
}

static void read_options(int count, char **words)
{
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--log")) options.log = value;
        else if (!strcmp(name, "--port")) options.port = atoi(value);
        else if (!strcmp(name, "--streams")) options.streams = atoi(value);
        else if (!strcmp(name, "--seconds")) options.seconds = atof(value);
        else if (!strcmp(name, "--requests")) options.requests = atoi(value);
        else if (!strcmp(name, "--ramp-ms")) options.ramp_ms = atoi(value);
        else if (!strcmp(name, "--prompt-bytes")) options.prompt_bytes = atoi(value);
        else if (!strcmp(name, "--max-tokens")) options.max_tokens = atoi(value);
        else fprintf(stderr, "client: unknown option %s\n", name), exit(2);
    }
    if (!options.log || !options.port || options.streams < 1 || options.prompt_bytes > (int)sizeof filler - 1)
        fprintf(stderr, "usage: client --port N --log FILE ...\n"), exit(2);
}

int main(int count, char **words)
{
    read_options(count, words);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    allow_many_files();
    for (size_t i = 0; i < sizeof filler - 1; i++)
        filler[i] = "bebo teni "[i % 10];
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    open_connections(epoll_fd);
    struct file_header head = {.start_ns = now_ns()};
    uint64_t cpu = cpu_ns();
    stop_ns = head.start_ns + (uint64_t)(options.seconds * 1e9);
    run(epoll_fd, head.start_ns);
    head.end_ns = now_ns();
    head.cpu_ns = cpu_ns() - cpu;
    return write_records(options.log, &head, requests, request_count) ? 1 : 0;
}
