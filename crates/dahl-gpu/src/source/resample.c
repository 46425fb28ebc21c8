// Images of another height and width. Gradients are gathered by the input's elements.

// Where output i of m lies among n inputs: the one before or at it, and the share of the next, from whole numbers
// as on the CPU.
FN int before_of(int i, int n, int m, int bilinear, int corners, REAL* share) {
    i64 above, below;
    *share = ZERO;
    if (!bilinear) return (int)((i64)i * n / m);
    if (corners) {
        above = (i64)i * (n - 1);
        below = m > 1 ? m - 1 : 1;
    } else {
        above = (i64)(2 * i + 1) * n - m;
        if (above < 0) above = 0;
        below = 2 * (i64)m;
    }
    *share = (REAL)(above % below) / (REAL)below;
    return (int)(above / below);
}

// Not `upsample`, which OpenCL C has of its own.
KERNEL void resample(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, int bilinear, int corners,
                     int count) {
    EACH(e, count) {
        const int j = e % (uint)Y.w, i = e / (uint)Y.w % (uint)Y.h;
        const uint plane = e / (uint)(Y.w * Y.h);
        const int c = plane % (uint)Y.c, n = plane / (uint)Y.c;
        REAL down, right;
        const int h = before_of(i, X.h, Y.h, bilinear, corners, &down);
        const int w = before_of(j, X.w, Y.w, bilinear, corners, &right);
        if (!bilinear) {
            y[place(Y, e)] = x[spot(X, n, c, h, w)];
            continue;
        }
        const int h1 = h + 1 < X.h ? h + 1 : h, w1 = w + 1 < X.w ? w + 1 : w;
        const REAL top = (ONE - right) * x[spot(X, n, c, h, w)] + right * x[spot(X, n, c, h, w1)];
        const REAL bottom = (ONE - right) * x[spot(X, n, c, h1, w)] + right * x[spot(X, n, c, h1, w1)];
        y[place(Y, e)] = (ONE - down) * top + down * bottom;
    }
}

// The share that input h has in output i.
FN REAL share_of(int h, int i, int n, int m, int bilinear, int corners) {
    REAL next;
    const int at = before_of(i, n, m, bilinear, corners, &next);
    const int after = at + 1 < n ? at + 1 : at;
    if (!bilinear) return at == h ? ONE : ZERO;
    return (at == h ? ONE - next : ZERO) + (after == h ? next : ZERO);
}

// Outputs outside of this range have no share of input h: with room, since shares are looked at one by one. Clamped
// positions lie at both ends, so the first and the last input reach there.
FN int range_low(int h, int n, int m) { return h <= 1 ? 0 : (int)((i64)(h - 1) * (m > 1 ? m - 1 : 1) / n) - 2; }

FN int range_high(int h, int n, int m) {
    return h + 2 >= n ? m - 1 : (int)((i64)(h + 2) * m / (n - 1)) + 2;
}

KERNEL void resample_grad(GLOBAL const REAL* dy, Box DY, GLOBAL REAL* dx, Box DX, int bilinear, int corners,
                          int count) {
    EACH(e, count) {
        const int w = e % (uint)DX.w, h = e / (uint)DX.w % (uint)DX.h;
        const uint plane = e / (uint)(DX.w * DX.h);
        const int c = plane % (uint)DX.c, n = plane / (uint)DX.c;
        int i0 = range_low(h, DX.h, DY.h), i1 = range_high(h, DX.h, DY.h);
        int j0 = range_low(w, DX.w, DY.w), j1 = range_high(w, DX.w, DY.w);
        if (i0 < 0) i0 = 0;
        if (j0 < 0) j0 = 0;
        if (i1 >= DY.h) i1 = DY.h - 1;
        if (j1 >= DY.w) j1 = DY.w - 1;
        REAL sum = ZERO;
        for (int i = i0; i <= i1; i++) {
            const REAL down = share_of(h, i, DX.h, DY.h, bilinear, corners);
            if (down == ZERO) continue;
            for (int j = j0; j <= j1; j++) {
                const REAL right = share_of(w, j, DX.w, DY.w, bilinear, corners);
                if (right != ZERO) sum += down * right * dy[spot(DY, n, c, i, j)];
            }
        }
        dx[place(DX, e)] = sum;
    }
}

// Piece i of m pieces of n elements, as PyTorch cuts them.
#define PIECE_FIRST(i, n, m) ((i) * (n) / (m))
#define PIECE_END(i, n, m) ((((i) + 1) * (n) + (m) - 1) / (m))

KERNEL void adaptive_pool(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, int count) {
    EACH(e, count) {
        const int j = e % (uint)Y.w, i = e / (uint)Y.w % (uint)Y.h;
        const uint plane = e / (uint)(Y.w * Y.h);
        const int c = plane % (uint)Y.c, n = plane / (uint)Y.c;
        const int h0 = PIECE_FIRST(i, X.h, Y.h), h1 = PIECE_END(i, X.h, Y.h);
        const int w0 = PIECE_FIRST(j, X.w, Y.w), w1 = PIECE_END(j, X.w, Y.w);
        REAL sum = ZERO;
        for (int h = h0; h < h1; h++)
            for (int w = w0; w < w1; w++) sum += x[spot(X, n, c, h, w)];
        y[place(Y, e)] = sum / (REAL)((h1 - h0) * (w1 - w0));
    }
}

KERNEL void adaptive_pool_grad(GLOBAL const REAL* dy, Box DY, GLOBAL REAL* dx, Box DX, int count) {
    EACH(e, count) {
        const int w = e % (uint)DX.w, h = e / (uint)DX.w % (uint)DX.h;
        const uint plane = e / (uint)(DX.w * DX.h);
        const int c = plane % (uint)DX.c, n = plane / (uint)DX.c;
        const int i0 = h * DY.h / DX.h, i1 = ((h + 1) * DY.h - 1) / DX.h;
        const int j0 = w * DY.w / DX.w, j1 = ((w + 1) * DY.w - 1) / DX.w;
        REAL sum = ZERO;
        for (int i = i0; i <= i1; i++) {
            const int tall = PIECE_END(i, DX.h, DY.h) - PIECE_FIRST(i, DX.h, DY.h);
            for (int j = j0; j <= j1; j++) {
                const int wide = PIECE_END(j, DX.w, DY.w) - PIECE_FIRST(j, DX.w, DY.w);
                sum += dy[spot(DY, n, c, i, j)] / (REAL)(tall * wide);
            }
        }
        dx[place(DX, e)] = sum;
    }
}
