// Winograd's minimal filtering for 3×3 kernels of stride 1, with the CPU's points and the CPU's layout
// of transformed filters: [point][chunk of 16 filters][channel][16], each point followed by 16
// elements of padding. Transformed images are this file's own: [point][channel][tile].
#define WP LIT(0.70710678118654752440)
#define WQ LIT(1.41421356237309504880)
#define WP3 (WP * LIT(0.5))
#define WQ3 (WQ * LIT(2.0))
#define AT_P LIT(-1.5)
#define AT_Q LIT(6.0)
#define MOST 6
#define CHUNK 16

// The one-dimensional transforms: elements of x at the given step, in place; `out` is 2 or 4.
FN void wino_input(REAL* x, int s, int out) {
    const REAL a = x[0], b = x[s], c = x[2 * s], d = x[3 * s];
    if (out == 2) {
        x[0] = a - c;
        x[s] = b + c;
        x[2 * s] = c - b;
        x[3 * s] = b - d;
        return;
    }
    const REAL e = x[4 * s], f = x[5 * s];
    const REAL even_p = e - LIT(2.0) * c, odd_p = d - LIT(2.0) * b;
    const REAL even_q = e - LIT(0.5) * c, odd_q = d - LIT(0.5) * b;
    x[0] = a + e - LIT(2.5) * c;
    x[s] = even_p + WP * odd_p;
    x[2 * s] = even_p - WP * odd_p;
    x[3 * s] = even_q + WQ * odd_q;
    x[4 * s] = even_q - WQ * odd_q;
    x[5 * s] = b + f - LIT(2.5) * d;
}

FN void wino_output(REAL* m, int s, int out) {
    const REAL a = m[0], b = m[s], c = m[2 * s], d = m[3 * s];
    if (out == 2) {
        m[0] = a + (b + c);
        m[s] = b - c - d;
        return;
    }
    const REAL e = m[4 * s], f = m[5 * s];
    const REAL even_p = b + c, odd_p = b - c, even_q = d + e, odd_q = d - e;
    m[0] = a + (even_p + even_q);
    m[s] = WP * odd_p + WQ * odd_q;
    m[2 * s] = LIT(0.5) * even_p + LIT(2.0) * even_q;
    m[3 * s] = WP3 * odd_p + (WQ3 * odd_q + f);
}

FN void wino_output_adjoint(REAL* y, int s, int out) {
    const REAL a = y[0], b = y[s];
    if (out == 2) {
        y[s] = a + b;
        y[2 * s] = a - b;
        y[3 * s] = -b;
        return;
    }
    const REAL c = y[2 * s], d = y[3 * s];
    const REAL even_p = a + LIT(0.5) * c, odd_p = WP3 * d + WP * b;
    const REAL even_q = a + LIT(2.0) * c, odd_q = WQ3 * d + WQ * b;
    y[s] = even_p + odd_p;
    y[2 * s] = even_p - odd_p;
    y[3 * s] = even_q + odd_q;
    y[4 * s] = even_q - odd_q;
    y[5 * s] = d;
}

FN void wino_filter_line(REAL* w, int s, int out) {
    const REAL a = w[0], b = w[s], c = w[2 * s];
    if (out == 2) {
        const REAL even = LIT(0.5) * (a + c), odd = LIT(0.5) * b;
        w[s] = even + odd;
        w[2 * s] = even - odd;
        w[3 * s] = c;
        return;
    }
    const REAL even_p = (LIT(0.5) * c + a) / AT_P, odd_p = WP / AT_P * b;
    const REAL even_q = (LIT(2.0) * c + a) / AT_Q, odd_q = WQ / AT_Q * b;
    w[s] = even_p + odd_p;
    w[2 * s] = even_p - odd_p;
    w[3 * s] = even_q + odd_q;
    w[4 * s] = even_q - odd_q;
    w[5 * s] = c;
}

FN void wino_filter_adjoint(REAL* u, int s, int out) {
    const REAL a = u[0], b = u[s], c = u[2 * s], d = u[3 * s];
    if (out == 2) {
        const REAL even = LIT(0.5) * (b + c), odd = LIT(0.5) * (b - c);
        u[0] = a + even;
        u[s] = odd;
        u[2 * s] = even + d;
        return;
    }
    const REAL e = u[4 * s], f = u[5 * s];
    const REAL even_p = (b + c) / AT_P, odd_p = (b - c) / AT_P;
    const REAL even_q = (d + e) / AT_Q, odd_q = (d - e) / AT_Q;
    u[0] = a + (even_p + even_q);
    u[s] = WP * odd_p + WQ * odd_q;
    u[2 * s] = LIT(0.5) * even_p + LIT(2.0) * even_q + f;
}

// Where filter `o` and channel `c` of point 0 lie in a transformed filter of so many rows, and the
// distance between points.
FN i64 wino_at(int o, int c, int rows) { return ((i64)(o / CHUNK) * rows + c) * CHUNK + o % CHUNK; }

FN i64 wino_step(int filters, int rows) {
    return (i64)((filters + CHUNK - 1) / CHUNK) * rows * CHUNK + CHUNK;
}

// u from w; `turned`: sums will run over filters, kernels turned by half a turn. Lanes beyond the
// last become zeros.
KERNEL void wino_filter(GLOBAL const REAL* w, Box W, GLOBAL REAL* u, Box U, int out, int turned,
                        int count) {
    const int lanes = turned ? W.c : W.n, rows = turned ? W.n : W.c;
    const i64 step = wino_step(lanes, rows);
    EACH(e, count) {
        const int k = e % (uint)rows, lane = e / (uint)rows, points = out + 2;
        REAL t[MOST * MOST];
        for (int a = 0; a < 3; a++) {
            for (int b = 0; b < 3; b++) {
                REAL v = ZERO;
                if (lane < lanes)
                    v = turned ? w[spot(W, k, lane, 2 - a, 2 - b)] : w[spot(W, lane, k, a, b)];
                t[a * MOST + b] = v;
            }
        }
        for (int b = 0; b < 3; b++) wino_filter_line(t + b, MOST, out);
        for (int i = 0; i < points; i++) wino_filter_line(t + i * MOST, 1, out);
        GLOBAL REAL* to = u + U.at + wino_at(lane, k, rows);
        for (int i = 0; i < points; i++)
            for (int j = 0; j < points; j++) to[(i * points + j) * step] = t[i * MOST + j];
    }
}

// Tiles of an image, transformed: those of an input (`gather` 1, they overlap), or of the gradient of
// an output. Tiles are numbered sample by sample, row by row.
KERNEL void wino_forth(GLOBAL const REAL* x, Box X, GLOBAL REAL* v, Box V, int out, int gather,
                       int ph, int pw, int th, int tw, int count) {
    const int tiles = X.n * th * tw, points = out + 2, seen = gather ? points : out;
    EACH(e, count) {
        const int t = e % (uint)tiles, c = e / (uint)tiles;
        const int n = t / (th * tw), top = t / tw % th * out - ph, left = t % tw * out - pw;
        REAL p[MOST * MOST];
        for (int a = 0; a < seen; a++) {
            for (int b = 0; b < seen; b++) {
                const int h = top + a, w = left + b;
                const int in = h >= 0 && h < X.h && w >= 0 && w < X.w;
                p[a * MOST + b] = in ? x[spot(X, n, c, h, w)] : ZERO;
            }
        }
        for (int b = 0; b < seen; b++) {
            if (gather) wino_input(p + b, MOST, out);
            else wino_output_adjoint(p + b, MOST, out);
        }
        for (int a = 0; a < points; a++) {
            if (gather) wino_input(p + a * MOST, 1, out);
            else wino_output_adjoint(p + a * MOST, 1, out);
        }
        for (int a = 0; a < points; a++)
            for (int b = 0; b < points; b++)
                v[V.at + ((i64)(a * points + b) * X.c + c) * tiles + t] = p[a * MOST + b];
    }
}

// m[point][o][tile] = Σ u[point](o, c) · v[point][c][tile]; point z.
KERNEL void wino_product(GLOBAL const REAL* u, Box U, GLOBAL const REAL* v, Box V, GLOBAL REAL* m,
                         Box M, int filters, int channels, int tiles) {
    GEMM_BEGIN
    GLOBAL const REAL* pu = u + U.at + GRP(2) * wino_step(filters, channels);
    GLOBAL const REAL* pv = v + V.at + (i64)GRP(2) * channels * tiles;
    GLOBAL REAL* pm = m + M.at + (i64)GRP(2) * filters * tiles;
#define A_AT(o, c) ((o) < filters ? pu[wino_at(o, c, channels)] : ZERO)
#define B_AT(c) (col < tiles ? pv[(i64)(c) * tiles + col] : ZERO)
#define STORE(o, t, value) pm[(i64)o * tiles + t] = value;
    GEMM_SUM(0, channels, A_AT, B_AT)
    GEMM_END(filters, tiles, STORE)
#undef A_AT
#undef B_AT
#undef STORE
}

// du[point](o, c) += Σ g[point][o][tile] · v[point][c][tile]; rows of du are padded to whole chunks.
KERNEL void wino_over_tiles(GLOBAL const REAL* g, Box G, GLOBAL const REAL* v, Box V,
                            GLOBAL REAL* du, Box U, int filters, int channels, int tiles) {
    GEMM_BEGIN
    const int rows = (channels + CHUNK - 1) / CHUNK * CHUNK;
    GLOBAL const REAL* pg = g + G.at + (i64)GRP(2) * filters * tiles;
    GLOBAL const REAL* pv = v + V.at + (i64)GRP(2) * channels * tiles;
    GLOBAL REAL* pu = du + U.at + GRP(2) * wino_step(filters, rows);
#define A_AT(o, t) ((o) < filters ? pg[(i64)(o) * tiles + t] : ZERO)
#define B_AT(t) (col < channels ? pv[(i64)col * tiles + t] : ZERO)
#define STORE(o, c, value) pu[wino_at(o, c, rows)] += value;
    GEMM_SUM(0, tiles, A_AT, B_AT)
    GEMM_END(filters, channels, STORE)
#undef A_AT
#undef B_AT
#undef STORE
}

KERNEL void wino_back(GLOBAL const REAL* m, Box M, GLOBAL const REAL* bias, Box S, int biased,
                      int positive, GLOBAL REAL* y, Box Y, int out, int th, int tw, int count) {
    const int tiles = Y.n * th * tw, points = out + 2;
    EACH(e, count) {
        const int t = e % (uint)tiles, o = e / (uint)tiles;
        const int n = t / (th * tw), top = t / tw % th * out, left = t % tw * out;
        REAL p[MOST * MOST];
        for (int a = 0; a < points; a++)
            for (int b = 0; b < points; b++)
                p[a * MOST + b] = m[M.at + ((i64)(a * points + b) * Y.c + o) * tiles + t];
        for (int b = 0; b < points; b++) wino_output(p + b, MOST, out);
        for (int a = 0; a < out; a++) wino_output(p + a * MOST, 1, out);
        for (int a = 0; a < out && top + a < Y.h; a++) {
            for (int b = 0; b < out && left + b < Y.w; b++) {
                REAL v = p[a * MOST + b];
                if (biased) v += bias[S.at + o];
                if (positive && v <= ZERO) v = ZERO;
                y[spot(Y, n, o, top + a, left + b)] = v;
            }
        }
    }
}

// dw += the transformed gradient, brought back.
KERNEL void wino_finish(GLOBAL const REAL* du, Box U, GLOBAL REAL* dw, Box W, int out, int count) {
    const int rows = (W.c + CHUNK - 1) / CHUNK * CHUNK, points = out + 2;
    const i64 step = wino_step(W.n, rows);
    EACH(e, count) {
        const int c = e % (uint)W.c, o = e / (uint)W.c;
        GLOBAL const REAL* from = du + U.at + wino_at(o, c, rows);
        REAL p[MOST * MOST];
        for (int i = 0; i < points; i++)
            for (int j = 0; j < points; j++) p[i * MOST + j] = from[(i * points + j) * step];
        for (int j = 0; j < points; j++) wino_filter_adjoint(p + j, MOST, out);
        for (int a = 0; a < 3; a++) wino_filter_adjoint(p + a * MOST, 1, out);
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) dw[spot(W, o, c, a, b)] += p[a * MOST + b];
    }
}
