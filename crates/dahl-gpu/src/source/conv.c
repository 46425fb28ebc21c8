// Convolution as a product whose second factor is gathered from the image, see gemm.c.
FN REAL pixel(GLOBAL const REAL* x, Box X, int n, int c, int h, int w) {
    return h >= 0 && h < X.h && w >= 0 && w < X.w ? x[spot(X, n, c, h, w)] : ZERO;
}

// y[o, pixel] = Σ w[o, tap] · x[tap, pixel]; columns are pixels of all samples.
KERNEL void conv_forward(GLOBAL const REAL* x, Box X, GLOBAL const REAL* w, Box W,
                         GLOBAL const REAL* bias, Box S, int biased, int positive, GLOBAL REAL* y,
                         Box Y, Win win) {
    GEMM_BEGIN
    const int N = Y.n * Y.h * Y.w, taps = win.kh * win.kw, K = X.c * taps;
    const int pj = col % Y.w, pi = col / Y.w % Y.h, pn = col / (Y.w * Y.h);
    const int top = pi * win.sh - win.ph, left = pj * win.sw - win.pw;
#define A_AT(m, k) ((m) < Y.c ? w[spot(W, m, (k) / taps, (k) % taps / win.kw, (k) % win.kw)] : ZERO)
#define B_AT(k)                                                                                  \
    (col < N ? pixel(x, X, pn, (k) / taps, top + (k) % taps / win.kw, left + (k) % win.kw) : ZERO)
#define STORE(m, n, v)                                                                           \
    REAL value = biased ? v + bias[S.at + m] : v;                                                \
    if (positive && value <= ZERO) value = ZERO;                                                 \
    y[spot(Y, n / (Y.w * Y.h), m, n / Y.w % Y.h, n % Y.w)] = value;
    GEMM_SUM(0, K, A_AT, B_AT)
    GEMM_END(Y.c, N, STORE)
#undef A_AT
#undef B_AT
#undef STORE
}

// The output position that tap `t` connects with input `h` along one axis, or −1.
FN int back(int h, int t, int stride, int shift, int outs) {
    const int d = h + shift - t;
    if (d < 0 || d % stride != 0) return -1;
    return d / stride < outs ? d / stride : -1;
}

FN REAL grad_at(GLOBAL const REAL* dy, Box DY, Win win, int n, int o, int h, int a, int w, int b) {
    const int i = back(h, a, win.sh, win.ph, DY.h), j = back(w, b, win.sw, win.pw, DY.w);
    return i >= 0 && j >= 0 ? dy[spot(DY, n, o, i, j)] : ZERO;
}

// dx[c, pixel] = Σ w[o, c, tap] · dy[o, the output that the tap connects].
KERNEL void conv_input_grad(GLOBAL const REAL* dy, Box DY, GLOBAL const REAL* w, Box W,
                            GLOBAL REAL* dx, Box DX, Win win) {
    GEMM_BEGIN
    const int N = DX.n * DX.h * DX.w, taps = win.kh * win.kw, K = DY.c * taps;
    const int pw = col % DX.w, ph = col / DX.w % DX.h, pn = col / (DX.w * DX.h);
#define A_AT(m, k) ((m) < DX.c ? w[spot(W, (k) / taps, m, (k) % taps / win.kw, (k) % win.kw)] : ZERO)
#define B_AT(k)                                                                                  \
    (col < N ? grad_at(dy, DY, win, pn, (k) / taps, ph, (k) % taps / win.kw, pw, (k) % win.kw)   \
             : ZERO)
#define STORE(m, n, v) dx[spot(DX, n / (DX.w * DX.h), m, n / DX.w % DX.h, n % DX.w)] = v;
    GEMM_SUM(0, K, A_AT, B_AT)
    GEMM_END(DX.c, N, STORE)
#undef A_AT
#undef B_AT
#undef STORE
}

// dw[o, tap] from part z of the pixels: added to dw, or written to a slice of `parts`.
KERNEL void conv_filter_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                             GLOBAL REAL* dw, Box DW, GLOBAL REAL* parts, Box P, int part, int split,
                             Win win) {
    GEMM_BEGIN
    const int taps = win.kh * win.kw, N = X.c * taps, plane = DY.h * DY.w, K = DY.n * plane;
    const int tc = col / taps, ta_ = col % taps / win.kw, tb_ = col % win.kw;
    const int k_begin = GRP(2) * part;
    const int k_end = K < k_begin + part ? K : k_begin + part;
#define A_AT(m, k)                                                                               \
    ((m) < DY.c ? dy[spot(DY, (k) / plane, m, (k) % plane / DY.w, (k) % plane % DY.w)] : ZERO)
#define B_AT(k)                                                                                  \
    (col < N ? pixel(x, X, (k) / plane, tc, (k) % plane / DY.w * win.sh + ta_ - win.ph,          \
                     (k) % plane % DY.w * win.sw + tb_ - win.pw)                                 \
             : ZERO)
#define STORE(m, n, v)                                                                           \
    if (split)                                                                                   \
        parts[P.at + ((i64)GRP(2) * DY.c + m) * N + n] = v;                                      \
    else                                                                                         \
        dw[place(DW, (uint)(m * N + n))] += v;
    GEMM_SUM(k_begin, k_end, A_AT, B_AT)
    GEMM_END(DY.c, N, STORE)
#undef A_AT
#undef B_AT
#undef STORE
}
