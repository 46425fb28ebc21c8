// The dialect in CUDA C++, for NVRTC: no header is included.
#define KERNEL extern "C" __global__
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_PTR
#define FN static __device__ __forceinline__
#define BARRIER __syncthreads()
#define DAHL_AXIS(v, d) ((d) == 0 ? (v).x : (d) == 1 ? (v).y : (v).z)
#define LID(d) ((int)DAHL_AXIS(threadIdx, d))
#define LSIZE(d) ((int)DAHL_AXIS(blockDim, d))
#define GRP(d) ((int)DAHL_AXIS(blockIdx, d))
#define GID (blockIdx.x * blockDim.x + threadIdx.x)
#define GSIZE (gridDim.x * blockDim.x)
#define MUL_HI(a, b) __umulhi(a, b)
#if REAL_IS_DOUBLE
#define R_EXP exp
#define R_LOG log
#define R_EXPM1 expm1
#define R_LOG1P log1p
#define R_TANH tanh
#define R_ERF erf
#define R_ABS fabs
#define R_POW pow
#define R_SQRT sqrt
#define R_RINT rint
#else
#define R_EXP expf
#define R_LOG logf
#define R_EXPM1 expm1f
#define R_LOG1P log1pf
#define R_TANH tanhf
#define R_ERF erff
#define R_ABS fabsf
#define R_POW powf
#define R_SQRT sqrtf
#define R_RINT rintf
#endif
#define W_POW pow
#define W_SQRT sqrt
#define IS_NAN(x) ((x) != (x))
typedef long long i64;
typedef unsigned int uint;
typedef unsigned char u8;
