// Whose turn is next among the threads of a block that can go on.
#pragma once

#include <cstdint>

namespace emulation {

constexpr int WARP = 32;
constexpr int THREADS_MAX = 1024;

// splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t below(uint64_t bound) {
        state_ += 0x9e3779b97f4a7c15u;
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return (z ^ (z >> 31)) % bound;
    }

  private:
    uint64_t state_;
};

// Numbered as in launcher.py.
enum class Order { FORWARD, REVERSE, RANDOM, GREEDY_WARP };

// The threads that can go on, as bits: of each warp its lanes, and of the block its warps that have any.
class Turns {
  public:
    // `favoured`: the warp that runs ahead in GREEDY_WARP.
    void begin(Order order, int favoured, uint64_t seed) {
        order_ = order;
        favoured_ = favoured;
        random_ = Random(seed);
        last_ = -1;
        warps_ = 0;
        for (unsigned& lanes : lanes_) lanes = 0;
    }
    bool any() const { return warps_ != 0; }
    void add(int thread) {
        lanes_[thread / WARP] |= 1u << (thread % WARP);
        warps_ |= 1u << (thread / WARP);
    }
    void remove(int thread) {
        unsigned& lanes = lanes_[thread / WARP];
        lanes &= ~(1u << (thread % WARP));
        if (!lanes) warps_ &= ~(1u << (thread / WARP));
    }
    // The next one; there must be any.
    int next() {
        switch (order_) {
            case Order::FORWARD: return last_ = forward();
            case Order::REVERSE: return last_ = reverse();
            case Order::RANDOM: return random();
            case Order::GREEDY_WARP: return lowest_of(first_from(warps_, favoured_));
        }
        return -1;
    }

  private:
    // Lowest bit at `from` or above, going round.
    static int first_from(unsigned bits, int from) {
        const unsigned above = from >= WARP ? 0 : bits & (~0u << from);
        return __builtin_ctz(above ? above : bits);
    }
    // Highest bit below `end`, going round.
    static int last_below(unsigned bits, int end) {
        const unsigned below = end >= WARP ? bits : bits & ((1u << end) - 1);
        return 31 - __builtin_clz(below ? below : bits);
    }
    static int nth_bit(unsigned bits, uint64_t n) {
        for (; n; n--) bits &= bits - 1;
        return __builtin_ctz(bits);
    }
    int lowest_of(int warp) const { return warp * WARP + __builtin_ctz(lanes_[warp]); }
    int forward() const {
        const int warp = last_ / WARP, lane = last_ % WARP;
        const unsigned rest = last_ < 0 || lane == WARP - 1 ? 0 : lanes_[warp] & (~0u << (lane + 1));
        if (rest) return warp * WARP + __builtin_ctz(rest);
        return lowest_of(first_from(warps_, last_ < 0 ? 0 : warp + 1));
    }
    int reverse() const {
        const int warp = last_ / WARP;
        const unsigned rest = last_ < 0 ? 0 : lanes_[warp] & ((1u << (last_ % WARP)) - 1);
        if (rest) return warp * WARP + 31 - __builtin_clz(rest);
        const int other = last_below(warps_, last_ < 0 ? WARP : warp);
        return other * WARP + 31 - __builtin_clz(lanes_[other]);
    }
    int random() {
        const int warp = nth_bit(warps_, random_.below(unsigned(__builtin_popcount(warps_))));
        const unsigned lanes = lanes_[warp];
        return warp * WARP + nth_bit(lanes, random_.below(unsigned(__builtin_popcount(lanes))));
    }

    unsigned lanes_[THREADS_MAX / WARP] = {};
    unsigned warps_ = 0;
    Order order_ = Order::FORWARD;
    int favoured_ = 0;
    int last_ = -1;
    Random random_{0};
};

}  // namespace emulation
