// Activations and their gradients, every element alone: p is the slope or α. `sigmoid_grad` and `tanh_grad` get
// the output as b, the others the input.
#define BINARY_P(name, value)                                                                    \
    KERNEL void name(GLOBAL const REAL* a_, Box A, GLOBAL const REAL* b_, Box B, GLOBAL REAL* y_, \
                     Box Y, int count, REAL p) {                                                 \
        EACH(i, count) {                                                                         \
            const REAL a = a_[place(A, i)], b = b_[place(B, i)];                                 \
            y_[place(Y, i)] = value;                                                             \
        }                                                                                        \
    }

#define HALF LIT(0.5)
#define ROOT_HALF LIT(0.70710678118654752440)
#define GELU_SLOPE LIT(0.79788456080286535588)
#define GELU_CUBIC LIT(0.044715)
#define DENSITY LIT(0.39894228040143267794)

// The exponential is of a number that is not positive: nothing overflows.
FN REAL logistic(REAL x) {
    const REAL e = R_EXP(-R_ABS(x));
    return (x < ZERO ? e : ONE) / (ONE + e);
}

FN REAL normal(REAL x) { return HALF * (ONE + R_ERF(x * ROOT_HALF)); }

FN REAL bent(REAL x) { return R_TANH(GELU_SLOPE * (x + GELU_CUBIC * x * x * x)); }

// With (1 + tanh u) / 2 and (1 - tanh u) / 2 as logistic functions of 2 u: where tanh is nearly 1, their product
// is as exact as they are, while 1 - tanh^2 is what rounding left.
FN REAL gelu_tanh_slope(REAL x) {
    const REAL twice = LIT(2.0) * GELU_SLOPE * (x + GELU_CUBIC * x * x * x);
    const REAL above = logistic(twice), product = above * logistic(-twice);
    const REAL slope = GELU_SLOPE * (ONE + LIT(3.0) * GELU_CUBIC * x * x);
    return above + (product == ZERO ? ZERO : LIT(2.0) * x * product * slope);
}

FN REAL silu_slope(REAL x) {
    const REAL s = logistic(x);
    return s * (ONE + x * (ONE - s));
}

UNARY(sigmoid, logistic(a))
UNARY(hyperbolic_tangent, R_TANH(a))
UNARY(leaky_relu, a > ZERO ? a : p * a)
UNARY(elu, a > ZERO ? a : p * R_EXPM1(a))
UNARY(gelu, a * normal(a))
UNARY(gelu_tanh, HALF * a * (ONE + bent(a)))
UNARY(silu, a * logistic(a))
BINARY(sigmoid_grad, a * (ONE - b) * b)
BINARY(tanh_grad, a * (ONE - b * b))
BINARY_P(leaky_relu_grad, b > ZERO ? a : p * a)
BINARY_P(elu_grad, b > ZERO ? a : a * p * R_EXP(b))
BINARY(gelu_grad, a * (normal(b) + b * R_EXP(-HALF * b * b) * DENSITY))
BINARY(gelu_tanh_grad, a * gelu_tanh_slope(b))
BINARY(silu_grad, a * silu_slope(b))
