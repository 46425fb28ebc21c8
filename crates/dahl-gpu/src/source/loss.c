// Softmax and cross-entropy: a group per row.

// Whether (v, i) comes before (best, at) as a row's largest: not-a-number first, then the larger, then
// the earlier.
FN int leads(REAL v, int i, REAL best, int at) {
    if (at < 0) return i >= 0;
    if (i < 0) return 0;
    const int nan = IS_NAN(v), other = IS_NAN(best);
    if (nan || other) return nan && (!other || i < at);
    return v > best || (v == best && i < at);
}

// The first of the largest elements of a row; every item gets its place.
FN int group_largest(LOCAL_PTR REAL* part, LOCAL_PTR int* where, GLOBAL const REAL* row, int cols) {
    const int l = LID(0);
    REAL best = ZERO;
    int at = -1;
    for (int i = l; i < cols; i += LSIZE(0)) {
        if (leads(row[i], i, best, at)) {
            best = row[i];
            at = i;
        }
    }
    part[l] = best;
    where[l] = at;
    BARRIER;
    for (int reach = LSIZE(0) / 2; reach > 0; reach /= 2) {
        if (l < reach && leads(part[l + reach], where[l + reach], part[l], where[l])) {
            part[l] = part[l + reach];
            where[l] = where[l + reach];
        }
        BARRIER;
    }
    at = where[0];
    BARRIER;
    return at;
}

KERNEL void softmax(GLOBAL const REAL* x, Box X, GLOBAL REAL* y, Box Y) {
    LOCAL REAL part[GROUP];
    LOCAL int where[GROUP];
    GLOBAL const REAL* row = x + place(X, (uint)GRP(0) * X.w);
    GLOBAL REAL* out = y + place(Y, (uint)GRP(0) * X.w);
    const REAL most = row[group_largest(part, where, row, X.w)];
    REAL sum = ZERO;
    for (int i = LID(0); i < X.w; i += LSIZE(0)) {
        const REAL e = R_EXP(row[i] - most);
        out[i] = e;
        sum += e;
    }
    sum = group_sum(part, sum);
    for (int i = LID(0); i < X.w; i += LSIZE(0)) out[i] /= sum;
}

KERNEL void softmax_grad(GLOBAL const REAL* y, Box Y, GLOBAL const REAL* dy, Box DY, GLOBAL REAL* dx,
                         Box DX) {
    LOCAL REAL part[GROUP];
    const uint first = (uint)GRP(0) * Y.w;
    GLOBAL const REAL* row = y + place(Y, first);
    GLOBAL const REAL* grad = dy + place(DY, first);
    GLOBAL REAL* out = dx + place(DX, first);
    REAL dot = ZERO;
    for (int i = LID(0); i < Y.w; i += LSIZE(0)) dot += row[i] * grad[i];
    dot = group_sum(part, dot);
    for (int i = LID(0); i < Y.w; i += LSIZE(0)) out[i] = row[i] * (grad[i] - dot);
}

KERNEL void softmax_jacobian(GLOBAL const REAL* y, Box Y, GLOBAL REAL* out, Box O, int side) {
    EACH(i, side * side) {
        const int a = i / (uint)side, b = i % (uint)side;
        out[spot(O, 0, 0, a, b)] = y[Y.at + a] * ((a == b ? ONE : ZERO) - y[Y.at + b]);
    }
}

// Loss, gradient (if asked) and whether the prediction is right. A label that is no class gives
// results that are not numbers.
KERNEL void cross_entropy(GLOBAL const REAL* x, Box X, GLOBAL const REAL* labels, Box L,
                          GLOBAL REAL* losses, Box S, GLOBAL REAL* right, Box R, GLOBAL REAL* grad,
                          Box G, int graded, REAL factor) {
    LOCAL REAL part[GROUP];
    LOCAL int where[GROUP];
    const int b = GRP(0);
    GLOBAL const REAL* row = x + spot(X, 0, 0, b, 0);
    const int largest = group_largest(part, where, row, X.w);
    const REAL most = row[largest];
    REAL sum = ZERO;
    for (int i = LID(0); i < X.w; i += LSIZE(0)) sum += R_EXP(row[i] - most);
    sum = group_sum(part, sum);
    const REAL label = labels[L.at + b];
    const int known = label >= ZERO && label < (REAL)X.w && R_RINT(label) == label;
    const int of = known ? (int)label : 0;
    const REAL nan = ZERO / ZERO;
    if (LID(0) == 0) {
        losses[S.at + b] = known ? R_LOG(sum) - (row[of] - most) : nan;
        right[R.at + b] = known && of == largest ? ONE : ZERO;
    }
    if (graded) {
        GLOBAL REAL* out = grad + spot(G, 0, 0, b, 0);
        for (int i = LID(0); i < X.w; i += LSIZE(0)) {
            const REAL g = R_EXP(row[i] - most) * (factor / sum);
            out[i] = !known ? nan : i == of ? g - factor : g;
        }
    }
}
