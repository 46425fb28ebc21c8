// Losses against arrays of targets, and cross-entropy with smoothing and class weights: a group per sample.

// 0: squared difference, 1: absolute difference, 2: binary cross-entropy of a logit.
FN REAL distance_of(int which, REAL s, REAL t) {
    if (which == 0) return (s - t) * (s - t);
    if (which == 1) return R_ABS(s - t);
    return (s <= ZERO ? ZERO : s) - s * t + R_LOG1P(R_EXP(-R_ABS(s)));
}

FN REAL distance_slope(int which, REAL s, REAL t) {
    if (which == 0) return (s - t) + (s - t);
    if (which == 1) return s > t ? ONE : s < t ? -ONE : s - t;
    return logistic(s) - t;
}

KERNEL void value_losses(GLOBAL const REAL* x, Box X, GLOBAL const REAL* t, Box T,
                         GLOBAL REAL* losses, Box S, GLOBAL REAL* grad, Box G, int graded,
                         REAL factor, int which, int count) {
    LOCAL REAL part[GROUP];
    const uint first = (uint)GRP(0) * count;
    REAL sum = ZERO;
    for (uint r = LID(0); r < (uint)count; r += LSIZE(0)) {
        const REAL a = x[place(X, first + r)], b = t[place(T, first + r)];
        sum += distance_of(which, a, b);
        if (graded) grad[place(G, first + r)] = factor / (REAL)count * distance_slope(which, a, b);
    }
    sum = group_sum(part, sum);
    if (LID(0) == 0) losses[S.at + GRP(0)] = sum / (REAL)count;
}

// The class of a label, or −1.
FN int class_of(REAL label, int classes) {
    return label >= ZERO && label < (REAL)classes && R_RINT(label) == label ? (int)label : -1;
}

KERNEL void smooth_losses(GLOBAL const REAL* x, Box X, GLOBAL const REAL* labels, Box L,
                          GLOBAL const REAL* weights, Box W, int weighted,
                          GLOBAL const REAL* total, Box T, int divided, GLOBAL REAL* losses, Box S,
                          GLOBAL REAL* right, Box R, GLOBAL REAL* grad, Box G, int graded,
                          REAL factor, REAL smoothing, int batch) {
    LOCAL REAL part[GROUP];
    LOCAL int where[GROUP];
    const int b = GRP(0), of = class_of(labels[L.at + b], X.w);
    GLOBAL const REAL* row = x + spot(X, 0, 0, b, 0);
    const int largest = group_largest(part, where, row, X.w);
    const REAL most = row[largest], nan = ZERO / ZERO;
    const REAL share = divided ? (REAL)batch / total[T.at] : ONE;
    REAL sum = ZERO;
    for (int i = LID(0); i < X.w; i += LSIZE(0)) sum += R_EXP(row[i] - most);
    sum = group_sum(part, sum);
    const REAL whole = R_LOG(sum);
    REAL all = ZERO, spread = ZERO;
    for (int i = LID(0); i < X.w; i += LSIZE(0)) {
        const REAL weight = weighted ? weights[W.at + i] : ONE;
        all += weight;
        if (smoothing != ZERO) spread += weight * (whole - (row[i] - most));
    }
    all = group_sum(part, all);
    spread = group_sum(part, spread);
    const REAL soft = smoothing / (REAL)X.w;
    const REAL own = of < 0 ? nan : (ONE - smoothing) * (weighted ? weights[W.at + of] : ONE);
    if (LID(0) == 0) {
        losses[S.at + b] = of < 0 ? nan : share * (own * (whole - (row[of] - most)) + soft * spread);
        right[R.at + b] = of >= 0 && of == largest ? ONE : ZERO;
    }
    if (graded) {
        GLOBAL REAL* out = grad + spot(G, 0, 0, b, 0);
        for (int i = LID(0); i < X.w; i += LSIZE(0)) {
            const REAL weight = weighted ? weights[W.at + i] : ONE;
            const REAL wanted = soft * weight + (i == of ? own : ZERO);
            const REAL g = R_EXP(row[i] - most) / sum * (own + soft * all) - wanted;
            out[i] = of < 0 ? nan : factor * share * g;
        }
    }
}

// Cross-entropy with a share per class.
KERNEL void soft_losses(GLOBAL const REAL* x, Box X, GLOBAL const REAL* shares, Box T,
                        GLOBAL REAL* losses, Box S, GLOBAL REAL* right, Box R, GLOBAL REAL* grad,
                        Box G, int graded, REAL factor) {
    LOCAL REAL part[GROUP];
    LOCAL int where[GROUP];
    const int b = GRP(0);
    GLOBAL const REAL* row = x + spot(X, 0, 0, b, 0);
    GLOBAL const REAL* wanted = shares + spot(T, 0, 0, b, 0);
    const int largest = group_largest(part, where, row, X.w);
    const int of = group_largest(part, where, wanted, X.w);
    const REAL most = row[largest];
    REAL sum = ZERO;
    for (int i = LID(0); i < X.w; i += LSIZE(0)) sum += R_EXP(row[i] - most);
    sum = group_sum(part, sum);
    const REAL whole = R_LOG(sum);
    REAL all = ZERO, loss = ZERO;
    for (int i = LID(0); i < X.w; i += LSIZE(0)) {
        all += wanted[i];
        // A class of no share adds nothing, even at an infinite logit.
        if (wanted[i] != ZERO) loss += wanted[i] * (whole - (row[i] - most));
    }
    all = group_sum(part, all);
    loss = group_sum(part, loss);
    if (LID(0) == 0) {
        losses[S.at + b] = loss;
        right[R.at + b] = of == largest ? ONE : ZERO;
    }
    if (graded) {
        GLOBAL REAL* out = grad + spot(G, 0, 0, b, 0);
        for (int i = LID(0); i < X.w; i += LSIZE(0))
            out[i] = factor * (R_EXP(row[i] - most) / sum * all - wanted[i]);
    }
}

// The weight of each sample's class.
KERNEL void label_weights(GLOBAL const REAL* labels, Box L, GLOBAL const REAL* weights, Box W,
                          GLOBAL REAL* out, Box O, int count) {
    EACH(i, count) {
        const int of = class_of(labels[L.at + i], W.w);
        out[O.at + i] = of < 0 ? ZERO / ZERO : weights[W.at + of];
    }
}
