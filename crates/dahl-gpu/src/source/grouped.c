// Convolution in groups of channels, with `dh` and `dw` between kernel positions: an item per result. Depthwise
// convolutions have few terms each, so there is nothing to share among items.
KERNEL void grouped_forward(GLOBAL const REAL* x, Box X, GLOBAL const REAL* w, Box W,
                            GLOBAL const REAL* bias, Box S, int biased, int positive,
                            GLOBAL REAL* y, Box Y, Win win, int dh, int dw, int groups, int count) {
    EACH(i, count) {
        const int v = i % (uint)Y.w, h = i / (uint)Y.w % (uint)Y.h;
        const int o = i / (uint)(Y.w * Y.h) % (uint)Y.c, n = i / (uint)(Y.w * Y.h) / (uint)Y.c;
        const int first = o / (Y.c / groups) * W.c;
        const int top = h * win.sh - win.ph, left = v * win.sw - win.pw;
        REAL sum = biased ? bias[S.at + o] : ZERO;
        for (int c = 0; c < W.c; c++)
            for (int a = 0; a < win.kh; a++)
                for (int b = 0; b < win.kw; b++)
                    sum += w[spot(W, o, c, a, b)] *
                           pixel(x, X, n, first + c, top + a * dh, left + b * dw);
        y[place(Y, i)] = positive && sum <= ZERO ? ZERO : sum;
    }
}

KERNEL void grouped_input_grad(GLOBAL const REAL* dy, Box DY, GLOBAL const REAL* w, Box W,
                               GLOBAL REAL* dx, Box DX, Win win, int dh, int dw, int groups,
                               int count) {
    EACH(i, count) {
        const int v = i % (uint)DX.w, h = i / (uint)DX.w % (uint)DX.h;
        const int c = i / (uint)(DX.w * DX.h) % (uint)DX.c, n = i / (uint)(DX.w * DX.h) / (uint)DX.c;
        const int each = DY.c / groups, first = c / W.c * each;
        REAL sum = ZERO;
        for (int o = first; o < first + each; o++)
            for (int a = 0; a < win.kh; a++) {
                const int p = back(h, a * dh, win.sh, win.ph, DY.h);
                for (int b = 0; p >= 0 && b < win.kw; b++) {
                    const int q = back(v, b * dw, win.sw, win.pw, DY.w);
                    if (q >= 0) sum += w[spot(W, o, c % W.c, a, b)] * dy[spot(DY, n, o, p, q)];
                }
            }
        dx[place(DX, i)] = sum;
    }
}

// A group per weight, which adds up all pixels.
KERNEL void grouped_filter_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                                GLOBAL REAL* out, Box DW, Win win, int dh, int dw, int groups) {
    LOCAL REAL part[GROUP];
    const uint weight = GRP(0), plane = (uint)(DY.h * DY.w);
    const int b = weight % (uint)DW.w, a = weight / (uint)DW.w % (uint)DW.h;
    const int c = weight / (uint)(DW.w * DW.h) % (uint)DW.c;
    const int o = weight / (uint)(DW.w * DW.h) / (uint)DW.c;
    const int channel = o / (DY.c / groups) * DW.c + c;
    REAL sum = ZERO;
    for (uint r = LID(0); r < (uint)DY.n * plane; r += LSIZE(0)) {
        const int n = r / plane, h = r % plane / (uint)DY.w, v = r % (uint)DY.w;
        sum += dy[spot(DY, n, o, h, v)] *
               pixel(x, X, n, channel, h * win.sh - win.ph + a * dh,
                             v * win.sw - win.pw + b * dw);
    }
    sum = group_sum(part, sum);
    if (LID(0) == 0) out[place(DW, weight)] += sum;
}
