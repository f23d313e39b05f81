// Graphs by hand: the floors that graphs of kernels are measured beside. Built by `__main__.py` as a library.

#include <cooperative_groups.h>

#include "timing.cuh"

namespace cg = cooperative_groups;

namespace {
// -- Ten small tasks, and a loop of three ---------------------------------------------------------

__global__ void task(float *x, int n, float add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * 0.5f + add;
}

__global__ void count_down(int *c) { *c = *c - 1; }

__global__ void again(cudaGraphConditionalHandle handle, const int *c) { cudaGraphSetConditional(handle, *c != 0); }

__global__ void block_turns(float *x, int n, int *c) {
  int left;
  do {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] * 0.5f + 1.0f;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = x[i] * 0.5f + 2.0f;
    __syncthreads();
    if (threadIdx.x == 0) *c = *c - 1;
    __syncthreads();
    left = *c;
    __syncthreads();
  } while (left != 0);
}

__global__ void grid_turns(float *x, int n, int *c) {
  cg::grid_group all = cg::this_grid();
  const int first = all.thread_rank(), step = all.size();
  int left;
  do {
    for (int i = first; i < n; i += step) x[i] = x[i] * 0.5f + 1.0f;
    all.sync();
    for (int i = first; i < n; i += step) x[i] = x[i] * 0.5f + 2.0f;
    all.sync();
    if (first == 0) *c = *c - 1;
    all.sync();
    left = *(volatile int *)c;
    all.sync();
  } while (left != 0);
}

cudaGraphNode_t kernel_node(cudaGraph_t graph, cudaGraphNode_t *after, void *function, dim3 grid, dim3 block,
                            void **arguments) {
  cudaKernelNodeParams kernel = {};
  kernel.func = function;
  kernel.gridDim = grid;
  kernel.blockDim = block;
  kernel.kernelParams = arguments;
  cudaGraphNode_t node;
  cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &kernel);
  return node;
}

int blocks_of(long n, int threads) { return (int)((n + threads - 1) / threads); }

cudaGraphExec_t ready(cudaGraph_t graph) {
  cudaGraphExec_t exec = nullptr;
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphUpload(exec, 0);
  cudaDeviceSynchronize();
  return exec;
}

// What a launch is given, as a kernel of Keyprint is.
struct Slots {
  unsigned long long w[8];
};

__global__ void store(const Slots given, Slots *stored) {
  if (threadIdx.x < 8) stored->w[threadIdx.x] = given.w[threadIdx.x];
}

__global__ void stored_task(const Slots *stored, float add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float *x = (float *)stored->w[0];
  if (i < (int)stored->w[1]) x[i] = x[i] * 0.5f + add;
}

__global__ void block_of_ten(const Slots given) {
  float *x = (float *)given.w[0];
  for (int at = 0; at < 10; ++at) {
    for (int i = threadIdx.x; i < (int)given.w[1]; i += blockDim.x) x[i] = x[i] * 0.5f + (float)at;
    __syncthreads();
  }
}

// Ten tasks as a graph: for the arrays that it was made with; for others, which its first node stores; and as one kernel
// of one block, for others.
struct Ten {
  enum Way { SAME, OTHERS, BLOCK };
  static constexpr int ARRAYS = 4;
  Way way;
  int n;
  float *arrays[ARRAYS];
  Slots *stored = zeros<Slots>(1);
  cudaGraphNode_t first;
  cudaGraphExec_t exec;

  Ten(Way way, int n) : way(way), n(n) {
    for (float *&x : arrays) x = zeros<float>(n);
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    Slots slots = of(0);
    void *given[] = {&slots, &stored};
    cudaGraphNode_t last;
    if (way != SAME) last = first = kernel_node(graph, nullptr, function(), 1, threads(), given);
    for (int at = 0; at < 10 && way != BLOCK; ++at) {
      float add = (float)at;
      void *own[] = {&arrays[0], &n, &add}, *found[] = {&stored, &add};
      const bool is_same = way == SAME;
      last = kernel_node(graph, at || !is_same ? &last : nullptr, is_same ? (void *)task : (void *)stored_task,
                         blocks_of(n, 256), 256, is_same ? own : found);
    }
    exec = ready(graph);
  }
  ~Ten() {
    cudaDeviceSynchronize();
    cudaGraphExecDestroy(exec);
    for (float *x : arrays) cudaFree(x);
    cudaFree(stored);
  }
  void *function() const { return way == BLOCK ? (void *)block_of_ten : (void *)store; }
  int threads() const { return way == BLOCK ? 32 : 256; }
  Slots of(int at) const { return {{(unsigned long long)arrays[at % ARRAYS], (unsigned long long)n}}; }

  void launch(int at) {
    if (way != SAME) {
      Slots slots = of(at);
      void *given[] = {&slots, &stored};
      cudaKernelNodeParams kernel = {};
      kernel.func = function();
      kernel.gridDim = 1;
      kernel.blockDim = threads();
      kernel.kernelParams = given;
      cudaGraphExecKernelNodeSetParams(exec, first, &kernel);
    }
    cudaGraphLaunch(exec, 0);
  }
};

// A loop of a graph: returns its body.
cudaGraph_t loop(cudaGraph_t graph, cudaGraphNode_t *after, cudaGraphConditionalHandle *handle) {
  cudaGraphConditionalHandleCreate(handle, graph, 1, cudaGraphCondAssignDefault);
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = *handle;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
  cudaGraphAddNode(&node, graph, after, nullptr, after ? 1 : 0, &parameters);
#else
  cudaGraphAddNode(&node, graph, after, after ? 1 : 0, &parameters);
#endif
  return parameters.conditional.phGraph_out[0];
}

cudaGraphExec_t turns_graph(float *x, int n, int *c) {
  cudaGraph_t graph;
  cudaGraphCreate(&graph, 0);
  cudaGraphConditionalHandle handle;
  cudaGraph_t body = loop(graph, nullptr, &handle);
  cudaGraphNode_t last;
  for (int at = 0; at < 2; ++at) {
    float add = 1.0f + (float)at;
    void *arguments[] = {&x, &n, &add};
    last = kernel_node(body, at ? &last : nullptr, (void *)task, blocks_of(n, 256), 256, arguments);
  }
  void *counted[] = {&c};
  last = kernel_node(body, &last, (void *)count_down, 1, 1, counted);
  void *asked[] = {&handle, &c};
  kernel_node(body, &last, (void *)again, 1, 1, asked);
  return ready(graph);
}

// The microseconds of a turn: of many, less those of one.
template <class F> double per_turn(F run, int *c, int turns, int repeats) {
  const auto timed = [&](int count) {
    std::vector<double> all;
    for (int at = 0; at < repeats + 1; ++at) {
      cudaMemcpy(c, &count, sizeof count, cudaMemcpyHostToDevice);
      cudaDeviceSynchronize();
      const double begun = now();
      run();
      cudaDeviceSynchronize();
      if (at) all.push_back(now() - begun);
    }
    return median(all);
  };
  return (timed(turns + 1) - timed(1)) / turns * 1e6;
}

// -- Conjugate gradients on a grid -----------------------------------------------------------------

struct Solver {
  float *x, *r, *p, *q, *rr, *pq, *fresh;
  int *left;
  int n;
};

template <class F> __device__ void elements(const Solver s, F each) {
  const long all = (long)s.n * s.n;
  for (long at = blockIdx.x * (long)blockDim.x + threadIdx.x; at < all; at += (long)gridDim.x * blockDim.x) each(at);
}

__device__ void add_all(float *out, float sum) {
  __shared__ float shares[32];
  __syncthreads();
  for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) shares[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) sum += shares[warp];
    atomicAdd(out, sum);
  }
}

__device__ void product(const Solver s) {
  float sum = 0;
  const int n = s.n;
  elements(s, [&](long at) {
    const int i = (int)(at / n), j = (int)(at - (long)i * n);
    const float own = s.p[at];
    float value = 4.0f * own;
    if (i > 0) value -= s.p[at - n];
    if (i < n - 1) value -= s.p[at + n];
    if (j > 0) value -= s.p[at - 1];
    if (j < n - 1) value -= s.p[at + 1];
    s.q[at] = value;
    sum += own * value;
  });
  add_all(s.pq, sum);
}

__device__ void step(const Solver s) {
  const float alpha = *(volatile float *)s.rr / *(volatile float *)s.pq;
  float sum = 0;
  elements(s, [&](long at) {
    s.x[at] += alpha * s.p[at];
    const float value = s.r[at] - alpha * s.q[at];
    s.r[at] = value;
    sum += value * value;
  });
  add_all(s.fresh, sum);
}

__device__ void direction(const Solver s) {
  const float beta = *(volatile float *)s.fresh / *(volatile float *)s.rr;
  elements(s, [&](long at) { s.p[at] = s.r[at] + beta * s.p[at]; });
}

__device__ void end_of_turn(const Solver s) {
  *s.rr = *s.fresh;
  *s.pq = *s.fresh = 0;
  *s.left -= 1;
}

__global__ void product_kernel(const Solver s) { product(s); }
__global__ void step_kernel(const Solver s) { step(s); }
__global__ void direction_kernel(const Solver s) { direction(s); }
__global__ void end_kernel(const Solver s) { end_of_turn(s); }
__global__ void end_and_again_kernel(const Solver s, cudaGraphConditionalHandle handle) {
  end_of_turn(s);
  cudaGraphSetConditional(handle, *s.left != 0);
}

__global__ void __launch_bounds__(512) solver_kernel(const Solver s) {
  cg::grid_group all = cg::this_grid();
  int left;
  do {
    product(s);
    all.sync();
    step(s);
    all.sync();
    direction(s);
    all.sync();
    if (all.thread_rank() == 0) end_of_turn(s);
    all.sync();
    left = *(volatile int *)s.left;
  } while (left != 0);
}

// -- Many bodies that touch each other ------------------------------------------------------------

struct Bodies {
  float *px, *py, *vx, *vy, *dx, *dy;
  int n;
};

constexpr float DT = 0.001f, G = 9.81f, RADIUS = 0.01f;

__global__ void fall(const Bodies b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < b.n) b.vy[i] -= G * DT;
}

__global__ void move(const Bodies b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < b.n) b.px[i] += DT * b.vx[i], b.py[i] += DT * b.vy[i];
}

__global__ void touch(const Bodies b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= b.n) return;
  float sx = 0, sy = 0;
  const float x = b.px[i], y = b.py[i];
  for (int j = 0; j < b.n; ++j) {
    const float ex = x - b.px[j], ey = y - b.py[j], far = ex * ex + ey * ey;
    if (far > 0 && far < 4 * RADIUS * RADIUS) {
      const float distance = sqrtf(far), push = 0.25f * (2 * RADIUS - distance) / distance;
      sx += push * ex;
      sy += push * ey;
    }
  }
  b.dx[i] = sx;
  b.dy[i] = sy;
}

__global__ void apart(const Bodies b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < b.n) b.px[i] += b.dx[i], b.py[i] += b.dy[i];
}

__global__ void push(const Bodies b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < b.n) b.vx[i] += b.dx[i] / DT * 0.1f, b.vy[i] += b.dy[i] / DT * 0.1f;
}

__global__ void stand(const Bodies b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < b.n && b.py[i] < RADIUS) b.py[i] = RADIUS, b.vy[i] = 0;
}
}  // namespace

extern "C" {
// Microseconds until the launch of a graph of ten tasks returns, so many at a time; and with a wait.
double graph_of_ten_us(int way, int n, int rounds, int batch) {
  Ten ten((Ten::Way)way, n);
  std::vector<double> all;
  for (int at = -1; at < rounds; ++at) {
    cudaDeviceSynchronize();
    const double begun = now();
    for (int k = 0; k < batch; ++k) ten.launch(k);
    if (at >= 0) all.push_back((now() - begun) / batch * 1e6);
  }
  return median(all);
}

double graph_of_ten_and_wait_us(int way, int n, int rounds) {
  Ten ten((Ten::Way)way, n);
  std::vector<double> all;
  for (int at = -1; at < rounds; ++at) {
    const double begun = now();
    ten.launch(at + 1);
    cudaDeviceSynchronize();
    if (at >= 0) all.push_back((now() - begun) * 1e6);
  }
  return median(all);
}

// The microseconds of a turn of three tasks: in one block, in a cooperative grid, in a graph.
double turn_us(int way, int n, int turns, int repeats) {
  float *x = zeros<float>(n);
  int *c = zeros<int>(1);
  double us = 0;
  if (way == 0) {
    const int threads = (int)std::min(1024, (n + 31) / 32 * 32);
    us = per_turn([&] { block_turns<<<1, threads>>>(x, n, c); }, c, turns, repeats);
  } else if (way == 1) {
    int resident = 0, device = 0, processors = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, grid_turns, 512, 0);
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    us = 1e30;
    for (int most : {processors, resident * processors}) {
      const int blocks = std::max(1, std::min(blocks_of(n, 512), most));
      void *arguments[] = {&x, &n, &c};
      const auto run = [&] { cudaLaunchCooperativeKernel((void *)grid_turns, blocks, 512, arguments); };
      us = std::min(us, per_turn(run, c, turns, repeats));
    }
  } else {
    cudaGraphExec_t exec = turns_graph(x, n, c);
    us = per_turn([&] { cudaGraphLaunch(exec, 0); }, c, turns, repeats);
    cudaGraphExecDestroy(exec);
  }
  cudaFree(x), cudaFree(c);
  return us;
}

// The microseconds of a turn of conjugate gradients: launch by launch, as a graph, in a cooperative grid.
double solver_us(int way, int n, int turns, int repeats) {
  const long all = (long)n * n;
  float *memory = zeros<float>(4 * all), *numbers = zeros<float>(3);
  int *left = zeros<int>(1);
  Solver s = {memory, memory + all, memory + 2 * all, memory + 3 * all, numbers, numbers + 1, numbers + 2, left, n};
  std::vector<float> ones(all, 1.0f);
  cudaMemcpy(s.r, ones.data(), all * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(s.p, ones.data(), all * 4, cudaMemcpyHostToDevice);
  const float whole = (float)all;
  cudaMemcpy(s.rr, &whole, 4, cudaMemcpyHostToDevice);
  const int blocks = std::max(1, std::min(blocks_of(all, 256), 132 * 8));
  double us = 0;
  if (way == 0) {
    const auto run = [&] {
      for (int at = 0; at < turns; ++at) {
        product_kernel<<<blocks, 256>>>(s);
        step_kernel<<<blocks, 256>>>(s);
        direction_kernel<<<blocks, 256>>>(s);
        end_kernel<<<1, 1>>>(s);
      }
    };
    us = milliseconds(run, repeats) * 1e3 / turns;
  } else if (way == 1) {
    cudaGraph_t graph;
    cudaGraphCreate(&graph, 0);
    cudaGraphConditionalHandle handle;
    cudaGraph_t body = loop(graph, nullptr, &handle);
    void *arguments[] = {&s, &handle};
    cudaGraphNode_t last = kernel_node(body, nullptr, (void *)product_kernel, blocks, 256, arguments);
    last = kernel_node(body, &last, (void *)step_kernel, blocks, 256, arguments);
    last = kernel_node(body, &last, (void *)direction_kernel, blocks, 256, arguments);
    kernel_node(body, &last, (void *)end_and_again_kernel, 1, 1, arguments);
    cudaGraphExec_t exec = ready(graph);
    us = per_turn([&] { cudaGraphLaunch(exec, 0); }, left, turns, repeats);
    cudaGraphExecDestroy(exec);
  } else {
    int resident = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, solver_kernel, 512, 0);
    const int many = std::max(1, std::min(blocks_of(all, 512), 132 * resident));
    void *arguments[] = {&s};
    const auto run = [&] { cudaLaunchCooperativeKernel((void *)solver_kernel, many, 512, arguments); };
    us = per_turn(run, left, turns, repeats);
  }
  cudaFree(memory), cudaFree(numbers), cudaFree(left);
  return us;
}

// The microseconds of a step of many bodies, launch by launch: four rounds of contacts each.
double bodies_us(int n, int steps, int repeats) {
  float *memory = zeros<float>(6L * n);
  std::vector<float> places(2L * n);
  for (int i = 0; i < n; ++i) places[i] = 0.015f * (i % 16), places[n + i] = 0.015f * (i / 16) + 0.01f;
  cudaMemcpy(memory, places.data(), 8L * n, cudaMemcpyHostToDevice);
  const Bodies b = {memory, memory + n, memory + 2L * n, memory + 3L * n, memory + 4L * n, memory + 5L * n, n};
  const int blocks = blocks_of(n, 128);
  const auto run = [&] {
    for (int at = 0; at < steps; ++at) {
      fall<<<blocks, 128>>>(b);
      move<<<blocks, 128>>>(b);
      for (int round = 0; round < 4; ++round) {
        touch<<<blocks, 128>>>(b);
        apart<<<blocks, 128>>>(b);
        push<<<blocks, 128>>>(b);
      }
      stand<<<blocks, 128>>>(b);
    }
  };
  const double us = milliseconds(run, repeats) * 1e3 / steps;
  cudaFree(memory);
  return us;
}
}
