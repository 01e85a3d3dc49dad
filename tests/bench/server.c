/* An OpenAI-shaped chat server on loopback that writes down when it sent what: the truth a client is compared with.
 *
 *   server --truth FILE [--port 0] [--tokens 64] [--gap-us 20000] [--ttft-ms 100] [--sigma 0.3] [--per-send 1]
 *          [--role with-first|early|none] [--headers with-first|early] [--seed 1]
 *
 * Prints "ready PORT". --gap-us 0 sends flat out and at once, --per-send events in each write. --tokens 0 sends as many events as
 * the request's max_tokens asks. One thread, one epoll set, one timerfd, a heap of the times at which streams are due.
 * The time of an event is read just before its send(); a request's arrival is the kernel's own stamp of its last packet
 * where the kernel gives one, so that a server that is late to look does not pass its lateness on to the client.
 * The truth file is written on GET /truth and at SIGTERM.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/net_tstamp.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "due.h"
#include "record.h"
#include "speech.h"

#define SENDS_PER_LOOK 8 /* due sends between two looks at what has arrived */

enum moment { WITH_FIRST, EARLY, NEVER };

static struct {
    const char *truth;
    int port, tokens, per_send;
    uint64_t gap_ns, seed;
    double ttft_ms, sigma;
    enum moment role, headers;
} options = {.port = 0, .tokens = 64, .per_send = 1, .gap_ns = 20000000, .seed = 1, .ttft_ms = 100, .sigma = 0.3};

struct connection {
    struct due due; /* first, so that the heap's pointers are ours */
    int fd;
    uint32_t nth, port;
    char *in, *out;
    size_t in_length, in_room, out_length, out_room;
    bool wants_out, closing, in_ready_list;
    uint64_t arrival_ns; /* of the bytes read last */
    struct request *request; /* the one being answered */
    int tokens, sent;
    bool head_sent, role_sent;
    char event[320];         /* one content event in its HTTP chunk */
    int event_length;
};

static struct request **requests;
static uint32_t request_count, request_room;
static struct connection *ready[MAX_CONNECTIONS];
static int ready_size;
static int epoll_fd, timer_fd, signal_fd, listen_fd;
static uint64_t dice;

static double uniform(void)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return ((double)(dice >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* ---- sending ---- */

static void watch(struct connection *c, bool out)
{
    if (c->wants_out == out)
        return;
    c->wants_out = out;
    struct epoll_event e = {.events = EPOLLIN | (out ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

static void keep(struct connection *c, const char *data, size_t length)
{
    if (c->out_length + length > c->out_room) {
        c->out_room = (c->out_length + length) * 2;
        c->out = must(realloc(c->out, c->out_room));
    }
    memcpy(c->out + c->out_length, data, length);
    c->out_length += length;
    watch(c, true);
}

static void send_all(struct connection *c, const char *data, size_t length)
{
    ssize_t n = 0;
    if (c->out_length == 0) {
        n = send(c->fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno != EAGAIN) {
                c->closing = true;
                return;
            }
            n = 0;
        }
    }
    if ((size_t)n < length)
        keep(c, data + n, length - (size_t)n);
}

static void send_kept(struct connection *c)
{
    ssize_t n = send(c->fd, c->out, c->out_length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
        c->closing = errno != EAGAIN;
        return;
    }
    c->out_length -= (size_t)n;
    memmove(c->out, c->out + n, c->out_length);
    if (c->out_length == 0)
        watch(c, false);
}

static void take_requests(struct connection *c);

static void end_answer(struct connection *c)
{
    struct record *r = &c->request->record;
    r->t_end_ns = now_ns();
    r->status = 200;
    r->done = 1;
    c->request = NULL;
    c->nth++;
}

/* Sends what is due now: head and role where they are still owed, then up to `per_send` events, then the end. The end
 * goes out with the last event, as a runtime that stops at its token limit does. */
static void send_due(struct connection *c)
{
    static char text[65536];
    int n = 0, count = options.per_send;
    if (!c->head_sent)
        n += head_text(text, sizeof text);
    if (!c->role_sent && options.role != NEVER)
        n += role_text(text + n, sizeof text - (size_t)n, c->request->record.number);
    c->head_sent = c->role_sent = true;
    if (count > c->tokens - c->sent)
        count = c->tokens - c->sent;
    for (int i = 0; i < count; i++, n += c->event_length)
        memcpy(text + n, c->event, (size_t)c->event_length);
    c->sent += count;
    bool over = c->sent >= c->tokens;
    if (over)
        n += last_text(text + n, sizeof text - (size_t)n, c->request->record.number, c->tokens);
    uint64_t t = now_ns();
    for (int i = 0; i < count; i++)
        add_time(c->request, t);
    send_all(c, text, (size_t)n);
    if (over)
        end_answer(c);
}

static void send_early(struct connection *c)
{
    char text[1024];
    int n = 0;
    if (options.headers == EARLY || options.role == EARLY)
        n += head_text(text, sizeof text), c->head_sent = true;
    if (options.role == EARLY)
        n += role_text(text + n, sizeof text - (size_t)n, c->request->record.number), c->role_sent = true;
    if (n)
        send_all(c, text, (size_t)n);
}

/* ---- requests ---- */

static void plain_answer(struct connection *c, const char *status, const char *body)
{
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: keep-alive\r\n"
                     "content-length: %zu\r\n\r\n%s", status, strlen(body), body);
    send_all(c, text, (size_t)n);
}

static int write_truth(void)
{
    struct file_header head = {.is_server = 1, .gap_ns = options.gap_ns, .end_ns = now_ns(), .cpu_ns = cpu_ns()};
    return write_records(options.truth, &head, requests, request_count);
}

static void get(struct connection *c, const char *path)
{
    if (!strncmp(path, "/truth", 6))
        plain_answer(c, write_truth() ? "500 Internal Server Error" : "200 OK", "{}");
    else if (!strncmp(path, "/v1/models", 10))
        plain_answer(c, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\",\"created\":0,"
                                  "\"owned_by\":\"bench\",\"root\":\"bench\",\"max_model_len\":8192}]}");
    else if (!strncmp(path, "/health", 7))
        plain_answer(c, "200 OK", "{}");
    else
        plain_answer(c, "404 Not Found", "{\"error\":{\"message\":\"no such path\",\"code\":404}}");
}

static void answer_whole(struct connection *c)
{
    char body[400];
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-%u\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"bench\",\"choices\":"
             "[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\" bato\"},\"finish_reason\":\"length\"}],"
             "\"usage\":{\"prompt_tokens\":32,\"completion_tokens\":1,\"total_tokens\":33}}", c->request->record.number);
    plain_answer(c, "200 OK", body);
    end_answer(c);
}

static void start_answer(struct connection *c, const char *body, size_t length)
{
    uint32_t number = c->request->record.number;
    const char *asked = json_value(body, length, "max_tokens");
    if (!asked)
        asked = json_value(body, length, "max_completion_tokens");
    c->tokens = options.tokens ? options.tokens : (asked && isdigit(*asked) ? atoi(asked) : 16);
    c->sent = 0;
    c->head_sent = c->role_sent = false;
    const char *stream = json_value(body, length, "stream");
    if (!stream || strncmp(stream, "true", 4)) {
        answer_whole(c);
        return;
    }
    c->event_length = chunk_of(c->event, sizeof c->event, number,
                               "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" bato\"},\"finish_reason\":null}]");
    double ttft_ns = options.ttft_ms * 1e6 * exp(options.sigma * normal());
    c->due.due_ns = c->request->record.t_planned_ns = c->request->record.t_request_ns + (uint64_t)ttft_ns;
    send_early(c);
    if (options.gap_ns)
        heap_add(&c->due);
    else
        ready[ready_size++] = c, c->in_ready_list = true;
}

static void post(struct connection *c, const char *head, size_t head_length, const char *body, size_t length, uint64_t t)
{
    struct request *r = c->request = new_request(&requests, &request_count, &request_room);
    r->record.nth = c->nth;
    r->record.port = c->port;
    r->record.t_request_ns = t;
    const char *id = header(head, head_length, "x-request-id");
    for (int i = 0; id && i < ID_BYTES && id[i] > ' '; i++)
        r->record.id[i] = id[i];
    copy_prompt(&r->record, body, length);
    start_answer(c, body, length);
}

static void take_requests(struct connection *c)
{
    while (!c->request && !c->closing && c->in_length) {
        const char *split = find(c->in, c->in_length, "\r\n\r\n");
        if (!split)
            return;
        size_t head_length = (size_t)(split - c->in) + 4;
        const char *size = header(c->in, head_length, "content-length");
        size_t body_length = size ? (size_t)atol(size) : 0;
        if (c->in_length < head_length + body_length)
            return;
        if (!strncmp(c->in, "GET ", 4))
            get(c, c->in + 4);
        else if (!strncmp(c->in, "POST /v1/chat/completions", 25))
            post(c, c->in, head_length, split + 4, body_length, c->arrival_ns);
        else
            plain_answer(c, "404 Not Found", "{\"error\":{\"message\":\"no such path\",\"code\":404}}");
        c->in_length -= head_length + body_length;
        memmove(c->in, c->in + head_length + body_length, c->in_length);
    }
}

static void read_in(struct connection *c)
{
    if (c->in_room - c->in_length < 16384) {
        c->in_room = c->in_room * 2 + 32768;
        c->in = must(realloc(c->in, c->in_room));
    }
    char control[128];
    struct iovec piece = {c->in + c->in_length, c->in_room - c->in_length};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(c->fd, &message, MSG_DONTWAIT);
    if (n <= 0) {
        c->closing = n == 0 || errno != EAGAIN;
        return;
    }
    c->arrival_ns = kernel_stamp(&message, now_ns());
    c->in_length += (size_t)n;
    take_requests(c);
}

static void close_connection(struct connection *c)
{
    heap_remove(&c->due);
    for (int i = 0; c->in_ready_list && i < ready_size; i++)
        if (ready[i] == c)
            ready[i] = ready[--ready_size], c->in_ready_list = false;
    if (c->request)
        c->request->record.t_end_ns = now_ns();
    close(c->fd);
    free(c->in);
    free(c->out);
    free(c);
}

static void accept_all(void)
{
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    for (int fd; (fd = accept4(listen_fd, (struct sockaddr *)&peer, &size, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0; size = sizeof peer) {
        if (fd >= MAX_CONNECTIONS) {
            close(fd);
            continue;
        }
        int one = 1, stamps = SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps);
        struct connection *c = must(calloc(1, sizeof *c));
        c->fd = fd;
        c->due.place_in_heap = -1;
        c->port = ntohs(peer.sin_port);
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    }
}

/* ---- the loop ---- */

static void handle(struct epoll_event *e)
{
    struct connection *c = e->data.ptr;
    if (e->events & EPOLLOUT)
        send_kept(c);
    if (!c->closing && e->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_in(c);
    if (c->closing)
        close_connection(c);
}

/* True where SIGTERM came. */
static bool look(int patience_ms)
{
    struct epoll_event events[256];
    int n = epoll_wait(epoll_fd, events, 256, patience_ms);
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr == &signal_fd)
            return true;
        if (events[i].data.ptr == &listen_fd)
            accept_all();
        else if (events[i].data.ptr != &timer_fd)
            handle(&events[i]);
    }
    return false;
}

static void send_next_due(uint64_t now)
{
    for (int i = 0; i < SENDS_PER_LOOK && heap_size && heap[0]->due_ns <= now; i++) {
        struct connection *c = (struct connection *)heap[0];
        send_due(c);
        heap_remove(&c->due);
        if (c->closing) {
            close_connection(c);
            continue;
        }
        if (c->request) {
            c->due.due_ns += options.gap_ns;
            heap_add(&c->due);
        } else
            take_requests(c);
    }
}

static void send_ready(void)
{
    for (int i = 0, n = ready_size; i < n && i < ready_size; i++) {
        struct connection *c = ready[i];
        if (c->out_length) /* the socket is full: its turn comes again once what was kept is gone */
            continue;
        send_due(c);
        if (!c->request || c->closing) {
            ready[i--] = ready[--ready_size];
            n--;
            c->in_ready_list = false;
        }
        if (c->closing)
            close_connection(c);
        else if (!c->request)
            take_requests(c);
    }
}

static bool something_to_send(void)
{
    for (int i = 0; i < ready_size; i++)
        if (!ready[i]->out_length)
            return true;
    return false;
}

static void run(void)
{
    uint64_t armed = 0;
    for (bool over = false; !over;) {
        send_next_due(now_ns());
        send_ready();
        bool busy = something_to_send() || (heap_size && heap[0]->due_ns <= now_ns());
        if (!busy && heap_size && heap[0]->due_ns != armed) {
            armed = heap[0]->due_ns;
            struct itimerspec at = {.it_value = {(time_t)(armed / NS), (long)(armed % NS)}};
            timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        } else if (!busy && !heap_size && armed) {
            armed = 0;
            struct itimerspec never = {0};
            timerfd_settime(timer_fd, 0, &never, NULL);
        }
        over = look(busy ? 0 : -1);
    }
}

static enum moment moment_of(const char *word)
{
    return !strcmp(word, "early") ? EARLY : !strcmp(word, "none") ? NEVER : WITH_FIRST;
}

static void read_options(int count, char **words)
{
    for (int i = 1; i + 1 < count; i += 2) {
        const char *name = words[i], *value = words[i + 1];
        if (!strcmp(name, "--truth")) options.truth = value;
        else if (!strcmp(name, "--port")) options.port = atoi(value);
        else if (!strcmp(name, "--tokens")) options.tokens = atoi(value);
        else if (!strcmp(name, "--gap-us")) options.gap_ns = (uint64_t)atol(value) * 1000;
        else if (!strcmp(name, "--ttft-ms")) options.ttft_ms = atof(value);
        else if (!strcmp(name, "--sigma")) options.sigma = atof(value);
        else if (!strcmp(name, "--per-send")) options.per_send = atoi(value);
        else if (!strcmp(name, "--role")) options.role = moment_of(value);
        else if (!strcmp(name, "--headers")) options.headers = moment_of(value);
        else if (!strcmp(name, "--seed")) options.seed = (uint64_t)atol(value);
        else fprintf(stderr, "server: unknown option %s\n", name), exit(2);
    }
    if (!options.truth || options.per_send < 1 || options.per_send > 128)
        fprintf(stderr, "usage: server --truth FILE [--per-send 1..128] ...\n"), exit(2);
}

static void add(int fd, void *mark)
{
    struct epoll_event e = {.events = EPOLLIN | (mark == &timer_fd ? EPOLLET : 0), .data.ptr = mark};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static int listen_on_loopback(void)
{
    int one = 1;
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof here;
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listen_fd, (struct sockaddr *)&here, size) || listen(listen_fd, 4096)) {
        perror("server: listen");
        return -1;
    }
    getsockname(listen_fd, (struct sockaddr *)&here, &size);
    return ntohs(here.sin_port);
}

int main(int count, char **words)
{
    read_options(count, words);
    dice = options.seed * 0x9E3779B97F4A7C15ull | 1;
    prctl(PR_SET_TIMERSLACK, 1);
    allow_many_files();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    sigaddset(&stop, SIGINT);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    signal_fd = signalfd(-1, &stop, SFD_CLOEXEC);
    int port = listen_on_loopback();
    if (port < 0)
        return 1;
    add(listen_fd, &listen_fd);
    add(timer_fd, &timer_fd);
    add(signal_fd, &signal_fd);
    printf("ready %d\n", port);
    fflush(stdout);
    run();
    return write_truth() ? 1 : 0;
}
