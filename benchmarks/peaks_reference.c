/* A plain reference for the ceilings of a processor: loops with compiler vectors on pinned POSIX
   threads that meet before each slice.
   Built by benchmarks/peaks.py with: gcc -O3 -march=native -pthread -shared -fPIC */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 64
typedef float vf __attribute__((vector_size(WIDTH), may_alias));
typedef double vd __attribute__((vector_size(WIDTH), may_alias));
typedef int32_t vi __attribute__((vector_size(WIDTH), may_alias));
typedef void (*kernel)(char *data, int64_t size, int64_t passes);
#define BARRIER __asm__ volatile("" ::: "memory")
#define KEEP(v) __asm__ volatile("" : "+v"(v))

/* The instruction itself, so that the compiler can neither merge nor spill the chains. */
#define STEP(op, v) __asm__ volatile(op " %2, %1, %0" : "+v"(v) : "v"(x), "v"(y));
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define CHAINS(name, type)                                                       \
    void name(char *data, int64_t size, int64_t passes) {                        \
        type x = ((type *)data)[0], y = ((type *)data)[1];                       \
        (void)size;                                                              \
        ALL(LOAD_##type)                                                         \
        for (int64_t p = 0; p < passes; p++) {                                   \
            _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) {                \
                ALL(STEP_##name)                                                 \
            }                                                                    \
        }                                                                        \
        ALL(STORE_##type)                                                        \
    }
#define LOAD_vf(i) vf a##i = ((vf *)data)[2 + i];
#define LOAD_vd(i) vd a##i = ((vd *)data)[2 + i];
#define STORE_vf(i) ((vf *)data)[2 + i] = a##i;
#define STORE_vd(i) ((vd *)data)[2 + i] = a##i;
#define STEP_fma_fp32(i) STEP("vfmadd213ps", a##i)
#define STEP_fma_fp64(i) STEP("vfmadd213pd", a##i)
CHAINS(fma_fp32, vf)
CHAINS(fma_fp64, vd)

#ifdef __AMX_BF16__
/* Four accumulators of 16 x 16 numbers, operands in four more tiles; 32 products a pass. */
void tile_bf16(char *data, int64_t size, int64_t passes) {
    (void)size;
    _tile_loadconfig(data);
    char *ops = data + 64;
    _tile_loadd(0, ops, 64); _tile_loadd(1, ops, 64); _tile_loadd(2, ops, 64);
    _tile_loadd(3, ops, 64); _tile_loadd(4, ops, 64); _tile_loadd(5, ops, 64);
    _tile_loadd(6, ops, 64); _tile_loadd(7, ops, 64);
    for (int64_t p = 0; p < passes; p++) {
        _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) {
            _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_release();
}
#endif

#define MEMORY(name, body)                                                       \
    void name(char *data, int64_t size, int64_t passes) {                        \
        int64_t n = size / WIDTH;                                                \
        vi first = *(vi *)data;                                                  \
        vf k = (vf){0} + 9.5367431640625e-07f;                                   \
        (void)first; (void)k;                                                    \
        for (int64_t p = 0; p < passes; p++) {                                   \
            vi *a = (vi *)data, *b = (vi *)(data + size);                        \
            vi *c = (vi *)(data + 2 * size);                                     \
            (void)b; (void)c;                                                    \
            BARRIER;                                                             \
            for (int64_t i = 0; i < n; i += 16, a += 16, b += 16, c += 16) {     \
                _Pragma("GCC unroll 16") for (int u = 0; u < 16; u++) { body }   \
            }                                                                    \
        }                                                                        \
        __asm__ volatile("sfence" ::: "memory");                                 \
    }
#define STREAM(x) _mm512_stream_si512((__m512i *)(a + u), (__m512i)(x)); BARRIER;
MEMORY(read_, vi v = a[u]; KEEP(v);)
MEMORY(write_, a[u] = first; BARRIER;)
MEMORY(copy_, a[u] = b[u]; BARRIER;)
MEMORY(triad_, ((vf *)a)[u] = ((vf *)b)[u] + k * ((vf *)c)[u]; BARRIER;)
MEMORY(update_, a[u] = -a[u]; BARRIER;)
MEMORY(write_nt, STREAM(first))
MEMORY(copy_nt, STREAM(b[u]))
MEMORY(triad_nt, STREAM(((vf *)b)[u] + k * ((vf *)c)[u]))

typedef struct {
    kernel function;
    char *data;
    int64_t chunk, chunks, size, passes, count, threads;
    int cpu;
    atomic_long *met;
    int64_t *times;
} job;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *work(void *argument) {
    job *j = argument;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(j->cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (int64_t i = 0; i < j->count; i++) {
        atomic_fetch_add(j->met, 1);
        while (atomic_load(j->met) < (i + 1) * j->threads) {}
        j->times[2 * i] = now();
        j->function(j->data + i % j->chunks * j->chunk, j->size, j->passes);
        j->times[2 * i + 1] = now();
    }
    return NULL;
}

/* Runs a kernel on threads; times gets start and end of each slice, thread after thread. */
int run(kernel function, int64_t threads, const int *cpus, char **data, int64_t chunk,
        int64_t chunks, int64_t size, int64_t passes, int64_t count, int64_t *times) {
    pthread_t ids[threads];
    job jobs[threads];
    _Alignas(128) atomic_long met = 0;
    syscall(SYS_arch_prctl, 0x1023, 18); /* tile registers; harmless where there are none */
    for (int64_t t = 0; t < threads; t++) {
        jobs[t] = (job){function, data[t], chunk, chunks, size, passes, count, threads,
                        cpus[t], &met, times + 2 * count * t};
        if (pthread_create(&ids[t], NULL, work, &jobs[t])) return 1;
    }
    for (int64_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    return 0;
}
