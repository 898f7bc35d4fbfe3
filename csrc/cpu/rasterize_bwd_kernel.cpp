// Backward rasterizer: replays each macro tile from front to back with the forward's decisions.
//
// What lies behind a splat is total - prefix, the total taken from the forward's image, so nothing but T and one number
// are carried along a ray. As in the forward, alphas come first for a batch of
// pairs. For each pair the derivative sums of all its pixels are kept in registers, reduced over the
// lanes by transposition, and added to the splat's line in the thread's own gradient buffer. Phases:
//   1. each thread replays a run of tiles of equal cost (as the forward counted it): the same split for the same thread
//      count, so results do not depend on timing
//   2. the threads' buffers are added, in the order of the threads, and turned into gradients of the inputs
//
// Where each pixel has its own order (by_ray.h), a block is replayed in three passes: over the candidates, for their alphas;
// along the rays, row by row as the forward left them, which gives each candidate's weight and dL/d(ln alpha) in each lane;
// over the candidates, for the sums.
//
// The sums, and what they become, are in footprint.h. Those of absolute values cost a little, so kernels that make them are
// apart from those that do not.
#include "by_ray.h"
#include "reduce.h"

SPLAT_BEGIN_ISA

namespace {

constexpr int LINE = SUM_LINE;
static_assert(LINE == 16 && SUM_FEATURES + MAX_CHANNELS <= SUM_ABSOLUTE_X, "a line is a cache line in float");

// State of a block's rays. Plain arrays, as they are filled number by number.
template <class T, int C>
struct alignas(64) BackwardBlock {
    static constexpr int LANES = Simd<T>::LANES;
    T transmittance[LANES];
    T behind[LANES];  // what everything not yet passed adds to the loss
    T v_image[C][LANES];
};

template <class T, int C, bool ABSOLUTE>
struct BackwardRaster {
    using M = Simd<T>;
    using V = typename M::V;
    static constexpr int SUMS = ABSOLUTE ? SUM_LINE : SUM_FEATURES + C;

    const RasterizeBwdArgs<T>& args;
    const Binned<T> binned;

    void replay_tile(const Tile<T>& tile, int64_t index, BackwardBlock<T, C>* blocks, Batch<T>& batch,
                     T* lines) const {
        uint64_t alive = tile.blocks_inside();
        const int64_t end = binned.tile_starts[index + 1];
        for (int64_t pair = binned.tile_starts[index]; pair < end && alive;) {
            pair = batch.fill(binned, tile, pair, end, alive, [&](int32_t splat) SPLAT_INLINE {
                __builtin_prefetch(&binned.records[splat]);
                __builtin_prefetch(lines + int64_t(splat) * LINE, 1);
            });
            int entry = 0;
            for (int taken = 0; taken < batch.pairs; ++taken) {
                const int32_t splat = batch.splats[taken];
                const Record<T>& record = binned.records[splat];
                const Footprint<T> footprint(record);
                V sums[SUMS] = {};
                for (; entry < batch.ends[taken]; ++entry) {
                    const int block = batch.blocks[entry];
                    if (SPLAT_UNLIKELY(!replay_block(footprint, record, tile, block, batch.alphas[entry],
                                                     blocks[block], sums)))
                        alive &= ~(uint64_t(1) << block);
                }
                add_lane_sums<T, SUMS>(sums, lines + int64_t(splat) * LINE);
            }
        }
    }

    SPLAT_FN bool replay_block(const Footprint<T>& footprint, const Record<T>& record, const Tile<T>& tile,
                               int block, V alpha, BackwardBlock<T, C>& state, V* sums) const {
        V u, v;
        footprint.offsets(tile.center_x[block % BLOCKS], tile.center_y[block / BLOCKS], u, v);
        const Blend<M> step = blend<M>(alpha, M::load(state.transmittance));
        M::store(state.transmittance, step.transmittance);
        V own = V{};
        for (int k = 0; k < C; ++k) {
            const V v_image = M::load(state.v_image[k]);
            own += v_image * record.features[k];
            sums[SUM_FEATURES + k] += step.weight * v_image;
        }
        const V behind = M::load(state.behind) - step.weight * own;
        M::store(state.behind, behind);
        const V g = log_alpha_gradient<M>(step, alpha, own, behind);
        add_shape(record, u, v, g, sums);
        return M::any(step.transmittance > T(0));
    }

    static SPLAT_FN void add_shape(const Record<T>& record, V u, V v, V g, V* sums) {
        const V gu = g * u, gv = g * v;
        sums[SUM_G] += g;
        sums[SUM_GU] += gu;
        sums[SUM_GV] += gv;
        sums[SUM_GUU] += gu * u;
        sums[SUM_GUV] += gu * v;
        sums[SUM_GVV] += gv * v;
        if constexpr (ABSOLUTE) {
            const V along_y = gu * record.u_y + gv * record.v_y;
            sums[SUM_ABSOLUTE_X] -= M::negative_magnitude(gu);
            sums[SUM_ABSOLUTE_Y] -= M::negative_magnitude(along_y);
        }
    }

    // What a thread needs of a block whose pixels have orders of their own: for each candidate a number in each lane.
    struct RayWork {
        LaneRows<T> alphas, owns, weights, gradients;
        RayWork(Arrays& arrays, int64_t most)
            : alphas(arrays, most), owns(arrays, most), weights(arrays, most), gradients(arrays, most) {}
    };

    void replay_tile_by_ray(const Tile<T>& tile, int64_t index, BackwardBlock<T, C>* blocks,
                            const RayRows<T>& rows, const RayWork& work, T* lines) const {
        for (uint64_t left = tile.blocks_inside(); left; left &= left - 1) {
            const int block = __builtin_ctzll(left);
            const typename RayRows<T>::Block& part = rows.blocks[index * TILE_BLOCKS + block];
            const int32_t* const splats = rows.candidates + part.first;
            const int64_t count = part.walked.candidates;
            look_at_candidates(tile, block, splats, count, blocks[block], work, lines);
            replay_rays(rows, part, blocks[block], work);
            for (int64_t place = 0; place < count; ++place)
                add_candidate(tile, block, splats[place], place, blocks[block], work, lines);
        }
    }

    void look_at_candidates(const Tile<T>& tile, int block, const int32_t* splats, int64_t count,
                            const BackwardBlock<T, C>& state, const RayWork& work, const T* lines) const {
        V v_image[C];
        for (int k = 0; k < C; ++k) v_image[k] = M::load(state.v_image[k]);
        for (int64_t place = 0; place < count; ++place) {
            const Record<T>& record = binned.records[splats[place]];
            __builtin_prefetch(lines + int64_t(splats[place]) * LINE, 1);
            V u, v, own = V{};
            Footprint<T>(record).offsets(tile.center_x[block % BLOCKS], tile.center_y[block / BLOCKS], u, v);
            for (int k = 0; k < C; ++k) own += v_image[k] * record.features[k];
            work.alphas.store(place, drawn_alpha<M>(M::broadcast(record.log2_opacity), u, v));
            work.owns.store(place, own);
            work.weights.store(place, V{});
            work.gradients.store(place, V{});
        }
    }

    void replay_rays(const RayRows<T>& rows, const typename RayRows<T>::Block& part,
                     const BackwardBlock<T, C>& state, const RayWork& work) const {
        V transmittance = M::load(state.transmittance), behind = M::load(state.behind);
        for (int64_t row = 0; row < part.walked.rows; ++row) {
            const typename M::I here = rows.load(part.first + row);
            const V alpha = work.alphas.gather(here), own = work.owns.gather(here);
            const Blend<M> step = blend<M>(alpha, transmittance);
            transmittance = step.transmittance;
            behind = behind - step.weight * own;
            work.weights.scatter(here, step.weight);
            work.gradients.scatter(here, log_alpha_gradient<M>(step, alpha, own, behind));
        }
    }

    void add_candidate(const Tile<T>& tile, int block, int32_t splat, int64_t place,
                       const BackwardBlock<T, C>& state, const RayWork& work, T* lines) const {
        const Record<T>& record = binned.records[splat];
        V u, v, sums[SUMS] = {};
        Footprint<T>(record).offsets(tile.center_x[block % BLOCKS], tile.center_y[block / BLOCKS], u, v);
        const V weight = work.weights.load(place);
        for (int k = 0; k < C; ++k) sums[SUM_FEATURES + k] = weight * M::load(state.v_image[k]);
        add_shape(record, u, v, work.gradients.load(place), sums);
        add_lane_sums<T, SUMS>(sums, lines + int64_t(splat) * LINE);
    }

    // Numbers are only written here, and read as vectors after the whole tile: a vector read soon after would have to
    // wait until the single numbers have left the store buffer.
    void read_tile(const Tile<T>& tile, BackwardBlock<T, C>* blocks) const {
        for (int block = 0; block < TILE_BLOCKS; ++block) {
            blocks[block] = {};
            for (T& transmittance : blocks[block].transmittance) transmittance = T(-1);
        }
        for (int block = 0; block < TILE_BLOCKS; ++block) {
            BackwardBlock<T, C>& state = blocks[block];
            const BlockPlace place = tile.place(block, args.width);
            if (args.channels == C)
                for_each_pixel<T>(place, [&](int64_t pixel, int lane) { read_pixel(state, pixel, lane, C); });
            else
                for_each_pixel<T>(
                    place, [&](int64_t pixel, int lane) { read_pixel(state, pixel, lane, args.channels); });
        }
    }

    SPLAT_FN void read_pixel(BackwardBlock<T, C>& state, int64_t pixel, int lane, int channels) const {
        // alpha = 1 - T at the end, so dL/dalpha acts as a background of feature -dL/dalpha.
        T total = args.v_alpha ? (args.alpha[pixel] - T(1)) * args.v_alpha[pixel] : T(0);
        for (int k = 0; k < channels; ++k) {
            const T v_image = args.v_image[pixel * channels + k];
            state.v_image[k][lane] = v_image;
            total += v_image * args.image[pixel * channels + k];
        }
        state.transmittance[lane] = T(1);
        state.behind[lane] = total;
    }

    // Tiles [first, last) of a thread: equal shares of the forward's cost.
    void share(int thread, int threads, int64_t& first, int64_t& last) const {
        int64_t total = 0;
        for (int64_t tile = 0; tile < binned.tiles(); ++tile) total += binned.tile_costs[tile] + TILE_COST;
        first = last = 0;
        int64_t before = 0;
        for (int64_t tile = 0; tile < binned.tiles(); ++tile) {
            before += binned.tile_costs[tile] + TILE_COST;
            // The tile belongs to the thread in whose share its end lies.
            const int owner = int((__int128(before) * threads - 1) / total);
            if (owner < thread) first = tile + 1;
            if (owner <= thread) last = tile + 1;
        }
    }

    // Returns a Status.
    int replay_by_ray(const Context* saved, T* lines, int threads) const {
        const int64_t most = saved->numbers[SAVED_RAY_MOST];
        const RayRows<T> rows(saved);
        const ThreadArrays memory(threads, [&](Arrays& arrays) { RayWork(arrays, most); });
        if (!memory)
            return fail(STATUS_OUT_OF_MEMORY, "no memory for the rays of %lld splats", (long long)most);
        on_threads(threads, [&](int thread, int parts) {
            T* mine = lines + int64_t(thread) * args.count * LINE;
            std::memset(mine, 0, size_t(args.count) * LINE * sizeof(T));
            BackwardBlock<T, C> blocks[TILE_BLOCKS];
            Arrays arrays = memory.of(thread);
            const RayWork work(arrays, most);
            int64_t first, last;
            share(thread, parts, first, last);
            for (int64_t index = first; index < last; ++index) {
                const Tile<T> tile(binned, index, args.width, args.height);
                read_tile(tile, blocks);
                replay_tile_by_ray(tile, index, blocks, rows, work, mine);
            }
        });
        return STATUS_OK;
    }

    void replay(T* lines, int threads) const {
        on_threads(threads, [&](int thread, int parts) {
            T* mine = lines + int64_t(thread) * args.count * LINE;
            std::memset(mine, 0, size_t(args.count) * LINE * sizeof(T));
            BackwardBlock<T, C> blocks[TILE_BLOCKS];
            Batch<T> batch;
            batch.work = 0;
            int64_t first, last;
            share(thread, parts, first, last);
            for (int64_t index = first; index < last; ++index) {
                const Tile<T> tile(binned, index, args.width, args.height);
                read_tile(tile, blocks);
                replay_tile(tile, index, blocks, batch, mine);
            }
        });
    }

    // Gradients of the inputs of splats [begin, end) from the threads' sums.
    void finish(int64_t begin, int64_t end, const T* lines, int threads) const {
        for (int64_t i = begin; i < end; ++i) {
            T sum[LINE];
            for (int thread = 0; thread < threads; ++thread)
                __builtin_prefetch(lines + (int64_t(thread) * args.count + i + PREFETCH) * LINE);
            __builtin_prefetch(&binned.records[i + PREFETCH]);
            std::memcpy(sum, lines + i * LINE, sizeof sum);
            for (int thread = 1; thread < threads; ++thread) {
                const T* line = lines + (int64_t(thread) * args.count + i) * LINE;
                for (int k = 0; k < SUMS; ++k) sum[k] += line[k];
            }
            finish_splat(i, sum);
        }
    }

    void finish_splat(int64_t i, const T* sum) const {
        for (int k = 0; k < args.channels; ++k)
            args.v_features[i * args.channels + k] = sum[SUM_FEATURES + k];
        const Record<T>& r = binned.records[i];
        const ConicFactor<T> factor = {r.u_x, r.u_y, r.v_y};
        const SplatGradient<T> v = splat_gradient(factor, args.opacities[i], sum);
        for (int k = 0; k < 2; ++k) args.v_means2d[2 * i + k] = v.mean[k];
        for (int k = 0; k < 3; ++k) args.v_conics[3 * i + k] = v.conic[k];
        args.v_opacities[i] = v.opacity;
        if constexpr (ABSOLUTE) absolute_mean_gradient(factor, sum, args.v_abs_means2d + 2 * i);
    }

    int run(const Context* saved, Context* scratch) const {
        const int threads = thread_count();
        T* lines =
            static_cast<T*>(context_reserve(scratch, 0, size_t(args.count + 1) * threads * LINE * sizeof(T)));
        if (!lines)
            return fail(STATUS_OUT_OF_MEMORY, "no memory for the gradients of %lld splats",
                        (long long)args.count);
        if (binned.planes) {
            if (const int status = replay_by_ray(saved, lines, threads)) return status;
        } else {
            replay(lines, threads);
        }
        parallel_for(args.count, 2048,
                     [&](int64_t begin, int64_t end, int) { finish(begin, end, lines, threads); });
        return STATUS_OK;
    }

    static constexpr int64_t TILE_COST =
        64;  // reading a tile's cotangents costs about as much as this many blocks
};

// dL/dbackground = sum over pixels of T dL/dimage. In double, row by row, so that the thread count does not matter.
template <class T>
int background_gradient(const RasterizeBwdArgs<T>& args) {
    if (!args.v_background) return STATUS_OK;
    Buffer<double> rows;
    if (!rows.resize(int64_t(args.height) * args.channels))
        return fail(STATUS_OUT_OF_MEMORY, "no memory for row sums");
    parallel_for(args.height, 16, [&](int64_t begin, int64_t end, int) {
        for (int64_t y = begin; y < end; ++y) {
            double* row = rows.data + y * args.channels;
            for (int k = 0; k < args.channels; ++k) row[k] = 0;
            for (int64_t pixel = y * args.width; pixel < (y + 1) * args.width; ++pixel)
                for (int k = 0; k < args.channels; ++k)
                    row[k] +=
                        double(T(1) - args.alpha[pixel]) * double(args.v_image[pixel * args.channels + k]);
        }
    });
    for (int k = 0; k < args.channels; ++k) {
        double sum = 0;
        for (int64_t y = 0; y < args.height; ++y) sum += rows[y * args.channels + k];
        args.v_background[k] = T(sum);
    }
    return STATUS_OK;
}

template <class T>
int run_bwd(const RasterizeBwdArgs<T>& args) {
    const Context* saved = static_cast<const Context*>(args.context);
    if (!saved) return fail(STATUS_BAD_ARGUMENT, "the forward's context is null");
    const int64_t* numbers = saved->numbers;
    if (numbers[SAVED_COUNT] != args.count || numbers[SAVED_WIDTH] != args.width ||
        numbers[SAVED_HEIGHT] != args.height || numbers[SAVED_CHANNELS] != args.channels ||
        numbers[SAVED_SCALAR_BYTES] != int64_t(sizeof(T)))
        return fail(STATUS_BAD_ARGUMENT, "the context is of a forward with other sizes or types");
    if (!args.v_image || !args.image || !args.alpha)
        return fail(STATUS_BAD_ARGUMENT, "v_image, image or alpha is null");
    if (args.count &&
        (!args.opacities || !args.v_means2d || !args.v_conics || !args.v_opacities || !args.v_features))
        return fail(STATUS_BAD_ARGUMENT, "an array is null");
    const ContextOwner scratch(CONTEXT_BACKWARD_SCRATCH);
    if (!scratch.get()) return fail(STATUS_OUT_OF_MEMORY, "no memory for a scratch context");
    const int status = with_channels(args.channels, [&](auto channels) {
        constexpr int C = decltype(channels)::VALUE;
        if (args.v_abs_means2d)
            return BackwardRaster<T, C, true>{args, binned_view<T>(saved)}.run(saved, scratch.get());
        return BackwardRaster<T, C, false>{args, binned_view<T>(saved)}.run(saved, scratch.get());
    });
    return status ? status : background_gradient(args);
}

}  // namespace

int rasterize_bwd(const RasterizeBwdArgs<float>& args) { return run_bwd(args); }
int rasterize_bwd(const RasterizeBwdArgs<double>& args) { return run_bwd(args); }

SPLAT_END_ISA
