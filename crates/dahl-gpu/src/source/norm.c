// Batch normalisation. What is kept per channel lies in rows: element c of row r is at r · sh + c.
#define ROW(b, r, c) ((b).at + (i64)(r) * (b).sh + (c))

// How many, their mean, and the sum of squared distances from it: a group per channel.
KERNEL void bn_moments(GLOBAL const REAL* x, Box X, GLOBAL REAL* out, Box O) {
    LOCAL REAL part[GROUP];
    const int c = GRP(0);
    const uint count = (uint)(X.n * X.h * X.w);
    REAL sum = ZERO;
    for (uint r = LID(0); r < count; r += LSIZE(0)) sum += x[in_channel(X, c, r)];
    const REAL mean = group_sum(part, sum) / (REAL)count;
    REAL square = ZERO;
    for (uint r = LID(0); r < count; r += LSIZE(0)) {
        const REAL d = x[in_channel(X, c, r)] - mean;
        square += d * d;
    }
    square = group_sum(part, square);
    if (LID(0) == 0) {
        out[ROW(O, 0, c)] = (REAL)count;
        out[ROW(O, 1, c)] = mean;
        out[ROW(O, 2, c)] = square;
    }
}

// Merges the tiles' moments in order (Chan, Golub and LeVeque), then what normalising reads and the
// running mean and variance.
KERNEL void bn_finish(GLOBAL const REAL* all, Box A, GLOBAL REAL* total, Box T, GLOBAL REAL* stats,
                      Box S, GLOBAL REAL* mean_, Box M, GLOBAL REAL* var_, Box V, REAL epsilon,
                      REAL momentum, int channels) {
    EACH(c, channels) {
        REAL count = all[spot(A, 0, 0, 0, c)], mean = all[spot(A, 0, 0, 1, c)];
        REAL square = all[spot(A, 0, 0, 2, c)];
        for (int t = 1; t < A.c; t++) {
            const REAL n = all[spot(A, 0, t, 0, c)], m = all[spot(A, 0, t, 1, c)];
            const REAL sum = count + n, delta = m - mean;
            if (sum == ZERO) continue;
            square += all[spot(A, 0, t, 2, c)] + delta * delta * (count * n / sum);
            mean += delta * (n / sum);
            count = sum;
        }
        total[ROW(T, 0, c)] = count;
        total[ROW(T, 1, c)] = mean;
        total[ROW(T, 2, c)] = square;
        stats[ROW(S, 0, c)] = mean;
        stats[ROW(S, 1, c)] = ONE / R_SQRT(square / count + epsilon);
        const REAL keep = ONE - momentum;
        mean_[M.at + c] = keep * mean_[M.at + c] + momentum * mean;
        var_[V.at + c] = keep * var_[V.at + c] + momentum * (square / (count - ONE));
    }
}

KERNEL void bn_running(GLOBAL const REAL* mean, Box M, GLOBAL const REAL* var_, Box V,
                       GLOBAL REAL* stats, Box S, REAL epsilon, int channels) {
    EACH(c, channels) {
        stats[ROW(S, 0, c)] = mean[M.at + c];
        stats[ROW(S, 1, c)] = ONE / R_SQRT(var_[V.at + c] + epsilon);
    }
}

KERNEL void bn_normalise(GLOBAL const REAL* x, Box X, GLOBAL const REAL* stats, Box S,
                         GLOBAL const REAL* factor, Box F, GLOBAL const REAL* shift, Box H,
                         GLOBAL REAL* y, Box Y, int positive, REAL cap, int count) {
    EACH(i, count) {
        const int c = i / (uint)(X.h * X.w) % (uint)X.c;
        const REAL slope = stats[ROW(S, 1, c)] * factor[F.at + c];
        REAL v = (x[place(X, i)] - stats[ROW(S, 0, c)]) * slope + shift[H.at + c];
        if (positive && v <= ZERO) v = ZERO;
        if (cap > ZERO && v >= cap) v = cap;
        y[place(Y, i)] = v;
    }
}

// Whether no gradient passes an output of the positive part, which is cut off at `cap` unless that is 0.
FN int stopped(REAL y, REAL cap) { return !(y > ZERO && (cap <= ZERO || y < cap)); }

// The sums of dy and of dy · x̂, added: a group per channel. `masked`: y says which gradients count.
KERNEL void bn_sums(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                    GLOBAL const REAL* stats, Box S, GLOBAL const REAL* y, Box Y, int masked,
                    REAL cap, GLOBAL REAL* out, Box O) {
    LOCAL REAL part[GROUP];
    const int c = GRP(0);
    const uint count = (uint)(X.n * X.h * X.w);
    const REAL mean = stats[ROW(S, 0, c)];
    REAL plain = ZERO, centred = ZERO;
    for (uint r = LID(0); r < count; r += LSIZE(0)) {
        REAL g = dy[in_channel(DY, c, r)];
        if (masked && stopped(y[in_channel(Y, c, r)], cap)) g = ZERO;
        plain += g;
        centred += g * (x[in_channel(X, c, r)] - mean);
    }
    plain = group_sum(part, plain);
    centred = group_sum(part, centred);
    if (LID(0) == 0) {
        out[ROW(O, 0, c)] += plain;
        out[ROW(O, 1, c)] += centred * stats[ROW(S, 1, c)];
    }
}

KERNEL void bn_input_grad(GLOBAL const REAL* x, Box X, GLOBAL const REAL* dy, Box DY,
                          GLOBAL const REAL* stats, Box S, GLOBAL const REAL* sums, Box U,
                          GLOBAL const REAL* factor, Box F, GLOBAL const REAL* y, Box Y, int masked,
                          REAL cap, GLOBAL REAL* dx, Box DX, REAL share, int count) {
    EACH(i, count) {
        const int c = i / (uint)(X.h * X.w) % (uint)X.c;
        const REAL inverse = stats[ROW(S, 1, c)];
        REAL g = dy[place(DY, i)];
        if (masked && stopped(y[place(Y, i)], cap)) g = ZERO;
        const REAL offset = sums[ROW(U, 0, c)] * share;
        const REAL slope = sums[ROW(U, 1, c)] * share * inverse;
        const REAL d = x[place(X, i)] - stats[ROW(S, 0, c)];
        dx[place(DX, i)] = inverse * factor[F.at + c] * (g - offset - d * slope);
    }
}
