// What binning and both raster passes share: tile geometry, the splat record, and the saved state.
//
// The image is cut into macro tiles of 8x8 blocks; a block is the set of pixels of one vector (4x4 pixels for 16 lanes, so
// tiles of 32x32). Each (splat, tile) pair carries one 64-bit mask of the blocks that the splat's ellipse touches: bit
// 8 * block row + block column.
#pragma once

#include "../include/footprint.h"
#include "context.h"
#include "kernels.h"
#include "vec.h"
#include "wide.h"

SPLAT_BEGIN_ISA

constexpr int BLOCKS = 8;                     // blocks along either side of a tile
constexpr int TILE_BLOCKS = BLOCKS * BLOCKS;  // bits of a mask
constexpr int MAX_CHANNELS = 8;               // wider features are rasterized in groups, by the caller
constexpr int MAX_IMAGE_SIZE = 1 << 18;       // px a side
constexpr int PREFETCH = 16;                  // pairs ahead whose records are fetched: some 400 ns of work

template <class T>
struct TileShape {
    static constexpr int LANES = Simd<T>::LANES;
    static constexpr int BLOCK_WIDTH = LANES >= 16 ? 4 : LANES >= 8 ? 4 : 2;
    static constexpr int BLOCK_HEIGHT = LANES / BLOCK_WIDTH;
    static constexpr int WIDTH = BLOCKS * BLOCK_WIDTH;
    static constexpr int HEIGHT = BLOCKS * BLOCK_HEIGHT;
};

// Everything the inner loops need of one splat: 16 scalars, one cache line in float.
template <class T>
struct alignas(64) Record {
    T mean_x, mean_y;  // px
    T u_x, u_y, v_y;   // conic factor (blend.h)
    T log2_opacity;
    T features[MAX_CHANNELS];
    T spare[2];
};
static_assert(sizeof(Record<float>) == 64, "one cache line");

// The depth of a splat's greatest density over the screen; only where each pixel has its own order (by_ray.h).
template <class T>
struct alignas(4 * sizeof(T)) DepthPlane {
    T depth;             // at the mean
    T slope_x, slope_y;  // per px
};

// Slots of a CONTEXT_SAVED context.
enum SavedSlot {
    SAVED_RECORDS,
    SAVED_TILE_STARTS,
    SAVED_PAIRS,
    SAVED_TILE_COSTS,
    SAVED_PLANES,
    // Where each pixel has its own order (RaySizes, RayRows)
    SAVED_RAY_STARTS,
    SAVED_RAY_BLOCKS,
    SAVED_RAY_CANDIDATES,
    SAVED_RAY_PLACES
};
enum SavedNumber {
    SAVED_COUNT,
    SAVED_WIDTH,
    SAVED_HEIGHT,
    SAVED_CHANNELS,
    SAVED_SCALAR_BYTES,
    SAVED_BIN_NS,    // time that sorting and binning took
    SAVED_BLEND_NS,  // time that blending took
    SAVED_BY_RAY,    // 1: each pixel has its own order
    SAVED_RAY_MOST   // and then: no block has more candidates
};

// A splat in a tile. Mask and splat lie side by side: a scatter into tiles then writes to one place a tile, not to two.
struct Pair {
    uint64_t mask;
    int32_t splat;
    int32_t tile;
};

// The binned splats: for each tile, row by row, its pairs from front to back.
template <class T>
struct Binned {
    int tiles_x, tiles_y;
    const Record<T>* records;    // [count], by splat index; undefined for splats that were dropped
    const int64_t* tile_starts;  // [tiles + 1]
    const Pair* pairs;           // [pairs]
    int64_t* tile_costs;         // [tiles] work that the forward found in each tile, for the backward's split
    const DepthPlane<T>* planes;  // [count], or null: all pixels in the order of the pairs
    int64_t tiles() const { return int64_t(tiles_x) * tiles_y; }
};

inline int tiles_along(int pixels, int tile) { return (pixels + tile - 1) / tile; }

// View of a context that the forward has filled.
template <class T>
inline Binned<T> binned_view(const Context* saved) {
    using Shape = TileShape<T>;
    return {tiles_along(int(saved->numbers[SAVED_WIDTH]), Shape::WIDTH),
            tiles_along(int(saved->numbers[SAVED_HEIGHT]), Shape::HEIGHT),
            static_cast<const Record<T>*>(saved->memory[SAVED_RECORDS]),
            static_cast<const int64_t*>(saved->memory[SAVED_TILE_STARTS]),
            static_cast<const Pair*>(saved->memory[SAVED_PAIRS]),
            static_cast<int64_t*>(saved->memory[SAVED_TILE_COSTS]),
            saved->numbers[SAVED_BY_RAY] ? static_cast<const DepthPlane<T>*>(saved->memory[SAVED_PLANES])
                                         : nullptr};
}

// Sorts and bins the splats into `saved` (bin_kernel.cpp). Returns a Status.
int bin_splats(const RasterizeFwdArgs<float>& args, Context* saved);
int bin_splats(const RasterizeFwdArgs<double>& args, Context* saved);

// A block's first pixel in the image (as an index), the image's width, and how many of its columns and rows lie inside
// (more than a block has: all; 0 or fewer: none).
struct BlockPlace {
    int64_t pixel;
    int64_t width;
    int columns, rows;
};

// Pixel geometry of one tile.
template <class T>
struct Tile {
    using Shape = TileShape<T>;
    using M = Simd<T>;
    int x0, y0;                                        // px of its corner
    int columns, rows;                                 // pixels inside the image
    typename M::V center_x[BLOCKS], center_y[BLOCKS];  // pixel centres of each block column and row

    Tile(const Binned<T>& binned, int64_t index, int width, int height) {
        x0 = int(index % binned.tiles_x) * Shape::WIDTH;
        y0 = int(index / binned.tiles_x) * Shape::HEIGHT;
        columns = width - x0 < Shape::WIDTH ? width - x0 : Shape::WIDTH;
        rows = height - y0 < Shape::HEIGHT ? height - y0 : Shape::HEIGHT;
        typename M::V lane_x{}, lane_y{};
        for (int lane = 0; lane < M::LANES; ++lane) {
            lane_x[lane] = T(lane % Shape::BLOCK_WIDTH) + T(0.5);
            lane_y[lane] = T(lane / Shape::BLOCK_WIDTH) + T(0.5);
        }
        for (int block = 0; block < BLOCKS; ++block) {
            center_x[block] = lane_x + T(x0 + block * Shape::BLOCK_WIDTH);
            center_y[block] = lane_y + T(y0 + block * Shape::BLOCK_HEIGHT);
        }
    }

    // Blocks with at least one pixel inside the image.
    uint64_t blocks_inside() const {
        const int across = (columns + Shape::BLOCK_WIDTH - 1) / Shape::BLOCK_WIDTH;
        const int down = (rows + Shape::BLOCK_HEIGHT - 1) / Shape::BLOCK_HEIGHT;
        uint64_t inside = 0;
        for (int row = 0; row < down; ++row) inside |= ((uint64_t(1) << across) - 1) << (BLOCKS * row);
        return inside;
    }

    // Where a block lies in the image; nothing of it may be inside.
    BlockPlace place(int block, int64_t width) const {
        const int x = block % BLOCKS * Shape::BLOCK_WIDTH, y = block / BLOCKS * Shape::BLOCK_HEIGHT;
        return {int64_t(y0 + y) * width + x0 + x, width, columns - x, rows - y};
    }
};

// Calls move(pixel, lane) for the pixels of a block that lie inside the image; unrolled where all of them do.
template <class T, class Move>
SPLAT_FN void for_each_pixel(const BlockPlace& place, Move&& move) {
    using Shape = TileShape<T>;
    if (place.columns >= Shape::BLOCK_WIDTH && place.rows >= Shape::BLOCK_HEIGHT) {
        for (int y = 0; y < Shape::BLOCK_HEIGHT; ++y)
            for (int x = 0; x < Shape::BLOCK_WIDTH; ++x)
                move(place.pixel + y * place.width + x, y * Shape::BLOCK_WIDTH + x);
        return;
    }
    for (int y = 0; y < Shape::BLOCK_HEIGHT && y < place.rows; ++y)
        for (int x = 0; x < Shape::BLOCK_WIDTH && x < place.columns; ++x)
            move(place.pixel + y * place.width + x, y * Shape::BLOCK_WIDTH + x);
}

// Writes a block's pixels into an image [H,W,channels], channels <= C; nothing outside it.
template <class T, int C>
SPLAT_FN void scatter_block(const BlockPlace& place, const typename Simd<T>::V* values, int channels,
                            T* image) {
    alignas(64) T lanes[C][Simd<T>::LANES];
    for (int k = 0; k < C; ++k) Simd<T>::store(lanes[k], values[k]);
    if (channels == C)
        for_each_pixel<T>(place, [&](int64_t pixel, int lane) {
            for (int k = 0; k < C; ++k) image[pixel * C + k] = lanes[k][lane];
        });
    else
        for_each_pixel<T>(place, [&](int64_t pixel, int lane) {
            for (int k = 0; k < channels; ++k) image[pixel * channels + k] = lanes[k][lane];
        });
}

// Transmittance at the start of the rays of a block: 1, and -1 (ended) for lanes outside the image.
template <class T>
SPLAT_FN typename Simd<T>::V fresh_transmittance(const BlockPlace& place) {
    alignas(64) T lanes[Simd<T>::LANES];
    for (T& lane : lanes) lane = T(-1);
    for_each_pixel<T>(place, [&](int64_t, int lane) { lanes[lane] = T(1); });
    return Simd<T>::load(lanes);
}

// u and v of one splat in one block (blend.h).
template <class T>
struct Footprint {
    using M = Simd<T>;
    using V = typename M::V;
    V mean_x, mean_y, u_x, u_y, v_y;

    explicit SPLAT_FN Footprint(const Record<T>& r)
        : mean_x(M::broadcast(r.mean_x)),
          mean_y(M::broadcast(r.mean_y)),
          u_x(M::broadcast(r.u_x)),
          u_y(M::broadcast(r.u_y)),
          v_y(M::broadcast(r.v_y)) {}

    SPLAT_FN void offsets(V center_x, V center_y, V& u, V& v) const {
        // Differences first: the centres are exact, so what is lost does not grow with the size of the image.
        const V dx = center_x - mean_x, dy = center_y - mean_y;
        u = u_x * dx + u_y * dy;
        v = v_y * dy;
    }
};

// The next few pairs of a tile with their alphas in every block they touch. Alphas depend on nothing, so they are made
// for many blocks before the first is blended: a loop that did both for one block after another would be one long chain of
// arithmetic a turn, and the processor's scheduler holds no more than three of those at once.
template <class T>
struct Batch {
    using M = Simd<T>;
    static constexpr int CAPACITY = 2 * TILE_BLOCKS;  // entries; a pair has up to TILE_BLOCKS of them

    typename M::V alphas[CAPACITY];  // drawn_alpha of each entry
    uint8_t blocks[CAPACITY];        // its block
    int32_t splats[CAPACITY];        // of each pair
    int32_t ends[CAPACITY];          // the entry behind the last one of each pair
    int pairs;
    int64_t work;  // pairs and entries made so far: what the tile costs

    // Takes pairs from `pair` on, until the batch is full or the tile's pairs are through; returns the first pair that was
    // not taken. Blocks that are not alive are left out. ahead(splat) is called some 100 ns before a splat is needed.
    template <class Ahead>
    SPLAT_FN int64_t fill(const Binned<T>& binned, const Tile<T>& tile, int64_t pair, int64_t end,
                          uint64_t alive, Ahead ahead) {
        int entries = 0;
        pairs = 0;
        for (; pair < end && entries <= CAPACITY - TILE_BLOCKS; ++pair) {
            ahead(binned.pairs[pair + PREFETCH < end ? pair + PREFETCH : pair].splat);
            uint64_t touched = binned.pairs[pair].mask & alive;
            ++work;
            if (!touched) continue;
            const int32_t splat = binned.pairs[pair].splat;
            const Record<T>& record = binned.records[splat];
            const Footprint<T> footprint(record);
            const typename M::V log2_opacity = M::broadcast(record.log2_opacity);
            const int first = entries;
            do {
                const int block = __builtin_ctzll(touched);
                touched &= touched - 1;
                typename M::V u, v;
                footprint.offsets(tile.center_x[block % BLOCKS], tile.center_y[block / BLOCKS], u, v);
                alphas[entries] = drawn_alpha<M>(log2_opacity, u, v);
                blocks[entries] = uint8_t(block);
                ++entries;
            } while (touched);
            work += entries - first;
            splats[pairs] = splat;
            ends[pairs] = entries;
            ++pairs;
        }
        return pair;
    }
};

// Marks a condition that must stay a branch: a block's end is rare and known late, and a conditional move would make what
// follows wait for it. (A function would not do: the compiler reads the hint before it inlines.)
#define SPLAT_UNLIKELY(condition) __builtin_expect(!!(condition), 0)

// Calls kernel(std::integral-like constant C) with the smallest compiled channel count that holds `channels`.
template <int C>
struct Channels {
    static constexpr int VALUE = C;
};
template <class Kernel>
inline int with_channels(int channels, Kernel&& kernel) {
    if (channels == 1) return kernel(Channels<1>{});
    if (channels <= 3) return kernel(Channels<3>{});
    if (channels == 4) return kernel(Channels<4>{});
    if (channels <= 7) return kernel(Channels<7>{});
    return kernel(Channels<8>{});
}

SPLAT_END_ISA
