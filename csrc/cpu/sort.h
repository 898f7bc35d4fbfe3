// Stable least-significant-digit radix sort of depth keys, threaded; its result does not depend on the thread count.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels.h"

SPLAT_BEGIN_ISA

// A depth as an unsigned number of the same order, with the splat's index.
template <class T>
struct SortItem;

template <>
struct SortItem<float> {
    using Key = uint32_t;
    static constexpr Key SIGN = Key(1) << 31;
    Key key;
    int32_t index;

    // Negative numbers: all bits flipped; others: the sign bit. -0 is made +0 first, as they are equal depths.
    static inline Key key_of(float depth) {
        Key bits;
        std::memcpy(&bits, &depth, sizeof bits);
        if (bits == SIGN) bits = 0;
        return bits & SIGN ? ~bits : bits | SIGN;
    }
};

template <>
struct SortItem<double> {
    using Key = uint64_t;
    static constexpr Key SIGN = Key(1) << 63;
    Key key;
    int32_t index;

    static inline Key key_of(double depth) {
        Key bits;
        std::memcpy(&bits, &depth, sizeof bits);
        if (bits == SIGN) bits = 0;
        return bits & SIGN ? ~bits : bits | SIGN;
    }
};

constexpr int DIGIT_BITS = 12;  // most of a digit: 4096 counters stay in the first-level cache
constexpr int DIGITS = 1 << DIGIT_BITS;
// Fewer items are sorted by one thread: several would write into the same cache lines, since a digit has few items each.
constexpr int64_t SERIAL_ITEMS = 1 << 16;

// The bits in which keys differ, cut into digits of equal size.
template <class T>
class DigitPlan {
  public:
    using Item = SortItem<T>;
    using Key = typename Item::Key;

    DigitPlan(const Item* items, int64_t count) {
        Key high = 0;
        for (int64_t i = 0; i < count; ++i) {
            low_ = items[i].key < low_ ? items[i].key : low_;
            high = items[i].key > high ? items[i].key : high;
        }
        int key_bits = 0;
        while (count && key_bits < int(8 * sizeof(Key)) && (high - low_) >> key_bits) ++key_bits;
        passes = (key_bits + DIGIT_BITS - 1) / DIGIT_BITS;
        bits_ = passes ? (key_bits + passes - 1) / passes : 0;
    }
    int digits() const { return 1 << bits_; }
    int digit(const Item& item, int pass) const {
        return int((item.key - low_) >> (pass * bits_) & Key(digits() - 1));
    }

    int passes;

  private:
    Key low_ = ~Key(0);
    int bits_;
};

// Makes counts of items, [threads][digits], into places: by digit, then by thread.
inline void counts_to_places(int32_t* counts, int threads, int digits) {
    int32_t total = 0;
    for (int digit = 0; digit < digits; ++digit)
        for (int thread = 0; thread < threads; ++thread) {
            int32_t& place = counts[int64_t(thread) * digits + digit];
            const int32_t here = place;
            place = total;
            total += here;
        }
}

template <class T>
inline void exchange(SortItem<T>*& items, SortItem<T>*& swap) {
    SortItem<T>* const sorted = swap;
    swap = items;
    items = sorted;
}

// One reading of the items counts the digits of all passes. `counts`: [passes][digits].
template <class T>
inline void sort_serially(SortItem<T>*& items, SortItem<T>*& swap, int64_t count, const DigitPlan<T>& plan,
                          int32_t* counts) {
    const int digits = plan.digits();
    std::memset(counts, 0, size_t(plan.passes) * digits * sizeof *counts);
    for (int64_t i = 0; i < count; ++i)
        for (int pass = 0; pass < plan.passes; ++pass) ++counts[pass * digits + plan.digit(items[i], pass)];
    for (int pass = 0; pass < plan.passes; ++pass) {
        int32_t* const place = counts + pass * digits;
        counts_to_places(place, 1, digits);
        for (int64_t i = 0; i < count; ++i) swap[place[plan.digit(items[i], pass)]++] = items[i];
        exchange<T>(items, swap);
    }
}

// `counts`: [threads][digits].
template <class T>
inline void sort_on_threads(SortItem<T>*& items, SortItem<T>*& swap, int64_t count, int threads,
                            const DigitPlan<T>& plan, int32_t* counts) {
    const int digits = plan.digits();
    for (int pass = 0; pass < plan.passes; ++pass) {
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(count, thread, parts);
            int32_t* const mine = counts + int64_t(thread) * digits;
            std::memset(mine, 0, size_t(digits) * sizeof *mine);
            for (int64_t i = range.begin; i < range.end; ++i) ++mine[plan.digit(items[i], pass)];
        });
        counts_to_places(counts, threads, digits);
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(count, thread, parts);
            int32_t* const place = counts + int64_t(thread) * digits;
            for (int64_t i = range.begin; i < range.end; ++i)
                swap[place[plan.digit(items[i], pass)]++] = items[i];
        });
        exchange<T>(items, swap);
    }
}

// Sorts items by key; `swap` is as large. Only the bits in which keys differ cost passes. False when memory has run out.
template <class T>
inline bool sort_items(SortItem<T>*& items, SortItem<T>*& swap, int64_t count, int threads,
                       Buffer<int32_t>& counts) {
    const DigitPlan<T> plan(items, count);
    const bool serial = threads == 1 || count < SERIAL_ITEMS;
    if (!counts.resize(int64_t(serial ? plan.passes : threads) * plan.digits())) return false;
    if (serial)
        sort_serially(items, swap, count, plan, counts.data);
    else
        sort_on_threads(items, swap, count, threads, plan, counts.data);
    return true;
}

SPLAT_END_ISA
