// Blending each pixel in its own order, as Cycles does: by the depth at which a ray meets the splat's greatest density,
//     depth + slope_x dx + slope_y dy,   d = pixel centre - mean   (depth_slope of projection.h).
//
// A block of pixels (rasterize.h) goes through the splats of its tile that touch it, by their depths in its middle: nearly
// every pixel's own order. (That of the centres is not: on a dense surface seen at an angle it is dozens of places off.)
// Those that reach a pixel are the candidates. Each pixel, a lane, keeps a queue of its own in a column of a matrix: row by
// row from front to back, the depth there and the candidate's place. A new candidate goes in at the back, and forward past
// those that lie behind it in some lane. The front row is blended as soon as nothing that is still to come can lie before it
// in any lane: depths are linear, so a splat's least depth in a block is known.
//
// The forward keeps the rows for its backward, which need not sort again.
//
// In a lane that a candidate does not touch (alpha 0) its place means nothing. It takes the depth of the row before it, if
// that is larger, so that it never moves.
//
// Sources: Radl et al. 2024, "StopThePop" (order by depth along the ray, resorted in a window as rays go on); depths as planes
// over the screen: Zhang et al. 2024, "RaDe-GS". The queue in columns and the exact release of rows are our own.
#pragma once

#include "arrays.h"
#include "block_order.h"
#include "rasterize.h"

SPLAT_BEGIN_ISA

// How much there can be of what follows.
struct RaySizes {
    const int64_t* starts;        // [tiles + 1] where each tile's part of the candidates of all blocks begins
    int64_t entries_of_tile = 0;  // candidates of all blocks of a tile
    int64_t entries_of_block = 0;  // no more than the tile's pairs

    // `memory` is what `starts` becomes.
    template <class T>
    RaySizes(const Binned<T>& binned, int64_t* memory) : starts(memory) {
        memory[0] = 0;
        for (int64_t tile = 0; tile < binned.tiles(); ++tile) {
            const int64_t first = binned.tile_starts[tile], last = binned.tile_starts[tile + 1];
            int64_t entries = 0;
            for (int64_t k = first; k < last; ++k) entries += __builtin_popcountll(binned.pairs[k].mask);
            memory[tile + 1] = memory[tile] + entries;
            if (entries > entries_of_tile) entries_of_tile = entries;
            if (last - first > entries_of_block) entries_of_block = last - first;
        }
    }
};

// How many splats took part in a block, and how many rows of its queue were blended.
struct Walked {
    int64_t candidates, rows;
};

// What blending leaves in each block, for the backward: who took part, and row by row from front to back who was at its turn
// in each pixel. It lies in slots of a CONTEXT_SAVED context, and is by far the largest thing there: hence half numbers, unless
// a block has more candidates than those can count.
template <class T>
struct RayRows {
    using M = Simd<T>;
    using I = typename M::I;
    using Wide = typename M::Int[M::LANES];
    typedef uint16_t Narrow __attribute__((vector_size(M::LANES * sizeof(uint16_t))));
    static constexpr int64_t NARROW_MOST = 65536;
    struct Block {
        int64_t first;  // of its part of the other two arrays
        Walked walked;
    };
    Block* blocks;        // [tiles][TILE_BLOCKS]
    int32_t* candidates;  // [entries] splats
    char* places;         // [entries] rows of places among the block's candidates, a lane each
    bool is_narrow;

    // The rows that a forward has left, or leaves.
    explicit RayRows(const Context* saved)
        : blocks(static_cast<Block*>(saved->memory[SAVED_RAY_BLOCKS])),
          candidates(static_cast<int32_t*>(saved->memory[SAVED_RAY_CANDIDATES])),
          places(static_cast<char*>(saved->memory[SAVED_RAY_PLACES])),
          is_narrow(saved->numbers[SAVED_RAY_MOST] <= NARROW_MOST) {}

    // Makes room. False when memory has run out.
    bool reserve(Context* saved, int64_t tiles, int64_t entries) {
        const auto array = [&](int slot, int64_t count, size_t bytes) {
            return context_reserve(saved, slot, size_t(count) * bytes + 1);
        };
        const size_t row_bytes = is_narrow ? sizeof(Narrow) : sizeof(Wide);
        blocks = static_cast<Block*>(array(SAVED_RAY_BLOCKS, tiles * TILE_BLOCKS, sizeof(Block)));
        candidates = static_cast<int32_t*>(array(SAVED_RAY_CANDIDATES, entries, sizeof(int32_t)));
        places = static_cast<char*>(array(SAVED_RAY_PLACES, entries, row_bytes));
        return blocks && candidates && places;
    }

    SPLAT_FN I load(int64_t row) const {
        if (SPLAT_UNLIKELY(!is_narrow)) return load_wide(reinterpret_cast<const Wide*>(places) + row);
        Narrow loaded;
        std::memcpy(&loaded, places + row * int64_t(sizeof(Narrow)), sizeof loaded);
        return __builtin_convertvector(loaded, I);
    }
    // Takes in the rows of a block.
    SPLAT_FN void store(int64_t first, const Wide* rows, int64_t count) const {
        if (SPLAT_UNLIKELY(!is_narrow)) {
            std::memcpy(places + first * int64_t(sizeof(Wide)), rows, size_t(count) * sizeof(Wide));
            return;
        }
        char* next = places + first * int64_t(sizeof(Narrow));
        for (int64_t row = 0; row < count; ++row, next += sizeof(Narrow)) {
            const Narrow stored = __builtin_convertvector(load_wide(rows + row), Narrow);
            std::memcpy(next, &stored, sizeof stored);
        }
    }
    static SPLAT_FN I load_wide(const Wide* from) {
        I loaded;
        std::memcpy(&loaded, from, sizeof loaded);
        return loaded;
    }
};

// Where the candidates of each block of a tile stand in one list.
struct BlockLists {
    int64_t starts[TILE_BLOCKS + 1];
    int32_t* splats;  // of block b from starts[b] to starts[b + 1], by the depths of their centres

    BlockLists(Arrays& arrays, const RaySizes& sizes) : splats(arrays.take<int32_t>(sizes.entries_of_tile)) {}

    template <class T>
    void fill(const Binned<T>& binned, int64_t tile, uint64_t inside) {
        const Pair* const first = binned.pairs + binned.tile_starts[tile];
        const Pair* const last = binned.pairs + binned.tile_starts[tile + 1];
        int64_t counts[TILE_BLOCKS] = {};
        for (const Pair* pair = first; pair < last; ++pair)
            for (uint64_t touched = pair->mask & inside; touched; touched &= touched - 1)
                ++counts[__builtin_ctzll(touched)];
        starts[0] = 0;
        for (int block = 0; block < TILE_BLOCKS; ++block) starts[block + 1] = starts[block] + counts[block];
        std::memcpy(counts, starts, sizeof counts);
        for (const Pair* pair = first; pair < last; ++pair)
            for (uint64_t touched = pair->mask & inside; touched; touched &= touched - 1)
                splats[counts[__builtin_ctzll(touched)]++] = pair->splat;
    }
};

// Numbers of a block's candidates, by place: one for each lane.
template <class T>
struct LaneRows {
    using M = Simd<T>;
    using V = typename M::V;
    using I = typename M::I;
    using Row = T[M::LANES];
    Row* rows;

    LaneRows(Arrays& arrays, int64_t most) : rows(arrays.take<Row>(most)) {}

    SPLAT_FN V load(int64_t place) const { return M::load(rows[place]); }
    SPLAT_FN void store(int64_t place, V values) const { M::store(rows[place], values); }
    // The number of another candidate in each lane.
    SPLAT_FN V gather(I places) const { return M::gather(rows[0], places * M::LANES + lanes()); }
    SPLAT_FN void scatter(I places, V values) const {
        M::scatter(rows[0], places * M::LANES + lanes(), values);
    }

  private:
    static SPLAT_FN I lanes() {
        I numbers;
        for (int lane = 0; lane < M::LANES; ++lane) numbers[lane] = lane;
        return numbers;
    }
};

// The queues of a block's pixels.
template <class T>
struct RayQueues {
    using M = Simd<T>;
    using V = typename M::V;
    using I = typename M::I;
    using Int = typename M::Int;
    using Rows = RayRows<T>;

    // By place in the block's list.
    KeyOrder order;
    T* unsorted_least;
    int32_t* splats;  // sorted by their depths in the block's middle
    T* least;         // least depth of this splat and all behind it, in any pixel
    // By place among the candidates.
    LaneRows<T> alphas;  // drawn_alpha
    // By row of the queue.
    LaneRows<T> depths;
    typename Rows::Wide* places;
    // By place among the candidates: their splats, here or in what is kept for a backward.
    int32_t* candidates;

    RayQueues(Arrays& arrays, const RaySizes& sizes, bool keeps)
        : order(arrays, sizes.entries_of_block),
          unsorted_least(arrays.take<T>(sizes.entries_of_block)),
          splats(arrays.take<int32_t>(sizes.entries_of_block)),
          least(arrays.take<T>(sizes.entries_of_block + 1)),
          alphas(arrays, sizes.entries_of_block),
          depths(arrays, sizes.entries_of_block),
          places(arrays.take<typename Rows::Wide>(sizes.entries_of_block)),
          candidates(arrays.take<int32_t>(keeps ? 0 : sizes.entries_of_block)) {}

    // Takes the splats of a block from front to back, each pixel in its own order. enter(place) is called for each that
    // takes part; pass(places, alphas) blends a row, and returns false when all rays have ended.
    template <class Enter, class Pass>
    SPLAT_FN Walked walk(const Binned<T>& binned, const int32_t* listed, int64_t count, V center_x,
                         V center_y, Enter enter, Pass pass) {
        look_ahead(binned, listed, count, center_x[0], center_y[0]);
        int64_t head = 0, entered = 0;
        for (int64_t next = 0; next < count;) {
            // Alphas depend on nothing, so they come first, for several splats: behind the branches of `insert`, of which
            // each ends otherwise, one after the other would be waited for.
            const int64_t end = next + BATCH < count ? next + BATCH : count, first = entered;
            for (; next < end; ++next) {
                const int32_t splat = splats[next];
                const Record<T>& record = binned.records[splat];
                V u, v;
                Footprint<T>(record).offsets(center_x, center_y, u, v);
                const V alpha = drawn_alpha<M>(M::broadcast(record.log2_opacity), u, v);
                alphas.store(entered, alpha);
                depths.store(entered, depth_at(record, binned.planes[splat], center_x, center_y));
                candidates[entered] = splat;
                enter(entered);
                entered += M::any(alpha > T(0));
            }
            for (int64_t place = first; place < entered; ++place) insert(head, place);
            const V bound = M::broadcast(least[next]);
            while (head < entered && !M::any(depths.load(head) >= bound)) {
                const I row = Rows::load_wide(places + head);
                ++head;
                if (SPLAT_UNLIKELY(!pass(row, alphas.gather(row)))) return {entered, head};
            }
        }
        return {entered, head};
    }

  private:
    static constexpr int64_t BATCH = 16;  // splats that are looked at before rows are released

    static SPLAT_FN V depth_at(const Record<T>& record, const DepthPlane<T>& plane, V center_x, V center_y) {
        return plane.depth + plane.slope_x * (center_x - record.mean_x) +
               plane.slope_y * (center_y - record.mean_y);
    }

    // Sorts a block's splats by their depths in its middle, into `splats` and `least`.
    SPLAT_FN void look_ahead(const Binned<T>& binned, const int32_t* listed, int64_t count, T first_x,
                             T first_y) {
        using Shape = TileShape<T>;
        constexpr T HALF_WIDTH = T(Shape::BLOCK_WIDTH - 1) / 2, HALF_HEIGHT = T(Shape::BLOCK_HEIGHT - 1) / 2;
        constexpr T ROUNDING = T(16) * (sizeof(T) == 4 ? T(1.2e-7) : T(2.3e-16));
        for (int64_t i = 0; i < count; ++i) {
            const Record<T>& record = binned.records[listed[i]];
            const DepthPlane<T>& plane = binned.planes[listed[i]];
            const T along_x = plane.slope_x * (first_x + HALF_WIDTH - record.mean_x);
            const T along_y = plane.slope_y * (first_y + HALF_HEIGHT - record.mean_y);
            const T reach = magnitude(plane.slope_x) * HALF_WIDTH + magnitude(plane.slope_y) * HALF_HEIGHT;
            const T largest = magnitude(plane.depth) + magnitude(along_x) + magnitude(along_y) + reach;
            const T depth = plane.depth + along_x + along_y;
            unsorted_least[i] = depth - reach - largest * ROUNDING;
            order.keys[i] = float(depth == depth ? depth : plane.depth);  // sums of infinities are NaN
        }
        const int32_t* const sorted = order.sort(count);
        T so_far = T(HUGE_DEPTH);
        least[count] = so_far;
        for (int64_t i = count - 1; i >= 0; --i) {
            splats[i] = listed[sorted[i]];
            const T depth = unsorted_least[sorted[i]];
            so_far = depth < so_far ? depth : so_far;
            least[i] = so_far;
        }
    }
    static constexpr double HUGE_DEPTH = 3e38;  // farther than any

    static T magnitude(T x) { return x < 0 ? -x : x; }

    // Puts the candidate `place`, which is the queue's next row, where its depths say; rows before `head` are gone.
    SPLAT_FN void insert(int64_t head, int64_t place) {
        V depth = depths.load(place);
        I moving = I{} + Int(place);
        int64_t row = place;
        if (row > head)
            depth = M::select(alphas.load(place) > T(0), depth, M::max(depth, depths.load(row - 1)));
        for (; row > head; --row) {
            const V before = depths.load(row - 1);
            const auto passes = depth < before;
            if (!M::any(passes)) break;
            const I place_before = Rows::load_wide(places + row - 1);
            depths.store(row, M::select(passes, before, depth));
            const I settled = passes ? place_before : moving;
            std::memcpy(places[row], &settled, sizeof settled);
            depth = M::select(passes, depth, before);
            moving = passes ? moving : place_before;
        }
        depths.store(row, depth);
        std::memcpy(places[row], &moving, sizeof moving);
    }
};

SPLAT_END_ISA
