// Runs beam_search.cu on the host: what CUDA adds to C++ is defined here, a block is one thread or several.
//
// With several, __syncthreads is a barrier and atomics are atomics, so a barrier that is missing can show.

#include <barrier>
#include <cstring>
#include <thread>
#include <vector>

#define ON_HOST
#define LANES lanes
#define FEW_CANDIDATES 8
#define __device__ static
#define __forceinline__ inline

struct Index {
  int x;
};
static thread_local Index threadIdx;
static Index blockDim;
static int lanes;
static std::barrier<>* everyone;

static void __syncthreads() {
  if (blockDim.x > 1) everyone->arrive_and_wait();
}
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
static unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
static float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
template <class T, class U>
static T atomicAdd(T* at, U amount) {
  return __atomic_fetch_add(at, static_cast<T>(amount), __ATOMIC_RELAXED);
}
template <class T, class U>
static T atomicMax(T* at, U wanted) {
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < static_cast<T>(wanted) &&
         !__atomic_compare_exchange_n(at, &old, static_cast<T>(wanted), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

#include "beam_search.cu"

extern "C" void beam_search_on_host(i64 num_queries, i64 num_threads, i64 memory_bytes, PARAMETERS) {
  const Inputs in = INPUTS;
  const Outputs out = OUTPUTS;
  blockDim.x = static_cast<int>(num_threads);
  lanes = num_threads % 2 == 0 ? 2 : 1;
  std::barrier<> barrier(num_threads);
  everyone = &barrier;
  // As on a device, what a block's memory holds at first is not to be relied on.
  std::vector<u64> memory((memory_bytes + 7) / 8, 0xABABABABABABABABULL);
  auto work = [&](int thread) {
    threadIdx.x = thread;
    for (i64 q = 0; q < num_queries; ++q) {
      search_and_pad(in, out, q, memory.data());
      __syncthreads();
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 1; thread < num_threads; ++thread) threads.emplace_back(work, thread);
  work(0);
  for (auto& thread : threads) thread.join();
}
