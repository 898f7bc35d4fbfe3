// What the operations of a warp compute from its lanes' values; see scheduler.h.
#include "scheduler.h"

namespace emulation {

namespace {

template <class T, class Operation>
uint64_t folded(const Exchange& exchange, Operation operation) {
    unsigned rest = exchange.mask;
    T sum = T(exchange.values[__builtin_ctz(rest)]);
    for (rest &= rest - 1; rest; rest &= rest - 1)
        sum = operation(sum, T(exchange.values[__builtin_ctz(rest)]));
    return uint64_t(sum);
}

}  // namespace

uint64_t rule_nothing(const Exchange&) { return 0; }

uint64_t rule_lane(const Exchange& exchange) {
    if (!(exchange.mask >> exchange.argument & 1)) fail("a shuffle reads a lane that its mask leaves out");
    return exchange.values[exchange.argument];
}

uint64_t rule_ballot(const Exchange& exchange) {
    uint64_t lanes = 0;
    for (unsigned rest = exchange.mask; rest; rest &= rest - 1)
        if (exchange.values[__builtin_ctz(rest)]) lanes |= rest & -rest;
    return lanes;
}

uint64_t rule_match(const Exchange& exchange) {
    uint64_t lanes = 0;
    for (unsigned rest = exchange.mask; rest; rest &= rest - 1)
        if (exchange.values[__builtin_ctz(rest)] == exchange.values[exchange.lane]) lanes |= rest & -rest;
    return lanes;
}

uint64_t rule_add(const Exchange& exchange) {
    return folded<uint32_t>(exchange, [](uint32_t a, uint32_t b) { return a + b; });
}
uint64_t rule_min_signed(const Exchange& exchange) {
    return folded<int32_t>(exchange, [](int32_t a, int32_t b) { return b < a ? b : a; });
}
uint64_t rule_max_signed(const Exchange& exchange) {
    return folded<int32_t>(exchange, [](int32_t a, int32_t b) { return a < b ? b : a; });
}
uint64_t rule_min_unsigned(const Exchange& exchange) {
    return folded<uint32_t>(exchange, [](uint32_t a, uint32_t b) { return b < a ? b : a; });
}
uint64_t rule_max_unsigned(const Exchange& exchange) {
    return folded<uint32_t>(exchange, [](uint32_t a, uint32_t b) { return a < b ? b : a; });
}
uint64_t rule_and(const Exchange& exchange) {
    return folded<uint32_t>(exchange, [](uint32_t a, uint32_t b) { return a & b; });
}
uint64_t rule_or(const Exchange& exchange) {
    return folded<uint32_t>(exchange, [](uint32_t a, uint32_t b) { return a | b; });
}
uint64_t rule_xor(const Exchange& exchange) {
    return folded<uint32_t>(exchange, [](uint32_t a, uint32_t b) { return a ^ b; });
}

}  // namespace emulation
