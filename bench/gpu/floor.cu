// What CUDA C by hand takes on the machine at hand: the floor that everything else is measured beside. Built by
// `__main__.py` as a library, so that all of it is measured in one process and one context.

#include "timing.cuh"

namespace {
struct Slots {
  unsigned long long w[8];
};

__global__ void tiny(const Slots slots) {
  if (threadIdx.x == 0) ((float *)slots.w[0])[0] += 1.0f;
}

__global__ void saxpy(float a, const float *x, float *y, long n) {
  const long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void stencil(const float *a, float *b, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && j > 0 && i < n - 1 && j < n - 1) {
    const long p = (long)i * n + j;
    b[p] = 0.5f * a[p] + 0.125f * (a[p - n] + a[p + n] + a[p - 1] + a[p + 1]);
  }
}

__global__ void mandelbrot(int *out, int n, int most) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= n) return;
  const float cx = -2.0f + 2.5f * (float)j / (float)n, cy = -1.25f + 2.5f * (float)i / (float)n;
  float x = 0, y = 0;
  int k = 0;
  while (k < most) {
    const float xx = x * x, yy = y * y;
    if (xx + yy > 4.0f) break;
    y = 2.0f * x * y + cy;
    x = xx - yy + cx;
    ++k;
  }
  out[(long)i * n + j] = k;
}

__global__ void nbody(const float *px, const float *py, const float *pz, const float *m, float *ax, float *ay,
                      float *az, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = px[i], y = py[i], z = pz[i];
  float sx = 0, sy = 0, sz = 0;
  for (int j = 0; j < n; ++j) {
    const float dx = px[j] - x, dy = py[j] - y, dz = pz[j] - z, r2 = dx * dx + dy * dy + dz * dz + 1e-3f;
    const float inv = 1.0f / sqrtf(r2), w = m[j] * inv * inv * inv;
    sx += w * dx;
    sy += w * dy;
    sz += w * dz;
  }
  ax[i] = sx;
  ay[i] = sy;
  az[i] = sz;
}

__global__ void total(const float *x, float *out, long n) {
  __shared__ float shares[32];
  float sum = 0;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x) sum += x[i];
  for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) shares[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) sum += shares[warp];
    atomicAdd(out, sum);
  }
}

__global__ void histogram(const int *x, int *bins, long n) {
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
    atomicAdd(&bins[x[i]], 1);
}

__global__ void shared_histogram(const int *x, int *bins, long n) {
  __shared__ int own[256];
  for (int at = threadIdx.x; at < 256; at += blockDim.x) own[at] = 0;
  __syncthreads();
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += (long)gridDim.x * blockDim.x)
    atomicAdd(&own[x[i]], 1);
  __syncthreads();
  for (int at = threadIdx.x; at < 256; at += blockDim.x)
    if (own[at]) atomicAdd(&bins[at], own[at]);
}

__global__ void matmul(const float *a, const float *b, float *c, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= n || j >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[(long)i * n + k] * b[(long)k * n + j];
  c[(long)i * n + j] = sum;
}
}  // namespace

extern "C" {
// Microseconds until a launch returns: of one kernel with its arguments in one struct, so many at a time.
double launch_us(int rounds, int batch) {
  Slots slots = {{(unsigned long long)zeros<float>(16)}};
  CUfunction function;
  cudaFunction_t handle;
  cudaGetFuncBySymbol(&handle, (const void *)tiny);
  function = (CUfunction)handle;
  void *arguments[] = {&slots};
  std::vector<double> all;
  for (int at = 0; at < rounds; ++at) {
    cudaDeviceSynchronize();
    const double begun = now();
    for (int k = 0; k < batch; ++k) cuLaunchKernel(function, 1, 1, 1, 256, 1, 1, 0, 0, arguments, 0);
    all.push_back((now() - begun) / batch * 1e6);
  }
  cudaDeviceSynchronize();
  return median(all);
}

double launch_and_wait_us(int rounds) {
  Slots slots = {{(unsigned long long)zeros<float>(16)}};
  cudaFunction_t handle;
  cudaGetFuncBySymbol(&handle, (const void *)tiny);
  void *arguments[] = {&slots};
  std::vector<double> all;
  for (int at = 0; at < rounds; ++at) {
    const double begun = now();
    cuLaunchKernel((CUfunction)handle, 1, 1, 1, 256, 1, 1, 0, 0, arguments, 0);
    cuCtxSynchronize();
    all.push_back((now() - begun) * 1e6);
  }
  return median(all);
}

double saxpy_ms(long n) {
  float *x = zeros<float>(n), *y = zeros<float>(n);
  const double ms = milliseconds([&] { saxpy<<<(n + 255) / 256, 256>>>(0.999f, x, y, n); }, 20);
  cudaFree(x), cudaFree(y);
  return ms;
}

double stencil_ms(int n) {
  float *a = zeros<float>((long)n * n), *b = zeros<float>((long)n * n);
  const double ms = milliseconds([&] { stencil<<<dim3(n / 64, n / 4), dim3(64, 4)>>>(a, b, n); }, 20);
  cudaFree(a), cudaFree(b);
  return ms;
}

double mandelbrot_ms(int n, int most) {
  int *out = zeros<int>((long)n * n);
  const double ms = milliseconds([&] { mandelbrot<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(out, n, most); }, 20);
  cudaFree(out);
  return ms;
}

double nbody_ms(int n) {
  float *p = zeros<float>(7L * n);
  const auto run = [&] {
    nbody<<<n / 128, 128>>>(p, p + n, p + 2 * n, p + 3 * n, p + 4 * n, p + 5 * n, p + 6 * n, n);
  };
  const double ms = milliseconds(run, 7);
  cudaFree(p);
  return ms;
}

double sum_ms(long n) {
  float *x = zeros<float>(n), *out = zeros<float>(1);
  const double ms = milliseconds([&] { total<<<132 * 8, 256>>>(x, out, n); }, 20);
  cudaFree(x), cudaFree(out);
  return ms;
}

double histogram_ms(const int *x, int *bins, long n) {
  return milliseconds([&] { histogram<<<132 * 8, 256>>>(x, bins, n); }, 20);
}

double shared_histogram_ms(const int *x, int *bins, long n) {
  return milliseconds([&] { shared_histogram<<<132 * 8, 256>>>(x, bins, n); }, 20);
}

double matmul_ms(int n) {
  float *p = zeros<float>(3L * n * n);
  const auto run = [&] { matmul<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(p, p + (long)n * n, p + 2L * n * n, n); };
  const double ms = milliseconds(run, 10);
  cudaFree(p);
  return ms;
}
}
