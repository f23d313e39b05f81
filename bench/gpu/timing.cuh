// What measures CUDA C by hand.

#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

namespace {
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> all) {
  std::sort(all.begin(), all.end());
  return all[all.size() / 2];
}

template <class F> double milliseconds(F run, int repeats) {
  cudaEvent_t first, last;
  cudaEventCreate(&first);
  cudaEventCreate(&last);
  run();
  cudaDeviceSynchronize();
  std::vector<double> all;
  for (int at = 0; at < repeats; ++at) {
    cudaEventRecord(first);
    run();
    cudaEventRecord(last);
    cudaEventSynchronize(last);
    float ms;
    cudaEventElapsedTime(&ms, first, last);
    all.push_back(ms);
  }
  return median(all);
}

template <class T> T *zeros(long count) {
  T *data = nullptr;
  cudaMalloc(&data, count * sizeof(T));
  cudaMemset(data, 0, count * sizeof(T));
  return data;
}
}  // namespace
