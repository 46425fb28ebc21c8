// Every element alone. The result may be one of the operands.
#define UNARY(name, value)                                                                       \
    KERNEL void name(GLOBAL const REAL* a_, Box A, GLOBAL REAL* y_, Box Y, int count, REAL p,     \
                     REAL q) {                                                                   \
        EACH(i, count) {                                                                         \
            const REAL a = a_[place(A, i)];                                                      \
            y_[place(Y, i)] = value;                                                             \
        }                                                                                        \
    }

#define BINARY(name, value)                                                                      \
    KERNEL void name(GLOBAL const REAL* a_, Box A, GLOBAL const REAL* b_, Box B, GLOBAL REAL* y_, \
                     Box Y, int count) {                                                         \
        EACH(i, count) {                                                                         \
            const REAL a = a_[place(A, i)], b = b_[place(B, i)];                                 \
            y_[place(Y, i)] = value;                                                             \
        }                                                                                        \
    }

FN REAL bounded(REAL a, REAL low, REAL high) {
    a = a < low ? low : a;
    return a > high ? high : a;
}

FN REAL power_of(REAL a, REAL p) {
    if (p == LIT(0.5)) return R_SQRT(a);
    if (p == ONE) return a;
    if (p == LIT(2.0)) return a * a;
    if (p == LIT(3.0)) return a * a * a;
    if (p == LIT(-1.0)) return ONE / a;
    return R_POW(a, p);
}

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a * b)
BINARY(divide, a / b)
BINARY(relu_grad, b <= ZERO ? ZERO : a)
BINARY(relu6_grad, b <= ZERO || b >= LIT(6.0) ? ZERO : a)
BINARY(smaller, b < a || IS_NAN(b) ? b : a)
BINARY(larger, b > a || IS_NAN(b) ? b : a)
UNARY(scale, p * a)
UNARY(add_value, a + p)
UNARY(sub_value, a - p)
UNARY(power, power_of(a, p))
UNARY(clip_values, bounded(a, p, q))
UNARY(round_even, R_RINT(a))
UNARY(exponential, R_EXP(a))
UNARY(logarithm, R_LOG(a))
UNARY(relu, a <= ZERO ? ZERO : a)
UNARY(relu6, a <= ZERO ? ZERO : (a >= LIT(6.0) ? LIT(6.0) : a))
UNARY(copy, a)

// Four accumulators in the order of a binary tree: y = (y + a) + (b + c).
KERNEL void add_tree(GLOBAL const REAL* a, Box A, GLOBAL const REAL* b, Box B, GLOBAL const REAL* c,
                     Box C, GLOBAL REAL* y, Box Y, int count) {
    EACH(i, count) {
        const REAL left = y[place(Y, i)] + a[place(A, i)];
        y[place(Y, i)] = left + (b[place(B, i)] + c[place(C, i)]);
    }
}

KERNEL void fill(GLOBAL REAL* y, Box Y, int count, REAL value) {
    EACH(i, count) y[place(Y, i)] = value;
}

// One value per plane, spread over it: dx[n, c, h, w] = dy[n, c] / divisor.
KERNEL void spread_planes(GLOBAL const REAL* dy, Box DY, GLOBAL REAL* dx, Box DX, int count,
                          REAL divisor) {
    EACH(i, count) dx[place(DX, i)] = dy[place(DY, i / (uint)(DX.h * DX.w))] / divisor;
}

// ---- Philox4x32-10 (Salmon et al., SC 2011), one word per element.
FN uint random_word(i64 position, uint step, uint layer, uint k0, uint k1) {
    const i64 block = position >> 2;
    uint c0 = (uint)block, c1 = (uint)(block >> 32), c2 = step, c3 = layer;
    for (int round = 0; round < 10; round++) {
        const uint h0 = MUL_HI(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        const uint h1 = MUL_HI(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        const uint n0 = h1 ^ c1 ^ k0, n2 = h0 ^ c3 ^ k1;
        c0 = n0;
        c1 = l1;
        c2 = n2;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const int word = (int)(position & 3);
    return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}

// `first` is where the tile begins in its array; an element is kept if its word reaches `threshold`.
KERNEL void dropout(GLOBAL const REAL* x, Box X, GLOBAL const REAL* steps, Box S, GLOBAL REAL* y,
                    Box Y, int count, i64 first, i64 threshold, REAL factor, int k0, int k1,
                    int layer) {
    const uint step = (uint)steps[S.at];
    EACH(i, count) {
        const i64 at = place(X, i);
        const uint word = random_word(first + (at - X.at), step, (uint)layer, (uint)k0, (uint)k1);
        y[place(Y, i)] = (i64)word >= threshold ? x[at] * factor : ZERO;
    }
}

// ---- Rearranging.
KERNEL void transpose(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, int count) {
    EACH(i, count) {
        const int h = i % (uint)X.h, w = i / (uint)X.h % (uint)X.w;
        const uint plane = i / (uint)(X.h * X.w);
        y[place(Y, i)] = x[spot(X, plane / (uint)X.c, plane % (uint)X.c, h, w)];
    }
}

KERNEL void diag(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, int side) {
    EACH(i, side * side) {
        const int h = i / (uint)side, w = i % (uint)side;
        y[spot(Y, 0, 0, h, w)] = h == w ? x[X.at + h] : ZERO;
    }
}

KERNEL void diagonal(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, int count) {
    EACH(i, count) y[Y.at + i] = x[spot(X, 0, 0, i, i)];
}
