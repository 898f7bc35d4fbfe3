// From splats to tile lists, in five phases, all threaded and all independent of the number of threads:
//   1. prepare: drop what cannot draw, factor the conics, write records, tile rectangles and depth keys (splat order)
//   2. sort: stable radix sort of the depth keys, so that ties keep the order of the splats
//   3. cover: for each splat, front to back, the exact block mask in each tile it touches: a list a thread
//   4. offsets: where each thread's pairs of each tile begin
//   5. scatter: the lists into the tiles' places, stable
// A mask is made once and both counted and scattered, so counts and entries cannot disagree.
#include "rasterize.h"
#include "sort.h"

SPLAT_BEGIN_ISA

namespace {

enum ScratchSlot {
    SCRATCH_ITEMS,
    SCRATCH_ITEMS_SWAP,
    SCRATCH_BOUNDS,
    SCRATCH_PAIRS,
    SCRATCH_COUNTS,
    SCRATCH_AREAS,
    SCRATCH_THREADS
};

// A splat's footprint in tiles, and its reach in pixels.
template <class T>
struct alignas(8 * sizeof(T)) Bounds {
    T reach_squared;  // u^2 + v^2 at alpha = ALPHA_MIN, a little more
    T reach_y;        // px above and below the mean, padded
    T extreme_y;      // dy where the right border is farthest out; the left one's is -extreme_y
    T pad_x;          // px
    T tile_x0, tile_y0, tile_x1, tile_y1;  // whole numbers, half open
};

// ---------------------------------------------------------------------------------------------- 1. prepare

template <class T>
struct Preparer {
    using M = Simd<T>;
    using V = typename M::V;
    using W = Wide<T>;
    using Shape = TileShape<T>;
    static constexpr int LANES = M::LANES;
    static constexpr int RECORD_FIELDS = sizeof(Record<T>) / sizeof(T);
    static constexpr int BOUNDS_FIELDS = sizeof(Bounds<T>) / sizeof(T);

    const RasterizeFwdArgs<T>& args;
    Record<T>* records;
    DepthPlane<T>* planes;  // or null
    Bounds<T>* bounds;
    int32_t* areas;
    int tiles_x, tiles_y;

    // One vector of splats; lists those that can draw from `next` on, and returns the list's end.
    SortItem<T>* operator()(int64_t first, int lanes, SortItem<T>* next) const {
        W mean[2], conic[3], opacity, depth;
        load_rows<2>(args.means2d + first * 2, 2, lanes, mean);
        load_rows<3>(args.conics + first * 3, 3, lanes, conic);
        load_rows<1>(args.opacities + first, 1, lanes, &opacity);
        load_rows<1>(args.depths + first, 1, lanes, &depth);
        alignas(64) T schurs[LANES];
        W features[MAX_CHANNELS];
        for (W& feature : features) feature = W(T(0));
        load_features(first, lanes, features);
        // False where any input is not finite (or so large that the sum overflows).
        auto finite = is_finite(mean[0] + mean[1] + depth + conic[0] + conic[1] + conic[2] + opacity);
        for (const W& feature : features) finite = finite & is_finite(feature);
        if (planes) finite = finite & store_planes(first, lanes, depth);
        for (int lane = 0; lane < LANES; ++lane) {
            const double a = double(conic[0].v[lane]), b = double(conic[1].v[lane]),
                         c = double(conic[2].v[lane]);
            schurs[lane] = T((a * c - b * b) / a);
        }
        const W schur = W::load(schurs), none = W(T(0));
        // (a c - b^2 > 0 in double follows from the Schur complement, a > 0 and the rounding of T, which keeps signs.)
        const auto drawn = finite & (conic[0] > none) & (schur > none) & (opacity >= W(T(ALPHA_MIN)));
        // A dropped splat's lane computes with harmless numbers.
        const W one = W(T(1));
        const V mean_x = where(drawn, mean[0]).v, mean_y = where(drawn, mean[1]).v;
        const ConicFactor<V> factor = conic_factor<M>(select(drawn, conic[0], one).v,
                                                      where(drawn, conic[1]).v, select(drawn, schur, one).v);
        const V log2_opacity = M::log2(select(drawn, opacity, one).v);
        const Extent<M> extent = splat_extent<M>(mean_x, mean_y, factor, log2_opacity);
        const V left = mean_x - extent.reach_x - extent.pad_x, right = mean_x + extent.reach_x + extent.pad_x;
        const V reach_y = extent.reach_y + extent.pad_y;
        const V top = mean_y - reach_y, bottom = mean_y + reach_y;
        const auto inside = (right > 0) & (left < T(args.width)) & (bottom > 0) & (top < T(args.height));
        const V x0 = cell_of<M>(left, Shape::WIDTH, tiles_x), x1 = cell_of<M>(right, Shape::WIDTH, tiles_x);
        const V y0 = cell_of<M>(top, Shape::HEIGHT, tiles_y), y1 = cell_of<M>(bottom, Shape::HEIGHT, tiles_y);
        const auto usable = drawn.bits & inside;
        const V tile_x0 = whole(x0), tile_y0 = whole(y0), tile_x1 = whole(x1) + T(1),
                tile_y1 = whole(y1) + T(1);
        W fields[RECORD_FIELDS] = {W::of(mean_x),     W::of(mean_y),     W::of(factor.u_x),
                                   W::of(factor.u_y), W::of(factor.v_y), W::of(log2_opacity)};
        for (int k = 0; k < MAX_CHANNELS; ++k) fields[6 + k] = features[k];
        fields[14] = fields[15] = none;
        store_rows<RECORD_FIELDS>(fields, reinterpret_cast<T*>(records + first), RECORD_FIELDS, lanes);
        W box[BOUNDS_FIELDS] = {W::of(extent.reach_squared),
                                W::of(reach_y),
                                W::of(extent.extreme_y),
                                W::of(extent.pad_x),
                                W::of(tile_x0),
                                W::of(tile_y0),
                                W::of(tile_x1),
                                W::of(tile_y1)};
        store_rows<BOUNDS_FIELDS>(box, reinterpret_cast<T*>(bounds + first), BOUNDS_FIELDS, lanes);
        alignas(64) T area[LANES];
        M::store(area, (tile_x1 - tile_x0) * (tile_y1 - tile_y0));
        for (int lane = 0; lane < lanes; ++lane) areas[first + lane] = int32_t(area[lane]);
        alignas(64) T depths[LANES];
        alignas(64) typename M::Int drawable[LANES];
        M::store(depths, depth.v);
        std::memcpy(drawable, &usable, sizeof usable);
        for (int lane = 0; lane < lanes; ++lane) {
            *next = {SortItem<T>::key_of(depths[lane]), int32_t(first + lane)};
            next += drawable[lane] != 0;
        }
        return next;
    }

    // Writes the splats' depths over the screen; returns which of their slopes are finite.
    SPLAT_FN auto store_planes(int64_t first, int lanes, W depth) const {
        W slope[2];
        load_rows<2>(args.depth_slopes + first * 2, 2, lanes, slope);
        W plane[4] = {depth, slope[0], slope[1], W(T(0))};
        store_rows<4>(plane, reinterpret_cast<T*>(planes + first), 4, lanes);
        return is_finite(slope[0] + slope[1]);
    }

    // Rounds down numbers of 0 or more.
    static SPLAT_FN V whole(V x) {
        using Int = typename VectorOf<int32_t, LANES>::type;
        return __builtin_convertvector(__builtin_convertvector(x, Int), V);
    }

    // features[k] of each splat, for k below the number of channels.
    SPLAT_FN void load_features(int64_t first, int lanes, W* features) const {
        if (args.channels == 3) return load_rows<3>(args.features + first * 3, 3, lanes, features);
        for (int lane = 0; lane < LANES; ++lane)
            for (int k = 0; k < args.channels; ++k)
                features[k].v[lane] = args.features[(first + (lane < lanes ? lane : 0)) * args.channels + k];
    }
};

// ---------------------------------------------------------------------------------------------- 3. cover

// Masks of one splat in one row of tiles. A band is the pixel rows of one row of blocks; all bands at once, one a lane.
template <class T>
struct Cover {
    static constexpr int BANDS = Simd<T>::LANES < BLOCKS ? Simd<T>::LANES : BLOCKS;
    static constexpr int PARTS = BLOCKS / BANDS;
    using M = Simd<T, BANDS>;
    using V = typename M::V;
    using Shape = TileShape<T>;
    using Int = typename VectorOf<int32_t, BANDS>::type;
    using Byte = typename VectorOf<uint8_t, BANDS>::type;

    Int first[PARTS],
        end[PARTS];  // block columns of the image, half open; first = end where a band is not touched

    SPLAT_FN Cover(const Record<T>& r, const Bounds<T>& box, int tile_y, int block_columns) {
        const RowCover<T> splat = {r.mean_x,          r.u_y,       r.v_y,         T(1) / r.u_x,
                                   box.reach_squared, box.reach_y, box.extreme_y, box.pad_x};
        for (int part = 0; part < PARTS; ++part) {
            V top{};
            for (int lane = 0; lane < BANDS; ++lane)
                top[lane] = T((tile_y * BLOCKS + part * BANDS + lane) * Shape::BLOCK_HEIGHT) + T(0.5);
            top = top - r.mean_y;
            const TouchedCells<M> touched = touched_cells<M>(splat, top, top + T(Shape::BLOCK_HEIGHT - 1),
                                                             T(Shape::BLOCK_WIDTH), block_columns);
            first[part] = __builtin_convertvector(touched.first, Int);
            end[part] = __builtin_convertvector(touched.end, Int);
            const Int mask = __builtin_convertvector(touched.inside, Int);
            end[part] = (end[part] > first[part]) & mask ? end[part] : first[part];
        }
    }

    SPLAT_FN uint64_t mask(int tile_x) const {
        uint64_t bits = 0;
        for (int part = 0; part < PARTS; ++part) {
            const Int from = clamp(first[part] - tile_x * BLOCKS), to = clamp(end[part] - tile_x * BLOCKS);
            const Int one = Int{} + 1;
            const Int columns = (one << to) - (one << from);
            const Byte row = __builtin_convertvector(columns, Byte);
            uint64_t packed = 0;
            std::memcpy(&packed, &row, sizeof row);
            bits |= packed << (8 * BANDS * part);
        }
        return bits;
    }

    static SPLAT_FN Int clamp(Int x) {
        x = x > 0 ? x : Int{};
        return x < BLOCKS ? x : Int{} + BLOCKS;
    }
};

// ---------------------------------------------------------------------------------------------- all phases

template <class T>
struct Binner {
    const RasterizeFwdArgs<T>& args;
    Context* saved;
    Context* scratch;
    int tiles_x, tiles_y;
    int threads;
    int64_t tiles = int64_t(tiles_x) * tiles_y;

    Record<T>* records = nullptr;
    DepthPlane<T>* planes = nullptr;  // or null: not asked for
    Bounds<T>* bounds = nullptr;
    int32_t* areas = nullptr;  // [count] tiles in each splat's rectangle: how many pairs it makes at most
    SortItem<T>* items = nullptr;
    SortItem<T>* swap = nullptr;
    Buffer<int32_t> sort_counts{};
    int64_t* starts = nullptr;   // [threads + 1] first slot of each thread's list of pairs
    int64_t* lengths = nullptr;  // [threads] pairs in each list
    int32_t* counts = nullptr;   // [threads][tiles] pairs of a thread in a tile, then cursors
    int64_t drawn = 0;           // splats that were not dropped

    static constexpr int64_t LEAST = 2048;  // splats a thread, below which a thread costs more than it saves

    template <class U>
    bool reserve(Context* context, int slot, int64_t count, U*& memory) {
        memory = static_cast<U*>(context_reserve(context, slot, size_t(count > 0 ? count : 1) * sizeof(U)));
        return memory != nullptr;
    }

    int run() {
        const int64_t count = args.count;
        if (!reserve(saved, SAVED_RECORDS, count, records) ||
            !reserve(scratch, SCRATCH_BOUNDS, count, bounds) ||
            !reserve(scratch, SCRATCH_AREAS, count, areas) ||
            !reserve(scratch, SCRATCH_ITEMS, count, items) ||
            !reserve(scratch, SCRATCH_ITEMS_SWAP, count, swap) ||
            !reserve(scratch, SCRATCH_COUNTS, tiles * threads, counts) ||
            !reserve(scratch, SCRATCH_THREADS, 2 * threads + 1, starts))
            return out_of_memory();
        if (args.depth_slopes && !reserve(saved, SAVED_PLANES, count, planes)) return out_of_memory();
        lengths = starts + threads + 1;
        prepare();
        if (!sort_items(items, swap, drawn, threads, sort_counts)) return out_of_memory();
        return cover_and_scatter();
    }

    int out_of_memory() {
        return fail(STATUS_OUT_OF_MEMORY, "no memory to bin %lld splats", (long long)args.count);
    }

    void prepare() {
        const Preparer<T> prepare_vector{args, records, planes, bounds, areas, tiles_x, tiles_y};
        constexpr int LANES = Preparer<T>::LANES;
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(args.count, thread, parts, LANES);
            SortItem<T>* next = items + range.begin;
            for (int64_t i = range.begin; i < range.end; i += LANES)
                next = prepare_vector(i, range.end - i < LANES ? int(range.end - i) : LANES, next);
            lengths[thread] = next - (items + range.begin);
        });
        drawn = 0;
        for (int thread = 0; thread < threads; ++thread) {
            const SortItem<T>* const list = items + split(args.count, thread, threads, LANES).begin;
            std::memmove(items + drawn, list, size_t(lengths[thread]) * sizeof *list);
            drawn += lengths[thread];
        }
    }

    int cover_and_scatter() {
        on_threads(threads, [&](int thread, int parts) {
            const Range range = split(drawn, thread, parts);
            int64_t bound = 0;
            for (int64_t rank = range.begin; rank < range.end; ++rank) bound += areas[items[rank].index];
            starts[thread + 1] = bound;
        });
        starts[0] = 0;
        for (int thread = 0; thread < threads; ++thread) starts[thread + 1] += starts[thread];
        Pair* pairs;
        if (!reserve(scratch, SCRATCH_PAIRS, starts[threads], pairs)) return out_of_memory();
        on_threads(threads, [&](int thread, int parts) {
            lengths[thread] =
                cover(split(drawn, thread, parts), counts + thread * tiles, pairs + starts[thread]);
        });
        int64_t* tile_starts;
        int64_t* tile_costs;
        if (!reserve(saved, SAVED_TILE_STARTS, tiles + 1, tile_starts) ||
            !reserve(saved, SAVED_TILE_COSTS, tiles, tile_costs))
            return out_of_memory();
        int64_t total = 0;
        for (int64_t tile = 0; tile < tiles; ++tile) {
            tile_starts[tile] = total;
            for (int thread = 0; thread < threads; ++thread) {
                const int32_t here = counts[thread * tiles + tile];
                counts[thread * tiles + tile] = int32_t(total - tile_starts[tile]);
                total += here;
            }
        }
        tile_starts[tiles] = total;
        Pair* placed;
        if (!reserve(saved, SAVED_PAIRS, total, placed)) return out_of_memory();
        on_threads(threads, [&](int thread, int) {
            int32_t* cursor = counts + thread * tiles;
            const Pair* list = pairs + starts[thread];
            for (int64_t k = 0; k < lengths[thread]; ++k) {
                const int64_t slot = tile_starts[list[k].tile] + cursor[list[k].tile]++;
                placed[slot] = list[k];
            }
        });
        return STATUS_OK;
    }

    // Lists the pairs of splats [range) in depth order, and counts them by tile; returns their number.
    int64_t cover(Range range, int32_t* tile_counts, Pair* list) const {
        std::memset(tile_counts, 0, size_t(tiles) * sizeof(int32_t));
        const int block_columns = (args.width + TileShape<T>::BLOCK_WIDTH - 1) / TileShape<T>::BLOCK_WIDTH;
        Pair* next = list;
        for (int64_t rank = range.begin; rank < range.end; ++rank) {
            constexpr int AHEAD = 8;  // splats in depth order lie anywhere in memory
            if (rank + AHEAD < range.end) {
                __builtin_prefetch(&records[items[rank + AHEAD].index]);
                __builtin_prefetch(&bounds[items[rank + AHEAD].index]);
            }
            const int32_t splat = items[rank].index;
            const Bounds<T>& box = bounds[splat];
            const int tile_x0 = int(box.tile_x0), tile_x1 = int(box.tile_x1), tile_y1 = int(box.tile_y1);
            for (int tile_y = int(box.tile_y0); tile_y < tile_y1; ++tile_y) {
                const Cover<T> row(records[splat], box, tile_y, block_columns);
                for (int tile_x = tile_x0; tile_x < tile_x1; ++tile_x) {
                    const uint64_t mask = row.mask(tile_x);
                    const int32_t tile = tile_y * tiles_x + tile_x;
                    *next = {mask, splat, tile};
                    next += mask != 0;
                    tile_counts[tile] += mask != 0;
                }
            }
        }
        return next - list;
    }
};

template <class T>
int run_bin(const RasterizeFwdArgs<T>& args, Context* saved) {
    using Shape = TileShape<T>;
    const ContextOwner scratch(CONTEXT_FORWARD_SCRATCH);
    if (!scratch.get()) return fail(STATUS_OUT_OF_MEMORY, "no memory for a scratch context");
    const int64_t useful = args.count / Binner<T>::LEAST;
    return Binner<T>{args,
                     saved,
                     scratch.get(),
                     tiles_along(args.width, Shape::WIDTH),
                     tiles_along(args.height, Shape::HEIGHT),
                     useful < 1                ? 1
                     : useful < thread_count() ? int(useful)
                                               : thread_count()}
        .run();
}

}  // namespace

int bin_splats(const RasterizeFwdArgs<float>& args, Context* saved) { return run_bin(args, saved); }
int bin_splats(const RasterizeFwdArgs<double>& args, Context* saved) { return run_bin(args, saved); }

SPLAT_END_ISA
