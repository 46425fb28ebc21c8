// Layer norm and group norm: what is normalised together are `count` elements in a row of all elements, the
// work of one group. `plane` is 0 where scale and shift have a value per element, else the pixels of a channel.
FN i64 affine_place(Box F, int groups, uint r, int count, int plane) {
    return plane == 0 ? place(F, r) : F.at + ((uint)(GRP(0) % groups) * count + r) / (uint)plane;
}

KERNEL void sample_norm(GLOBAL const REAL* x, Box X, GLOBAL const REAL* scale, Box F,
                        GLOBAL const REAL* shift, Box H, GLOBAL REAL* y, Box Y, GLOBAL REAL* stats,
                        Box S, int count, int groups, int plane, REAL epsilon) {
    LOCAL REAL part[GROUP];
    const uint first = (uint)GRP(0) * count;
    REAL sum = ZERO;
    for (uint r = LID(0); r < (uint)count; r += LSIZE(0)) sum += x[place(X, first + r)];
    const REAL mean = group_sum(part, sum) / (REAL)count;
    REAL square = ZERO;
    for (uint r = LID(0); r < (uint)count; r += LSIZE(0)) {
        const REAL d = x[place(X, first + r)] - mean;
        square += d * d;
    }
    const REAL inverse = ONE / R_SQRT(group_sum(part, square) / (REAL)count + epsilon);
    for (uint r = LID(0); r < (uint)count; r += LSIZE(0)) {
        const i64 f = affine_place(F, groups, r, count, plane);
        const i64 h = affine_place(H, groups, r, count, plane);
        y[place(Y, first + r)] = (x[place(X, first + r)] - mean) * inverse * scale[f] + shift[h];
    }
    if (LID(0) == 0) {
        stats[ROW(S, GRP(0) / groups, GRP(0) % groups)] = mean;
        stats[ROW(S, GRP(0) / groups, groups + GRP(0) % groups)] = inverse;
    }
}

KERNEL void sample_norm_input_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                                   GLOBAL const REAL* stats, Box S, GLOBAL const REAL* scale, Box F,
                                   GLOBAL REAL* dx, Box DX, int count, int groups, int plane) {
    LOCAL REAL part[GROUP];
    const uint first = (uint)GRP(0) * count;
    const REAL mean = stats[ROW(S, GRP(0) / groups, GRP(0) % groups)];
    const REAL inverse = stats[ROW(S, GRP(0) / groups, groups + GRP(0) % groups)];
    REAL plain = ZERO, centred = ZERO;
    for (uint r = LID(0); r < (uint)count; r += LSIZE(0)) {
        const REAL g = dy[place(DY, first + r)] * scale[affine_place(F, groups, r, count, plane)];
        plain += g;
        centred += g * (x[place(X, first + r)] - mean);
    }
    const REAL offset = group_sum(part, plain) / (REAL)count;
    const REAL slope = group_sum(part, centred) * inverse * inverse / (REAL)count;
    for (uint r = LID(0); r < (uint)count; r += LSIZE(0)) {
        const REAL g = dy[place(DY, first + r)] * scale[affine_place(F, groups, r, count, plane)];
        const REAL d = x[place(X, first + r)] - mean;
        dx[place(DX, first + r)] = inverse * (g - offset - d * slope);
    }
}

// dscale and dshift of each element of a sample, added up over samples one after the other.
KERNEL void layer_norm_affine_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                                   GLOBAL const REAL* stats, Box S, GLOBAL REAL* dscale, Box F,
                                   GLOBAL REAL* dshift, Box H, int count, int samples) {
    EACH(i, count) {
        REAL plain = ZERO, centred = ZERO;
        for (int n = 0; n < samples; n++) {
            const uint at = (uint)n * count + i;
            const REAL g = dy[place(DY, at)];
            plain += g;
            centred += g * (x[place(X, at)] - stats[ROW(S, n, 0)]) * stats[ROW(S, n, 1)];
        }
        dscale[place(F, i)] += centred;
        dshift[place(H, i)] += plain;
    }
}

// dscale and dshift of each channel: a group per channel.
KERNEL void group_norm_affine_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                                   GLOBAL const REAL* stats, Box S, GLOBAL REAL* dscale, Box F,
                                   GLOBAL REAL* dshift, Box H, int groups) {
    LOCAL REAL part[GROUP];
    const int c = GRP(0), g = c / (X.c / groups);
    const uint count = (uint)(X.n * X.h * X.w);
    REAL plain = ZERO, centred = ZERO;
    for (uint r = LID(0); r < count; r += LSIZE(0)) {
        const int n = r / (uint)(X.h * X.w);
        const REAL d = x[in_channel(X, c, r)] - stats[ROW(S, n, g)], v = dy[in_channel(DY, c, r)];
        plain += v;
        centred += v * d * stats[ROW(S, n, groups + g)];
    }
    plain = group_sum(part, plain);
    centred = group_sum(part, centred);
    if (LID(0) == 0) {
        dscale[F.at + c] += centred;
        dshift[H.at + c] += plain;
    }
}
