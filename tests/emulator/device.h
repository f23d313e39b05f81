// What CUDA C++ has and plain C++ has not, for a thread that the emulated driver runs. Kernels are compiled with this
// in front of them, and bound to the driver when they are loaded.

#include <utility>

typedef unsigned int kpe_u32;
typedef unsigned long long kpe_u64;
struct kpe_index { kpe_u32 x, y, z; };

// What the driver keeps of the thread that runs, and what it offers.
struct kpe_state {
  kpe_index thread, block, threads, blocks;
  // Waits until all threads of the block that go on are at the same place; returns whether any said yes.
  int (*barrier)(int place, int yes);
  // Hands a value to the other threads of the block, at a place; returns that of another thread.
  kpe_u64 (*exchange)(int place, kpe_u64 value, kpe_u32 from);
  // Lets others run: this thread waits for what another block does.
  void (*spin)();
  // Sets what decides about a loop of a graph.
  void (*set_condition)(kpe_u64 handle, kpe_u32 value);
  // A clock, which goes on by a lot whenever somebody looks at it.
  long long clock;
  // How many pieces of texts have run: what a device takes for its time, the same whatever else the host does.
  kpe_u64 steps;
};
static kpe_state *kpe;
extern "C" __attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc() {
  if (kpe) ++kpe->steps;
}
extern "C" __attribute__((visibility("default"))) void kpe_bind(kpe_state *state) { kpe = state; }

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)
#define threadIdx (kpe->thread)
#define blockIdx (kpe->block)
#define blockDim (kpe->threads)
#define gridDim (kpe->blocks)
#define __syncthreads() kpe->barrier(__LINE__, 0)
#define __syncthreads_or(yes) kpe->barrier(__LINE__, yes)
#define __threadfence_system() ((void)0)
#define __threadfence() ((void)0)
#define KP_SPIN kpe->spin()
#define clock64() (kpe->clock += 1 << 20)
#define cudaGraphSetConditional(handle, value) kpe->set_condition(handle, value)
// One for all threads of a block, which run one after the other on the host; the driver puts them aside for other blocks.
#define __shared__ static __attribute__((section("kpe_shared")))
#define memcpy __builtin_memcpy
#define memset __builtin_memset

template <class T> static inline T kpe_shuffle(int place, T value, kpe_u32 step) {
  const kpe_u32 own = threadIdx.y * blockDim.x + threadIdx.x;
  kpe_u64 bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = kpe->exchange(place, bits, own % 32 + step < 32 ? own + step : own);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
#define __shfl_down_sync(mask, value, step) kpe_shuffle(__LINE__, value, step)

// One thread of the host runs all of them: a change is not interrupted.
template <class T> static inline T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }
template <class T> static inline T atomicMin(T *p, T v) { T old = *p; if (v < old) *p = v; return old; }
template <class T> static inline T atomicMax(T *p, T v) { T old = *p; if (v > old) *p = v; return old; }
template <class T> static inline T atomicAnd(T *p, T v) { T old = *p; *p = old & v; return old; }
template <class T> static inline T atomicOr(T *p, T v) { T old = *p; *p = old | v; return old; }
template <class T> static inline T atomicXor(T *p, T v) { T old = *p; *p = old ^ v; return old; }
template <class T> static inline T atomicCAS(T *p, T seen, T v) { T old = *p; if (old == seen) *p = v; return old; }
template <class T> static inline T atomicAdd(T *p, int v) { return atomicAdd(p, (T)v); }

template <class To, class From> static inline To kpe_bits(From x) { To y; __builtin_memcpy(&y, &x, sizeof y); return y; }
static inline float __int_as_float(int x) { return kpe_bits<float>(x); }
static inline float __uint_as_float(kpe_u32 x) { return kpe_bits<float>(x); }
static inline kpe_u32 __float_as_uint(float x) { return kpe_bits<kpe_u32>(x); }
static inline double __longlong_as_double(long long x) { return kpe_bits<double>(x); }
static inline float __double2float_rz(double x) {
  float r = (float)x;
  const double back = (double)r;
  if (back == x || x != x) return r;
  const bool beyond = x > 0 ? back > x : back < x;
  return beyond ? kpe_bits<float>(kpe_bits<kpe_u32>(r) - 1) : r;
}
extern "C" inline float __nv_half2float(unsigned short x) { return (float)kpe_bits<_Float16>(x); }
extern "C" inline unsigned short __nv_float2half_rn(float x) { return kpe_bits<unsigned short>((_Float16)x); }

#define KPE_ONE(name) \
  static inline double name(double x) { return __builtin_##name(x); } \
  static inline float name##f(float x) { return __builtin_##name##f(x); }
#define KPE_TWO(name) \
  static inline double name(double x, double y) { return __builtin_##name(x, y); } \
  static inline float name##f(float x, float y) { return __builtin_##name##f(x, y); }
KPE_ONE(sqrt) KPE_ONE(sin) KPE_ONE(cos) KPE_ONE(tan) KPE_ONE(asin) KPE_ONE(acos) KPE_ONE(atan) KPE_ONE(sinh)
KPE_ONE(cosh) KPE_ONE(tanh) KPE_ONE(asinh) KPE_ONE(acosh) KPE_ONE(atanh) KPE_ONE(exp) KPE_ONE(exp2) KPE_ONE(expm1)
KPE_ONE(log) KPE_ONE(log2) KPE_ONE(log10) KPE_ONE(log1p) KPE_ONE(floor) KPE_ONE(ceil) KPE_ONE(trunc) KPE_ONE(rint)
KPE_ONE(cbrt) KPE_ONE(erf) KPE_ONE(erfc) KPE_ONE(tgamma) KPE_ONE(lgamma) KPE_ONE(fabs)
KPE_TWO(pow) KPE_TWO(atan2) KPE_TWO(fmod) KPE_TWO(copysign) KPE_TWO(hypot)
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double nan(const char *) { return __builtin_nan(""); }
static inline float nanf(const char *) { return __builtin_nanf(""); }

// Calls a kernel with its parameters, which lie one after the other, each at a multiple of 8 bytes.
template <class... A, std::size_t... I>
static inline void kpe_spread(void (*kernel)(A...), const char *p, std::index_sequence<I...>) {
  const std::size_t sizes[] = {0, (sizeof(A) + 7) / 8 * 8 ...};
  const auto at = [&](std::size_t which) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i <= which; ++i) offset += sizes[i];
    return p + offset;
  };
  kernel(*(const A *)at(I)...);
}
template <class... A> static inline void kpe_call(void (*kernel)(A...), const void *p) {
  kpe_spread(kernel, (const char *)p, std::index_sequence_for<A...>());
}
template <class... A> static inline kpe_u32 kpe_sizes(void (*)(A...), kpe_u32 *into) {
  const kpe_u32 sizes[] = {(kpe_u32)sizeof(A)...};
  for (std::size_t i = 0; i < sizeof...(A); ++i) into[i] = sizes[i];
  return sizeof...(A);
}
