// Beam search on a GPU: one block a query, all steps in one launch. See __init__.py for the contract.
//
// It includes nothing, so that NVRTC, nvcc and (with a few definitions for the words CUDA adds) a host compiler
// take the same text. Results do not depend on which thread comes first: of several ways to a node an atomic
// maximum keeps the best, and the best candidates are found by counting how many keys are higher, never by the
// order in which they were found.
//
// A weight is a float without a sign bit, so it sorts as its bits do. A key is 64 bits: a value's bits above, and
// below them what breaks ties, counted downwards, so that the highest key is the best.

typedef unsigned long long u64;
typedef unsigned int u32;
typedef long long i64;

// Threads that share the edges of one beam node; a block has a multiple of it.
#ifndef LANES
#define LANES 32
#endif
// Candidates up to which all pairs are compared at once; above it a bar is found first that few are above.
#ifndef FEW_CANDIDATES
#define FEW_CANDIDATES 256
#endif

#define UNSEEN 0ULL
#define VISITED 0xFFFFFFFFFFFFFFFFULL
#define LOW 0xFFFFFFFFULL

// Mistakes in the input, as in _cupy.py.
#define BAD_OFFSETS 1
#define BAD_MEMORY 2
#define BAD_ANCHOR 3
#define EQUAL_ANCHORS 4
#define BAD_EDGE 5
#define BAD_RELATION 6

struct Inputs {
  const i64* indptr;
  const i64* dst;
  const int* relation;
  const i64* base;
  const float* affinity;
  const i64* affinity_ptr;
  const float* structure;
  const i64* anchor_ptr;
  const i64* anchor_node;
  const float* anchor_score;
  i64 num_nodes;
  i64 num_edges;
  i64 num_weights;
  i64 num_anchors;
  i64 num_relations;
  i64 max_depth;
  i64 beam_width;
  i64 max_nodes;
  i64 relation_bits;
  i64 width;
  // Nodes of a memory that fit in the block's own memory; larger memories use `spare`.
  i64 num_shared;
  float decay;
  float drop_threshold;
};

struct Outputs {
  i64* node;
  float* score;
  short* hop;
  i64* parent;
  int* relation;
  i64* num;
  unsigned char* truncated;
  // The highest number of a mistake, 0 without.
  int* mistake;
  // 2 x num_weights keys, or null where all memories fit in the block's own memory.
  u64* spare;
};

// Shared by the threads of a block.
struct Block {
  int num_found;
  int num_left;
  int num_above;
  u32 best;
};

struct Query {
  i64 index;
  i64 base;
  u32 size;
  const float* affinity;
  const float* structure;
  // By node of the memory: the key of the best way to it in this step, UNSEEN or VISITED.
  u64* best_way;
  // Candidates of the step: first nodes, then keys of value and node.
  u64* found;
};

__device__ __forceinline__ u32 bits_of(float value) { return __float_as_uint(value); }

__device__ __forceinline__ u64 key_of(u32 bits, u64 low) { return ((u64)bits << 32) | (LOW - low); }

__device__ __forceinline__ u64 low_of(u64 key) { return LOW - (key & LOW); }

// Returns the highest key that at least `limit` candidates reach; there must be as many.
__device__ u64 find_bar(Block* block, const u64* found, int num_found, int limit) {
  u64 bar = 0;
  for (int bit = 63; bit >= 0; --bit) {
    u64 higher = bar | (1ULL << bit);
    if (threadIdx.x == 0) block->num_above = 0;
    __syncthreads();
    int above = 0;
    for (int i = threadIdx.x; i < num_found; i += blockDim.x) above += found[i] >= higher;
    if (above > 0) atomicAdd(&block->num_above, above);
    __syncthreads();
    if (block->num_above >= limit) bar = higher;
    // Nobody may clear the count before all have read it.
    __syncthreads();
  }
  return bar;
}

// Visits the best `limit` of the candidates in order, and clears the others. All threads call it together.
__device__ void visit_best(const Inputs& in, const Outputs& out, Block* block, const Query& query, i64 num, int hop,
                           u32 floor, int limit) {
  const int num_found = block->num_found;
  u64 bar = 0;
  if (num_found > FEW_CANDIDATES && num_found > limit) bar = find_bar(block, query.found, num_found, limit);
  for (int i = threadIdx.x; i < num_found; i += blockDim.x) {
    const u64 key = query.found[i];
    const u64 v = low_of(key);
    const u32 bits = (u32)(key >> 32);
    int rank = limit;
    if (bits >= floor) {
      atomicAdd(&block->num_left, 1);
      if (key >= bar) {
        rank = 0;
        for (int j = 0; j < num_found; ++j) rank += query.found[j] > key;
      }
    }
    if (rank < limit) {
      const i64 at = query.index * in.width + num + rank;
      const u64 rest = low_of(query.best_way[v]);
      out.node[at] = query.base + (i64)v;
      out.score[at] = __uint_as_float(bits);
      out.hop[at] = (short)hop;
      out.parent[at] = hop == 0 ? -1 : query.base + (i64)(rest >> in.relation_bits);
      out.relation[at] = hop == 0 ? -1 : (int)(rest & ((1ULL << in.relation_bits) - 1));
      query.best_way[v] = VISITED;
    } else {
      query.best_way[v] = UNSEEN;
    }
  }
  __syncthreads();
}

// Offers the node at the end of each edge of the beam, which is the row's places [first, last).
__device__ void expand(const Inputs& in, const Outputs& out, Block* block, const Query& query, i64 first, i64 last) {
  const i64 row = query.index * in.width;
  const i64 group = threadIdx.x / LANES;
  const i64 num_groups = (blockDim.x + LANES - 1) / LANES;
  for (i64 i = first + group; i < last; i += num_groups) {
    const i64 u = out.node[row + i];
    const i64 edges_first = in.indptr[u];
    const i64 edges_last = in.indptr[u + 1];
    if (edges_first < 0 || edges_first > edges_last || edges_last > in.num_edges) {
      atomicMax(out.mistake, BAD_OFFSETS);
      continue;
    }
    const float kept_back = __fmul_rn(in.decay, out.score[row + i]);
    const u64 way = LOW - ((u64)(u - query.base) << in.relation_bits);
    for (i64 edge = edges_first + threadIdx.x % LANES; edge < edges_last; edge += LANES) {
      const u64 v = (u64)(in.dst[edge] - query.base);
      const u64 r = (u64)(i64)in.relation[edge];
      if (v >= query.size) {
        atomicMax(out.mistake, BAD_EDGE);
        continue;
      }
      if (r >= (u64)in.num_relations) {
        atomicMax(out.mistake, BAD_RELATION);
        continue;
      }
      // Each operation rounds by itself; left to the compiler they could become one.
      const float gain = __fmul_rn(query.structure[r], query.affinity[v]);
      const u64 key = ((u64)bits_of(__fadd_rn(kept_back, gain)) << 32) | (way - r);
      // A visited node's key is higher than any other, so it stays.
      if (atomicMax(&query.best_way[v], key) == UNSEEN) query.found[atomicAdd(&block->num_found, 1)] = v;
    }
  }
  __syncthreads();
}

// Searches from the query's anchors; returns the nodes visited. All threads call it together.
__device__ i64 search(const Inputs& in, const Outputs& out, Block* block, const Query& query) {
  const i64 q = query.index;
  const i64 anchors_first = in.anchor_ptr[q];
  const i64 num_anchors = in.anchor_ptr[q + 1] - anchors_first;
  for (i64 i = threadIdx.x; i < query.size; i += blockDim.x) query.best_way[i] = UNSEEN;
  if (threadIdx.x == 0) {
    block->num_found = 0;
    block->num_left = 0;
  }
  __syncthreads();
  for (i64 a = anchors_first + threadIdx.x; a < anchors_first + num_anchors; a += blockDim.x) {
    const u64 v = (u64)(in.anchor_node[a] - query.base);
    if (v >= query.size) {
      atomicMax(out.mistake, BAD_ANCHOR);
    } else if (atomicMax(&query.best_way[v], VISITED) != UNSEEN) {
      atomicMax(out.mistake, EQUAL_ANCHORS);
    } else {
      query.found[atomicAdd(&block->num_found, 1)] = key_of(bits_of(in.anchor_score[a]), v);
    }
  }
  __syncthreads();
  visit_best(in, out, block, query, 0, 0, 0, (int)in.max_nodes);
  i64 num = block->num_found < in.max_nodes ? block->num_found : in.max_nodes;
  bool truncated = num_anchors > in.max_nodes;
  i64 beam_first = 0;
  for (int hop = 1; hop <= in.max_depth && num < in.max_nodes; ++hop) {
    // Nobody may clear the counts before all have read those of the last step.
    __syncthreads();
    if (threadIdx.x == 0) {
      block->num_found = 0;
      block->num_left = 0;
      block->best = 0;
    }
    __syncthreads();
    expand(in, out, block, query, beam_first, num);
    const int num_found = block->num_found;
    if (num_found == 0) break;
    for (int i = threadIdx.x; i < num_found; i += blockDim.x) {
      const u64 v = query.found[i];
      const u32 bits = (u32)(query.best_way[v] >> 32);
      atomicMax(&block->best, bits);
      query.found[i] = key_of(bits, v);
    }
    __syncthreads();
    const u32 floor = bits_of(__fmul_rn(in.drop_threshold, __uint_as_float(block->best)));
    const i64 room = in.max_nodes - num;
    const i64 limit = room < in.beam_width ? room : in.beam_width;
    visit_best(in, out, block, query, num, hop, floor, (int)limit);
    const i64 num_left = block->num_left;
    if (room < in.beam_width && num_left > room) truncated = true;
    beam_first = num;
    num += num_left < limit ? num_left : limit;
  }
  if (threadIdx.x == 0) out.truncated[q] = truncated ? 1 : 0;
  return num;
}

__device__ void search_and_pad(const Inputs& in, const Outputs& out, i64 q, u64* memory) {
  Block* block = (Block*)memory;
  u64* keys = memory + (sizeof(Block) + sizeof(u64) - 1) / sizeof(u64);
  const i64 begin = in.affinity_ptr[q];
  const i64 size = in.affinity_ptr[q + 1] - begin;
  const i64 anchors = in.anchor_ptr[q + 1] - in.anchor_ptr[q];
  int mistake = 0;
  if (size < 0 || begin < 0 || begin + size > in.num_weights) mistake = BAD_OFFSETS;
  if (anchors < 0 || in.anchor_ptr[q] < 0 || in.anchor_ptr[q + 1] > in.num_anchors) mistake = BAD_OFFSETS;
  if (in.base[q] < 0 || in.base[q] + size > in.num_nodes) mistake = BAD_MEMORY;
  i64 num = 0;
  if (mistake != 0) {
    if (threadIdx.x == 0) {
      atomicMax(out.mistake, mistake);
      out.truncated[q] = 0;
    }
  } else {
    const bool fits = size <= in.num_shared;
    Query query;
    query.index = q;
    query.base = in.base[q];
    query.size = (u32)size;
    query.affinity = in.affinity + begin;
    query.structure = in.structure + q * in.num_relations;
    query.best_way = fits ? keys : out.spare + 2 * begin;
    query.found = query.best_way + size;
    num = search(in, out, block, query);
  }
  if (threadIdx.x == 0) out.num[q] = num;
  for (i64 i = num + threadIdx.x; i < in.width; i += blockDim.x) {
    const i64 at = q * in.width + i;
    out.node[at] = -1;
    out.score[at] = 0.0f;
    out.hop[at] = -1;
    out.parent[at] = -1;
    out.relation[at] = -1;
  }
}

// What a launch passes, in the order of the two structs; _cupy.py makes it in the same order.
#define PARAMETERS                                                                                                \
  const i64 *indptr, const i64 *dst, const int *relation, const i64 *base, const float *affinity,                 \
      const i64 *affinity_ptr, const float *structure, const i64 *anchor_ptr, const i64 *anchor_node,             \
      const float *anchor_score, i64 num_nodes, i64 num_edges, i64 num_weights, i64 num_anchors,                  \
      i64 num_relations, i64 max_depth, i64 beam_width, i64 max_nodes, i64 relation_bits, i64 width,              \
      i64 num_shared, float decay, float drop_threshold, i64 *node, float *score, short *hop, i64 *parent,        \
      int *out_relation, i64 *num, unsigned char *truncated, int *mistake, u64 *spare
#define INPUTS                                                                                                    \
  {indptr,        dst,         relation,      base,      affinity,   affinity_ptr, structure,     anchor_ptr,     \
   anchor_node,   anchor_score, num_nodes,    num_edges, num_weights, num_anchors, num_relations, max_depth,      \
   beam_width,    max_nodes,   relation_bits, width,     num_shared, decay,        drop_threshold}
#define OUTPUTS {node, score, hop, parent, out_relation, num, truncated, mistake, spare}

#ifndef ON_HOST
extern "C" __global__ void beam_search(PARAMETERS) {
  extern __shared__ u64 memory[];
  const Inputs in = INPUTS;
  const Outputs out = OUTPUTS;
  search_and_pad(in, out, blockIdx.x, memory);
}
#endif
