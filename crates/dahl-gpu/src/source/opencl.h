// The dialect in OpenCL C 1.2.
#if WIDE_IS_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL __kernel
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_PTR __local
#define FN static inline
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define LID(d) ((int)get_local_id(d))
#define LSIZE(d) ((int)get_local_size(d))
#define GRP(d) ((int)get_group_id(d))
#define GID ((uint)get_global_id(0))
#define GSIZE ((uint)get_global_size(0))
#define MUL_HI(a, b) mul_hi((uint)(a), (uint)(b))
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
#define W_POW pow
#define W_SQRT sqrt
#define IS_NAN(x) isnan(x)
typedef long i64;
typedef uchar u8;
