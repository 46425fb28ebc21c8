// Optimisers: PyTorch's formulas in PyTorch's order. What schedules change is read from an array.
KERNEL void sgd(GLOBAL const REAL* values, Box V, GLOBAL const REAL* grad, Box G, GLOBAL REAL* param,
                Box P, int count) {
    const REAL rate = values[V.at], decay = values[V.at + 1];
    EACH(i, count) {
        const i64 at = place(P, i);
        const REAL p = param[at];
        param[at] = p - rate * (grad[place(G, i)] + decay * p);
    }
}

// As PyTorch's lerp: exact at both ends.
KERNEL void average(GLOBAL const REAL* weight, Box V, GLOBAL const REAL* param, Box P, GLOBAL REAL* average,
                    Box A, int count) {
    const REAL w = weight[V.at];
    EACH(i, count) {
        const i64 at = place(A, i);
        const REAL a = average[at], p = param[place(P, i)];
        average[at] = w < LIT(0.5) ? a + w * (p - a) : p - (p - a) * (ONE - w);
    }
}

KERNEL void sgd_momentum(GLOBAL const REAL* values, Box V, GLOBAL const REAL* grad, Box G,
                         GLOBAL REAL* param, Box P, GLOBAL REAL* buffer, Box B, int nesterov,
                         int count) {
    const REAL rate = values[V.at], decay = values[V.at + 1], momentum = values[V.at + 2];
    EACH(i, count) {
        const i64 at = place(P, i), in = place(B, i);
        const REAL g = grad[place(G, i)] + decay * param[at];
        const REAL b = momentum * buffer[in] + g;
        buffer[in] = b;
        param[at] -= rate * (nesterov ? g + momentum * b : b);
    }
}

// What all elements of a step share, computed once and as wide as the device can: rate with its
// correction, root of the second correction, epsilon, 1 − β₁, β₂, 1 − β₂, factor of the parameter,
// decay of the gradient.
KERNEL void adam_values(GLOBAL const REAL* values, Box V, GLOBAL REAL* out, Box O, int decoupled) {
    EACH(i, 1) {
        const WIDE rate = values[V.at], beta1 = values[V.at + 1], beta2 = values[V.at + 2];
        const WIDE decay = values[V.at + 4], step = values[V.at + 5];
        out[O.at] = (REAL)(rate / (1 - W_POW(beta1, step)));
        out[O.at + 1] = (REAL)W_SQRT(1 - W_POW(beta2, step));
        out[O.at + 2] = values[V.at + 3];
        out[O.at + 3] = (REAL)(1 - beta1);
        out[O.at + 4] = (REAL)beta2;
        out[O.at + 5] = (REAL)(1 - beta2);
        out[O.at + 6] = decoupled ? (REAL)(1 - rate * decay) : ONE;
        out[O.at + 7] = decoupled ? ZERO : (REAL)decay;
    }
}

KERNEL void adam(GLOBAL const REAL* values, Box V, GLOBAL const REAL* grad, Box G,
                 GLOBAL REAL* param, Box P, GLOBAL REAL* mean, Box M, GLOBAL REAL* square, Box S,
                 int count) {
    GLOBAL const REAL* v = values + V.at;
    EACH(i, count) {
        const i64 at = place(P, i), am = place(M, i), as = place(S, i);
        const REAL p = param[at] * v[6];
        const REAL g = grad[place(G, i)] + v[7] * p;
        const REAL m = mean[am] + (g - mean[am]) * v[3];
        const REAL s = v[4] * square[as] + v[5] * g * g;
        mean[am] = m;
        square[as] = s;
        param[at] = p - v[0] * (m / (R_SQRT(s) / v[1] + v[2]));
    }
}

// Scales a gradient so that the global norm is at most `most`.
KERNEL void clip_norm(GLOBAL const REAL* total, Box T, GLOBAL REAL* grad, Box G, REAL most,
                      int count) {
    REAL factor = most / (R_SQRT(total[T.at]) + LIT(1e-6));
    if (factor > ONE) factor = ONE;
    EACH(i, count) grad[place(G, i)] *= factor;
}
