/* A plain reference for the ceilings of one core: loops with compiler vectors, timed in slices.
   Built by benchmarks/peaks.py with: gcc -O3 -march=native -shared -fPIC */
#include <stdint.h>
#include <stddef.h>
#include <time.h>

#ifndef WIDTH
#define WIDTH 64
#endif
typedef float vf __attribute__((vector_size(WIDTH), may_alias));
typedef double vd __attribute__((vector_size(WIDTH), may_alias));
typedef int32_t vi __attribute__((vector_size(WIDTH), may_alias));
#define BARRIER __asm__ volatile("" ::: "memory")
#define KEEP(v) __asm__ volatile("" : "+v"(v))

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* The instruction itself, so that the compiler can neither merge nor spill the chains. */
#define STEP(op, v) __asm__ volatile(op " %2, %1, %0" : "+v"(v) : "v"(x), "v"(y));
#define ALL(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define FMA(name, type, op)                                                      \
    double name(char *data, int64_t size, int64_t passes) {                      \
        type x = ((type *)data)[0], y = ((type *)data)[1];                       \
        (void)size;                                                              \
        ALL(LOAD_##type)                                                         \
        double t = now();                                                        \
        for (int64_t p = 0; p < passes; p++) {                                   \
            _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) {                \
                ALL(STEP_##type)                                                 \
            }                                                                    \
        }                                                                        \
        t = now() - t;                                                           \
        ALL(STORE_##type)                                                        \
        return t;                                                                \
    }
#define LOAD_vf(i) vf a##i = ((vf *)data)[2 + i];
#define LOAD_vd(i) vd a##i = ((vd *)data)[2 + i];
#define STEP_vf(i) STEP("vfmadd213ps", a##i)
#define STEP_vd(i) STEP("vfmadd213pd", a##i)
#define STORE_vf(i) ((vf *)data)[2 + i] = a##i;
#define STORE_vd(i) ((vd *)data)[2 + i] = a##i;
FMA(fma_fp32, vf, "")
FMA(fma_fp64, vd, "")

#define MEMORY(name, body)                                                       \
    double name(char *data, int64_t size, int64_t passes) {                      \
        vi *a = (vi *)data, *b = (vi *)(data + size), *c = (vi *)(data + 2 * size); \
        int64_t n = size / WIDTH;                                                \
        vi s0 = a[0], s1 = s0, s2 = s0, s3 = s0, first = s0;                     \
        vf k = (vf){0} + 9.5367431640625e-07f;                                   \
        (void)b; (void)c; (void)first; (void)k;                                  \
        double t = now();                                                        \
        for (int64_t p = 0; p < passes; p++) {                                   \
            BARRIER;                                                             \
            for (int64_t i = 0; i < n; i += 16) { body }                         \
            KEEP(s0); KEEP(s1); KEEP(s2); KEEP(s3);                              \
        }                                                                        \
        return now() - t;                                                        \
    }
#define U16(X) _Pragma("GCC unroll 16") for (int u = 0; u < 16; u++) { X }
MEMORY(read_, _Pragma("GCC unroll 4") for (int u = 0; u < 16; u += 4) {
    s0 ^= a[i + u]; s1 ^= a[i + u + 1]; s2 ^= a[i + u + 2]; s3 ^= a[i + u + 3]; })
MEMORY(write_, U16(a[i + u] = first; BARRIER;))
MEMORY(copy_, U16(a[i + u] = b[i + u]; BARRIER;))
MEMORY(triad_, U16(((vf *)a)[i + u] = ((vf *)b)[i + u] + k * ((vf *)c)[i + u]; BARRIER;))
MEMORY(update_, U16(a[i + u] = -a[i + u]; BARRIER;))
