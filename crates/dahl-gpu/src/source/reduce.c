// Sums and extremes. Which item adds what, and in which order, depends on extents and group sizes
// only: the same bits run after run.

// Sums over axes: `K` is x with the result's extents (where element o's terms begin), `R` the extents
// that are summed over, from 0.
KERNEL void sum_groups(GLOBAL const REAL* x, Box K, Box R, int terms, GLOBAL REAL* y, Box Y,
                       int add, REAL divisor) {
    LOCAL REAL part[GROUP];
    const int o = GRP(0);
    const i64 from = place(K, o);
    REAL sum = ZERO;
    for (uint r = LID(0); r < (uint)terms; r += LSIZE(0)) sum += x[from + place(R, r)];
    sum = group_sum(part, sum) / divisor;
    if (LID(0) == 0) {
        const i64 to = place(Y, o);
        y[to] = add ? y[to] + sum : sum;
    }
}

// The same with one item per result: few terms, many results.
KERNEL void sum_items(GLOBAL const REAL* x, Box K, Box R, int terms, GLOBAL REAL* y, Box Y, int add,
                      REAL divisor, int count) {
    EACH(o, count) {
        const i64 from = place(K, o), to = place(Y, o);
        REAL sum = ZERO;
        for (uint r = 0; r < (uint)terms; r++) sum += x[from + place(R, r)];
        sum /= divisor;
        y[to] = add ? y[to] + sum : sum;
    }
}

#define FOLD_SUM 0
#define FOLD_MIN 1
#define FOLD_MAX 2
#define FOLD_DOT 3

FN REAL fold_join(int op, REAL a, REAL b) {
    if (op == FOLD_MIN) return b < a || IS_NAN(b) ? b : a;
    if (op == FOLD_MAX) return b > a || IS_NAN(b) ? b : a;
    return a + b;
}

// One result per group, of `chunk` elements each.
KERNEL void fold(GLOBAL const REAL* a, Box A, GLOBAL const REAL* b, Box B, int op, int count,
                 int chunk, GLOBAL REAL* y, Box Y, int join, REAL divisor) {
    LOCAL REAL part[GROUP];
    const int l = LID(0);
    const uint begin = (uint)GRP(0) * chunk, left = (uint)count - begin;
    const uint end = begin + (left < (uint)chunk ? left : (uint)chunk);
    // Every item starts from an element, so that no identity is needed: the last one may count twice
    // for extremes and not at all for sums.
    REAL v = ZERO;
    if (op == FOLD_MIN || op == FOLD_MAX) v = a[place(A, end - 1)];
    for (uint i = begin + l; i < end; i += LSIZE(0)) {
        const REAL x = a[place(A, i)];
        v = fold_join(op, v, op == FOLD_DOT ? x * b[place(B, i)] : x);
    }
    part[l] = v;
    BARRIER;
    for (int reach = LSIZE(0) / 2; reach > 0; reach /= 2) {
        if (l < reach) part[l] = fold_join(op, part[l], part[l + reach]);
        BARRIER;
    }
    if (l == 0) {
        const i64 to = place(Y, GRP(0));
        const REAL r = part[0] / divisor;
        y[to] = join ? fold_join(op, y[to], r) : r;
    }
}

// y += the parts, first to last.
KERNEL void add_parts(GLOBAL const REAL* parts, Box P, int number, GLOBAL REAL* y, Box Y, int add,
                      int count) {
    EACH(i, count) {
        REAL sum = ZERO;
        for (int p = 0; p < number; p++) sum += parts[P.at + (i64)p * count + i];
        const i64 to = place(Y, i);
        y[to] = add ? y[to] + sum : sum;
    }
}
