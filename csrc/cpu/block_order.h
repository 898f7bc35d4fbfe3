// Sorting the splats of one block of pixels: some ten to some thousand keys at a time, once a block and pass.
//
// Runs of RUN keys are sorted by counting, for each, how many come before it: that takes count^2 / LANES comparisons, but no
// branch depends on the data, and a hundred keys take less time than their mispredicted branches would in any sort that has
// fewer comparisons. Runs are then merged in pairs.
#pragma once

#include "arrays.h"
#include "vec.h"

SPLAT_BEGIN_ISA

class KeyOrder {
  public:
    using M = Simd<float>;
    static constexpr int64_t RUN = 128;

    float* keys;  // filled in by the caller before sort; none may be NaN

    KeyOrder(Arrays& arrays, int64_t most)
        : keys(arrays.take<float>(most + M::LANES)),
          order_(arrays.take<int32_t>(most)),
          swap_(arrays.take<int32_t>(most)) {}

    // Returns the numbers 0 to count - 1 in the order of their keys; equal keys stay in the order of their numbers.
    SPLAT_FN const int32_t* sort(int64_t count) {
        for (int64_t i = count; i % M::LANES; ++i) keys[i] = 0;  // read along with the last ones
        for (int64_t begin = 0; begin < count; begin += RUN)
            sort_run(begin, begin + RUN < count ? begin + RUN : count);
        for (int64_t run = RUN; run < count; run *= 2) {
            for (int64_t begin = 0; begin < count; begin += 2 * run) {
                const int64_t middle = begin + run < count ? begin + run : count;
                merge(begin, middle, middle + run < count ? middle + run : count);
            }
            int32_t* const merged = swap_;
            swap_ = order_;
            order_ = merged;
        }
        return order_;
    }

  private:
    int32_t *order_, *swap_;

    static_assert(RUN % M::LANES == 0, "whole vectors");

    SPLAT_FN void sort_run(int64_t begin, int64_t end) {
        typename M::I lanes;
        for (int lane = 0; lane < M::LANES; ++lane) lanes[lane] = lane;
        for (int64_t first = begin; first < end; first += M::LANES) {
            const typename M::V mine = M::load(keys + first);
            const int64_t behind = first + M::LANES < end ? first + M::LANES : end;
            typename M::I before{};  // minus the number of keys that come before
            int64_t i = begin;
            for (; i < first; ++i) before += M::broadcast(keys[i]) <= mine;
            for (; i < behind; ++i) {
                const typename M::V other = M::broadcast(keys[i]);
                before += (other < mine) | ((other == mine) & (lanes > int32_t(i - first)));
            }
            for (; i < end; ++i) before += M::broadcast(keys[i]) < mine;
            for (int lane = 0; lane < behind - first; ++lane)
                order_[begin - before[lane]] = int32_t(first + lane);
        }
    }

    void merge(int64_t begin, int64_t middle, int64_t end) {
        int64_t left = begin, right = middle;
        for (int64_t to = begin; to < end; ++to) {
            const bool takes_left =
                right == end || (left < middle && keys[order_[left]] <= keys[order_[right]]);
            swap_[to] = order_[takes_left ? left++ : right++];
        }
    }
};

SPLAT_END_ISA
