/* Which stream is due next: a binary heap of what a stream carries as its first member. */
#ifndef DUE_H
#define DUE_H

#include <stdint.h>

#define MAX_CONNECTIONS 8192

struct due {
    uint64_t due_ns;
    int place_in_heap; /* -1: nothing is due */
};

static struct due *heap[MAX_CONNECTIONS];
static int heap_size;

static void place(struct due *d, int at)
{
    heap[at] = d;
    d->place_in_heap = at;
}

static void sift_up(struct due *d, int at)
{
    for (; at > 0 && heap[(at - 1) / 2]->due_ns > d->due_ns; at = (at - 1) / 2)
        place(heap[(at - 1) / 2], at);
    place(d, at);
}

static void sift_down(struct due *d, int at)
{
    for (int child; (child = 2 * at + 1) < heap_size; at = child) {
        if (child + 1 < heap_size && heap[child + 1]->due_ns < heap[child]->due_ns)
            child++;
        if (heap[child]->due_ns >= d->due_ns)
            break;
        place(heap[child], at);
    }
    place(d, at);
}

static void heap_add(struct due *d)
{
    sift_up(d, heap_size++);
}

static void heap_remove(struct due *d)
{
    if (d->place_in_heap < 0)
        return;
    int at = d->place_in_heap;
    struct due *last = heap[--heap_size];
    d->place_in_heap = -1;
    if (last == d)
        return;
    sift_down(last, at);
    sift_up(last, last->place_in_heap);
}

#endif
