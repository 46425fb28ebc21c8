// What all kernels share. REAL is the element type, WIDE the widest the device computes with; GROUP
// items work together in reductions, SIDE × SIDE in products, each on REG × REG elements.
#if REAL_IS_DOUBLE
typedef double REAL;
#define LIT(x) x
#else
typedef float REAL;
#define LIT(x) x##f
#endif
#if WIDE_IS_DOUBLE
typedef double WIDE;
#else
typedef float WIDE;
#endif
#define ZERO ((REAL)0)
#define ONE ((REAL)1)

// A box of elements: where it begins in its buffer, extents, strides of all but the last axis (that
// one is 1), and whether its elements lie next to each other.
typedef struct {
    i64 at;
    int n, c, h, w;
    int sn, sc, sh;
    int flat;
} Box;

// A window as in the CPU's kernels: input = output · stride + tap − shift.
typedef struct {
    int kh, kw, sh, sw, ph, pw;
} Win;

#define EACH(i, count) for (uint i = GID; i < (uint)(count); i += GSIZE)

// The place of element i, counted row by row.
FN i64 place(Box b, uint i) {
    if (b.flat) return b.at + i;
    uint w = i % b.w;
    i /= b.w;
    uint h = i % b.h;
    i /= b.h;
    uint c = i % b.c;
    uint n = i / b.c;
    return b.at + (i64)n * b.sn + (i64)c * b.sc + (i64)h * b.sh + w;
}

FN i64 spot(Box b, int n, int c, int h, int w) {
    return b.at + (i64)n * b.sn + (i64)c * b.sc + (i64)h * b.sh + w;
}

// The place of element r of channel c, counted over samples, rows and columns.
FN i64 in_channel(Box b, int c, uint r) {
    uint w = r % b.w;
    r /= b.w;
    uint h = r % b.h;
    return spot(b, r / b.h, c, h, w);
}

// The sum over a group, in an order that its size fixes; every item gets it.
FN REAL group_sum(LOCAL_PTR REAL* part, REAL v) {
    const int l = LID(0);
    part[l] = v;
    BARRIER;
    for (int reach = LSIZE(0) / 2; reach > 0; reach /= 2) {
        if (l < reach) part[l] += part[l + reach];
        BARRIER;
    }
    v = part[0];
    BARRIER;
    return v;
}
