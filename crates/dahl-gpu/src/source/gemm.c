// Products of matrices by blocks: a group computes BLOCK × BLOCK results from slices in local memory,
// an item REG × REG of them in registers. The macros serve plain matrices, convolutions (whose
// second factor is gathered from an image) and products per point of a transformed domain.
//
// An item loads elements of one column of the second factor only, `col`, so what depends on the
// column is computed once. SIDE is a multiple of REG.
#define BLOCK (SIDE * REG)

#define GEMM_BEGIN                                                                               \
    LOCAL REAL ta[SIDE][BLOCK + 1];                                                              \
    LOCAL REAL tb[SIDE][BLOCK + 1];                                                              \
    const int lx = LID(0), ly = LID(1), lid = ly * SIDE + lx;                                    \
    const int row0 = GRP(1) * BLOCK, col0 = GRP(0) * BLOCK;                                      \
    const int col = col0 + lid % BLOCK;                                                          \
    REAL acc[REG][REG];                                                                          \
    for (int i = 0; i < REG; i++)                                                                \
        for (int j = 0; j < REG; j++) acc[i][j] = ZERO;

// A_AT(row, k) and B_AT(k) give elements that exist, or zero.
#define GEMM_SUM(K0, K1, A_AT, B_AT)                                                             \
    for (int k0 = (K0); k0 < (K1); k0 += SIDE) {                                                 \
        for (int r = 0; r < REG; r++) {                                                          \
            const int ka = k0 + lx, row = row0 + ly + r * SIDE;                                  \
            ta[lx][ly + r * SIDE] = ka < (K1) ? A_AT(row, ka) : ZERO;                            \
            const int kr = lid / BLOCK + r * (SIDE / REG), kb = k0 + kr;                         \
            tb[kr][lid % BLOCK] = kb < (K1) ? B_AT(kb) : ZERO;                                   \
        }                                                                                        \
        BARRIER;                                                                                 \
        for (int k = 0; k < SIDE; k++) {                                                         \
            REAL va[REG], vb[REG];                                                               \
            for (int i = 0; i < REG; i++) va[i] = ta[k][ly + i * SIDE];                          \
            for (int j = 0; j < REG; j++) vb[j] = tb[k][lx + j * SIDE];                          \
            for (int i = 0; i < REG; i++)                                                        \
                for (int j = 0; j < REG; j++) acc[i][j] += va[i] * vb[j];                        \
        }                                                                                        \
        BARRIER;                                                                                 \
    }

// STORE(row, column, value) for every result that exists.
#define GEMM_END(M, N, STORE)                                                                    \
    for (int i = 0; i < REG; i++) {                                                              \
        const int row = row0 + ly + i * SIDE;                                                    \
        for (int j = 0; j < REG; j++) {                                                          \
            const int column = col0 + lx + j * SIDE;                                             \
            if (row < (M) && column < (N)) { STORE(row, column, acc[i][j]) }                     \
        }                                                                                        \
    }

// c = a · b, elements (row, k) and (k, column) at the strides given; part z of the sum.
KERNEL void matmul(GLOBAL const REAL* a, Box A, int ar, int ac, GLOBAL const REAL* b, Box B, int br,
                   int bc, GLOBAL const REAL* bias, Box S, int biased, GLOBAL REAL* c, Box C, int M,
                   int N, int K, int part, int add) {
    GEMM_BEGIN
    const int k_begin = GRP(2) * part;
    const int k_end = K < k_begin + part ? K : k_begin + part;
#define A_AT(m, k) ((m) < M ? a[A.at + (i64)(m) * ar + (i64)(k) * ac] : ZERO)
#define B_AT(k) (col < N ? b[B.at + (i64)(k) * br + (i64)col * bc] : ZERO)
#define STORE(m, n, v)                                                                           \
    const i64 to = spot(C, 0, GRP(2), m, n);                                                     \
    REAL value = biased ? v + bias[S.at + n] : v;                                                \
    c[to] = add ? c[to] + value : value;
    GEMM_SUM(k_begin, k_end, A_AT, B_AT)
    GEMM_END(M, N, STORE)
#undef A_AT
#undef B_AT
#undef STORE
}

// The same for results too few to fill blocks: an item each.
KERNEL void matmul_items(GLOBAL const REAL* a, Box A, int ar, int ac, GLOBAL const REAL* b, Box B,
                         int br, int bc, GLOBAL const REAL* bias, Box S, int biased, GLOBAL REAL* c,
                         Box C, int M, int N, int K, int add) {
    EACH(i, M * N) {
        const int m = i / (uint)N, n = i % (uint)N;
        GLOBAL const REAL* pa = a + A.at + (i64)m * ar;
        GLOBAL const REAL* pb = b + B.at + (i64)n * bc;
        REAL sum = ZERO;
        for (int k = 0; k < K; k++) sum += pa[(i64)k * ac] * pb[(i64)k * br];
        if (biased) sum += bias[S.at + n];
        const i64 to = spot(C, 0, 0, m, n);
        c[to] = add ? c[to] + sum : sum;
    }
}
