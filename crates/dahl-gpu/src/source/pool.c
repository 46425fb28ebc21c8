// Pooling. Gradients are gathered by the input's elements, so nothing is added by two items at once.
KERNEL void max_pool(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, GLOBAL REAL* places, Box P,
                     int kept, int count, Win win) {
    EACH(e, count) {
        const int j = e % (uint)Y.w, i = e / (uint)Y.w % (uint)Y.h;
        const uint plane = e / (uint)(Y.w * Y.h);
        const int c = plane % (uint)Y.c, n = plane / (uint)Y.c;
        // Padding never wins: without an element inside, the result is minus infinity at place 0.
        REAL best = -ONE / ZERO;
        int at = -1;
        for (int a = 0; a < win.kh; a++) {
            const int h = i * win.sh + a - win.ph;
            if (h < 0 || h >= X.h) continue;
            for (int b = 0; b < win.kw; b++) {
                const int w = j * win.sw + b - win.pw;
                if (w < 0 || w >= X.w) continue;
                const REAL v = x[spot(X, n, c, h, w)];
                if (v > best || IS_NAN(v) || at < 0) {
                    best = v;
                    at = a * win.kw + b;
                }
            }
        }
        y[place(Y, e)] = best;
        if (kept) places[place(P, e)] = (REAL)(at < 0 ? 0 : at);
    }
}

// First and last output along one axis whose windows hold input `h`.
FN int first_out(int h, int taps, int stride, int shift) {
    const int d = h + shift - taps + 1;
    return d <= 0 ? 0 : (d + stride - 1) / stride;
}

FN int last_out(int h, int stride, int shift, int outs) {
    const int d = h + shift;
    if (d < 0) return -1;
    return d / stride < outs ? d / stride : outs - 1;
}

KERNEL void max_pool_grad(GLOBAL const REAL* dy, Box DY, GLOBAL const REAL* places, Box P,
                          GLOBAL REAL* dx, Box DX, int count, Win win) {
    EACH(e, count) {
        const int w = e % (uint)DX.w, h = e / (uint)DX.w % (uint)DX.h;
        const uint plane = e / (uint)(DX.w * DX.h);
        const int c = plane % (uint)DX.c, n = plane / (uint)DX.c;
        const int i1 = last_out(h, win.sh, win.ph, DY.h), j1 = last_out(w, win.sw, win.pw, DY.w);
        REAL sum = ZERO;
        for (int i = first_out(h, win.kh, win.sh, win.ph); i <= i1; i++) {
            const int a = h + win.ph - i * win.sh;
            for (int j = first_out(w, win.kw, win.sw, win.pw); j <= j1; j++) {
                const int b = w + win.pw - j * win.sw;
                if ((int)places[spot(P, n, c, i, j)] == a * win.kw + b)
                    sum += dy[spot(DY, n, c, i, j)];
            }
        }
        dx[place(DX, e)] = sum;
    }
}

KERNEL void avg_pool(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, int count, Win win) {
    const REAL divisor = (REAL)(win.kh * win.kw);
    EACH(e, count) {
        const int j = e % (uint)Y.w, i = e / (uint)Y.w % (uint)Y.h;
        const uint plane = e / (uint)(Y.w * Y.h);
        const int c = plane % (uint)Y.c, n = plane / (uint)Y.c;
        REAL sum = ZERO;
        for (int a = 0; a < win.kh; a++) {
            const int h = i * win.sh + a - win.ph;
            if (h < 0 || h >= X.h) continue;
            for (int b = 0; b < win.kw; b++) {
                const int w = j * win.sw + b - win.pw;
                if (w >= 0 && w < X.w) sum += x[spot(X, n, c, h, w)];
            }
        }
        y[place(Y, e)] = sum / divisor;
    }
}

KERNEL void avg_pool_grad(GLOBAL const REAL* dy, Box DY, GLOBAL REAL* dx, Box DX, int count,
                          Win win) {
    const REAL divisor = (REAL)(win.kh * win.kw);
    EACH(e, count) {
        const int w = e % (uint)DX.w, h = e / (uint)DX.w % (uint)DX.h;
        const uint plane = e / (uint)(DX.w * DX.h);
        const int c = plane % (uint)DX.c, n = plane / (uint)DX.c;
        const int i1 = last_out(h, win.sh, win.ph, DY.h), j1 = last_out(w, win.sw, win.pw, DY.w);
        REAL sum = ZERO;
        for (int i = first_out(h, win.kh, win.sh, win.ph); i <= i1; i++)
            for (int j = first_out(w, win.kw, win.sw, win.pw); j <= j1; j++)
                sum += dy[spot(DY, n, c, i, j)] / divisor;
        dx[place(DX, e)] = sum;
    }
}

// The pooled positive part of a convolution's output, and a byte per window that says where its
// maximum was (from 1), or 0 if nothing was positive. Bytes are packed in elements.
KERNEL void pool_codes(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y, GLOBAL REAL* codes, Box C,
                       int side, int count) {
    EACH(e, count) {
        const int j = e % (uint)Y.w, i = e / (uint)Y.w % (uint)Y.h;
        const uint plane = e / (uint)(Y.w * Y.h);
        const int c = plane % (uint)Y.c, n = plane / (uint)Y.c;
        REAL best = ZERO;
        int code = 0;
        for (int at = 0; at < side * side; at++) {
            const REAL v = x[spot(X, n, c, i * side + at / side, j * side + at % side)];
            if (at == 0 || v > best || IS_NAN(v)) {
                best = v;
                code = at + 1;
            }
        }
        if (best <= ZERO) code = 0;
        y[place(Y, e)] = best <= ZERO ? ZERO : best;
        ((GLOBAL u8*)(codes + spot(C, n, c, i, 0)))[j] = (u8)code;
    }
}

// The gradient of what was pooled: each pooled gradient where its code says, zero elsewhere.
KERNEL void pool_expand(GLOBAL const REAL* dy, Box DY, GLOBAL const REAL* codes, Box C,
                        GLOBAL REAL* out, Box O, int side, int count) {
    EACH(e, count) {
        const int w = e % (uint)O.w, h = e / (uint)O.w % (uint)O.h;
        const uint plane = e / (uint)(O.w * O.h);
        const int c = plane % (uint)O.c, n = plane / (uint)O.c;
        const int i = h / side, j = w / side;
        REAL g = ZERO;
        if (i < DY.h && j < DY.w) {
            const int code = ((GLOBAL const u8*)(codes + spot(C, n, c, i, 0)))[j];
            if (code == 1 + h % side * side + w % side) g = dy[spot(DY, n, c, i, j)];
        }
        out[place(O, e)] = g;
    }
}
