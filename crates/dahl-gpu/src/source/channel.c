// A number for each channel: multiplied by it, added, and the norm over the channels of each pixel.
#define CHANNEL(b, i) ((i) / (uint)((b).h * (b).w) % (uint)(b).c)

KERNEL void channel_scale(GLOBAL const REAL* x, Box X, GLOBAL const REAL* scale, Box F, GLOBAL REAL* y,
                          Box Y, int count) {
    EACH(i, count) y[place(Y, i)] = x[place(X, i)] * scale[F.at + CHANNEL(X, i)];
}

KERNEL void channel_shift(GLOBAL REAL* x, Box X, GLOBAL const REAL* shift, Box H, int count) {
    EACH(i, count) x[place(X, i)] += shift[H.at + CHANNEL(X, i)];
}

// The sum of x · dy, added: a group per channel.
KERNEL void channel_scale_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                               GLOBAL REAL* dscale, Box F) {
    LOCAL REAL part[GROUP];
    const int c = GRP(0);
    const uint count = (uint)(X.n * X.h * X.w);
    REAL sum = ZERO;
    for (uint r = LID(0); r < count; r += LSIZE(0)) sum += x[in_channel(X, c, r)] * dy[in_channel(DY, c, r)];
    sum = group_sum(part, sum);
    if (LID(0) == 0) dscale[F.at + c] += sum;
}

// An item for each pixel, which lies in sample n at row h and column w.
#define PIXEL(b, i)                                                                              \
    const int w = (i) % (uint)(b).w, h = (i) / (uint)(b).w % (uint)(b).h;                        \
    const int n = (i) / (uint)((b).w * (b).h)

KERNEL void channel_norm(GLOBAL const REAL* x, Box X, GLOBAL const REAL* scale, Box F,
                         GLOBAL const REAL* shift, Box H, GLOBAL REAL* y, Box Y, GLOBAL REAL* stats, Box S,
                         REAL epsilon, int count) {
    EACH(i, count) {
        PIXEL(X, i);
        REAL sum = ZERO, square = ZERO;
        for (int c = 0; c < X.c; c++) sum += x[spot(X, n, c, h, w)];
        const REAL mean = sum / (REAL)X.c;
        for (int c = 0; c < X.c; c++) {
            const REAL d = x[spot(X, n, c, h, w)] - mean;
            square += d * d;
        }
        const REAL inverse = ONE / R_SQRT(square / (REAL)X.c + epsilon);
        for (int c = 0; c < X.c; c++)
            y[spot(Y, n, c, h, w)] = (x[spot(X, n, c, h, w)] - mean) * inverse * scale[F.at + c] + shift[H.at + c];
        stats[spot(S, n, 0, h, w)] = mean;
        stats[spot(S, n, 1, h, w)] = inverse;
    }
}

KERNEL void channel_norm_input_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                                    GLOBAL const REAL* stats, Box S, GLOBAL const REAL* scale, Box F,
                                    GLOBAL REAL* dx, Box DX, int count) {
    EACH(i, count) {
        PIXEL(X, i);
        const REAL mean = stats[spot(S, n, 0, h, w)], inverse = stats[spot(S, n, 1, h, w)];
        REAL plain = ZERO, centred = ZERO;
        for (int c = 0; c < X.c; c++) {
            const REAL g = dy[spot(DY, n, c, h, w)] * scale[F.at + c];
            plain += g;
            centred += g * (x[spot(X, n, c, h, w)] - mean);
        }
        const REAL offset = plain / (REAL)X.c, slope = centred * inverse * inverse / (REAL)X.c;
        for (int c = 0; c < X.c; c++) {
            const REAL g = dy[spot(DY, n, c, h, w)] * scale[F.at + c];
            dx[spot(DX, n, c, h, w)] = inverse * (g - offset - (x[spot(X, n, c, h, w)] - mean) * slope);
        }
    }
}

// dscale and dshift of each channel: a group per channel.
KERNEL void channel_norm_affine_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                                     GLOBAL const REAL* stats, Box S, GLOBAL REAL* dscale, Box F,
                                     GLOBAL REAL* dshift, Box H) {
    LOCAL REAL part[GROUP];
    const int c = GRP(0);
    const uint count = (uint)(X.n * X.h * X.w);
    REAL plain = ZERO, centred = ZERO;
    for (uint r = LID(0); r < count; r += LSIZE(0)) {
        const REAL g = dy[in_channel(DY, c, r)];
        plain += g;
        centred += g * (x[in_channel(X, c, r)] - stats[in_channel(S, 0, r)]) * stats[in_channel(S, 1, r)];
    }
    plain = group_sum(part, plain);
    centred = group_sum(part, centred);
    if (LID(0) == 0) {
        dscale[F.at + c] += centred;
        dshift[H.at + c] += plain;
    }
}
