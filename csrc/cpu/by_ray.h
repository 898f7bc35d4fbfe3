// Blending each pixel in its own order, as Cycles does: by the depth at which a ray meets the splat's greatest density,
//     depth + slope_x dx + slope_y dy,   d = pixel centre - mean   (depth_slope of projection.h).
//
// A block of pixels (rasterize.h) goes through the splats of its tile that touch it in the order of their centres, which is
// nearly every pixel's own. Those that reach a pixel are the candidates. Each pixel, a lane, keeps a queue of its own in a
// column of a matrix: row by row from front to back, the depth there and the candidate's place. A new candidate goes in at the
// back, and forward past those that lie behind it in some lane. The front row is blended as soon as nothing that is still to
// come can lie before it in any lane: depths are linear, so a splat's least depth in a block is known.
//
// (To sort the splats of a block by their depths in its middle first makes the queues' work less, by as much as it takes.)
//
// In a lane that a candidate does not touch (alpha 0) its place means nothing. It takes the depth of the row before it, if
// that is larger, so that it never moves.
//
// Sources: Radl et al. 2024, "StopThePop" (order by depth along the ray, resorted in a window as rays go on); depths as planes
// over the screen: Zhang et al. 2024, "RaDe-GS". The queue in columns and the exact release of rows are our own.
#pragma once

#include "rasterize.h"

SPLAT_BEGIN_ISA

// Where the candidates of each block of a tile stand in one list.
struct BlockLists {
    int64_t starts[TILE_BLOCKS + 1];
    int32_t* splats;  // of block b from starts[b] to starts[b + 1], by the depths of their centres

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

// The queues of a block's pixels. `Extra` rows of numbers a candidate belong to the caller.
template <class T, int EXTRA>
struct RayQueues {
    using M = Simd<T>;
    using V = typename M::V;
    using I = typename M::I;
    using Int = typename M::Int;
    static constexpr int LANES = M::LANES;
    using Row = T[LANES];

    T* least;  // by place in the block's list: least depth of this splat and all behind it, in any pixel
    // By place among the candidates.
    int32_t* candidates;  // their splats
    Row* alphas;          // drawn_alpha
    Row* extra[EXTRA];
    // By row of the queue.
    Row* depths;
    Int (*places)[LANES];

    static size_t bytes(int64_t count) {
        return size_t(count + 1) * (sizeof(int32_t) + sizeof(T) + (3 + EXTRA) * sizeof(Row)) +
               64 * (5 + EXTRA);
    }

    // Lays the arrays out in memory of bytes(count).
    void place(char* memory, int64_t count) {
        const auto take = [&](size_t bytes) {
            char* const piece = memory;
            memory += (bytes + 63) / 64 * 64;
            return piece;
        };
        candidates = reinterpret_cast<int32_t*>(take(size_t(count) * sizeof(int32_t)));
        least = reinterpret_cast<T*>(take(size_t(count + 1) * sizeof(T)));
        alphas = reinterpret_cast<Row*>(take(size_t(count) * sizeof(Row)));
        depths = reinterpret_cast<Row*>(take(size_t(count) * sizeof(Row)));
        places = reinterpret_cast<Int(*)[LANES]>(take(size_t(count) * sizeof(Row)));
        for (Row*& rows : extra) rows = reinterpret_cast<Row*>(take(size_t(count) * sizeof(Row)));
    }

    // Takes the splats of a block from front to back, each pixel in its own order. enter(place, splat) is called for each
    // that takes part; pass(places, alphas) blends a row, and returns false when all rays have ended. Returns the number
    // of candidates that took part: candidates[0] to [number - 1].
    template <class Enter, class Pass>
    SPLAT_FN int64_t walk(const Binned<T>& binned, const int32_t* splats, int64_t count, V center_x,
                          V center_y, Enter enter, Pass pass) {
        find_least(binned, splats, count, center_x[0], center_y[0]);
        int64_t head = 0, entered = 0;
        for (int64_t next = 0; next < count;) {
            const int64_t end = next + BATCH < count ? next + BATCH : count;
            for (; next < end; ++next) {
                const int32_t splat = splats[next];
                const Record<T>& record = binned.records[splat];
                V u, v;
                Footprint<T>(record).offsets(center_x, center_y, u, v);
                const V alpha = drawn_alpha<M>(M::broadcast(record.log2_opacity), u, v);
                if (!M::any(alpha > T(0))) continue;
                M::store(alphas[entered], alpha);
                candidates[entered] = splat;
                enter(entered, splat);
                insert(head, entered, depth_at(record, binned.planes[splat], center_x, center_y), alpha);
                ++entered;
            }
            const V bound = M::broadcast(least[next]);
            for (; head < entered && !M::any(M::load(depths[head]) >= bound); ++head) {
                const I row = load_places(head);
                if (SPLAT_UNLIKELY(!pass(row, gather(alphas, row)))) return entered;
            }
        }
        return entered;
    }

    // One number of each lane's candidate.
    static SPLAT_FN V gather(const Row* rows, I places) {
        return M::gather(rows[0], places * LANES + lanes());
    }
    static SPLAT_FN void scatter(Row* rows, I places, V values) {
        M::scatter(rows[0], places * LANES + lanes(), values);
    }
    static SPLAT_FN I lanes() {
        I numbers;
        for (int lane = 0; lane < LANES; ++lane) numbers[lane] = lane;
        return numbers;
    }

  private:
    static constexpr int64_t BATCH = 16;  // splats that are looked at before rows are released

    SPLAT_FN I load_places(int64_t row) const {
        I loaded;
        std::memcpy(&loaded, places[row], sizeof loaded);
        return loaded;
    }

    static SPLAT_FN V depth_at(const Record<T>& record, const DepthPlane<T>& plane, V center_x, V center_y) {
        return plane.depth + plane.slope_x * (center_x - record.mean_x) +
               plane.slope_y * (center_y - record.mean_y);
    }

    void find_least(const Binned<T>& binned, const int32_t* splats, int64_t count, T first_x, T first_y) {
        using Shape = TileShape<T>;
        constexpr T HALF_WIDTH = T(Shape::BLOCK_WIDTH - 1) / 2, HALF_HEIGHT = T(Shape::BLOCK_HEIGHT - 1) / 2;
        constexpr T ROUNDING = T(16) * (sizeof(T) == 4 ? T(1.2e-7) : T(2.3e-16));
        T so_far = T(HUGE_DEPTH);
        least[count] = so_far;
        for (int64_t i = count - 1; i >= 0; --i) {
            const Record<T>& record = binned.records[splats[i]];
            const DepthPlane<T>& plane = binned.planes[splats[i]];
            const T along_x = plane.slope_x * (first_x + HALF_WIDTH - record.mean_x);
            const T along_y = plane.slope_y * (first_y + HALF_HEIGHT - record.mean_y);
            const T reach = magnitude(plane.slope_x) * HALF_WIDTH + magnitude(plane.slope_y) * HALF_HEIGHT;
            const T largest = magnitude(plane.depth) + magnitude(along_x) + magnitude(along_y) + reach;
            const T depth = plane.depth + along_x + along_y - reach - largest * ROUNDING;
            so_far = depth < so_far ? depth : so_far;
            least[i] = so_far;
        }
    }
    static constexpr double HUGE_DEPTH = 3e38;  // farther than any

    static T magnitude(T x) { return x < 0 ? -x : x; }

    // Puts the candidate `place`, which is the queue's next row, where its depths say; rows before `head` are gone.
    SPLAT_FN void insert(int64_t head, int64_t place, V depth, V alpha) {
        I moving = I{} + Int(place);
        int64_t row = place;
        if (row > head) {
            const V before = M::load(depths[row - 1]);
            depth = M::select(alpha > T(0), depth, M::max(depth, before));
        }
        for (; row > head; --row) {
            const V before = M::load(depths[row - 1]);
            const auto passes = depth < before;
            if (!M::any(passes)) break;
            const I place_before = load_places(row - 1);
            M::store(depths[row], M::select(passes, before, depth));
            const I settled = passes ? place_before : moving;
            std::memcpy(places[row], &settled, sizeof settled);
            depth = M::select(passes, depth, before);
            moving = passes ? moving : place_before;
        }
        M::store(depths[row], depth);
        std::memcpy(places[row], &moving, sizeof moving);
    }
};

// The memory that each thread needs for the largest tile.
template <class T>
struct RayMemory {
    int64_t entries = 0;  // candidates of all blocks of a tile
    int64_t most = 0;     // of one block: no more than the tile's pairs

    explicit RayMemory(const Binned<T>& binned) {
        for (int64_t tile = 0; tile < binned.tiles(); ++tile) {
            int64_t here = 0;
            for (int64_t k = binned.tile_starts[tile]; k < binned.tile_starts[tile + 1]; ++k)
                here += __builtin_popcountll(binned.pairs[k].mask);
            const int64_t pairs = binned.tile_starts[tile + 1] - binned.tile_starts[tile];
            if (here > entries) entries = here;
            if (pairs > most) most = pairs;
        }
    }
    size_t list_bytes() const { return (size_t(entries) * sizeof(int32_t) + 63) / 64 * 64 + 64; }
    template <int EXTRA>
    size_t bytes() const {
        return list_bytes() +
               (RayQueues<T, EXTRA>::bytes(most) + 63) / 64 * 64;  // each thread's begins aligned
    }
    template <int EXTRA>
    void place(char* memory, BlockLists& lists, RayQueues<T, EXTRA>& queues) const {
        lists.splats = reinterpret_cast<int32_t*>(memory);
        queues.place(memory + list_bytes(), most);
    }
};

SPLAT_END_ISA
