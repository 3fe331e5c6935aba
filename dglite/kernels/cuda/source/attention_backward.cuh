// Attention, the backward phases: the members of Attention (attention.cuh) that compute gradients.

namespace dg {

// -- gradients of additive scores -----------------------------------------------------------------------------------
// Teams take whole rows: nothing here grows with the number of entries.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::additive_destination() const {
    const bool idle = empty();
    const long long at = idle ? 0 : work.row * width() + head * is.features;
    Values grad, other;
    read(is.grad + at, grad, !idle);
    read(is.out + at, other, !idle);
    const compute product = dot(grad, other);
    read(is.sloped_out + at, other, !idle);
    const compute sloped = dot(grad, other);
    if (idle || own) return;
    const long long place = work.row * is.heads + head;
    compute* state = is.state + work.row * 3 * is.heads + head;
    state[0] = is.log_sum[place];
    state[is.heads] = product;
    state[2 * is.heads] = load1(is.right + work.row * is.right_stride + head);
    is.right_grad[work.row * is.right_grad_stride + head] = sloped - product * is.sloped_sum[place];
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::additive_source() const {
    const compute near = empty() ? compute(0) : load1(is.left + work.row * is.left_stride + head);
    Values x, sum, sloped;
    read(is.x + work.row * is.x_stride + head * is.features, x, !empty());
    clear(sum);
    clear(sloped);
    compute lost = 0;
    for (long long start = work.first; any(start < work.last); start += L) {
        const Entry mine = entry(start);
        compute plain = 0, slant = 0;
        if (mine.inside) {
            const compute* state = is.state + mine.far * 3 * is.heads + head;
            const compute raw = near + state[2 * is.heads];
            slant = steep(raw);
            plain = exp(raw * slant - state[0]);
            lost += plain * slant * state[is.heads];
        }
        plain *= mine.kept;
        const compute weight = plain * mine.weight;
#pragma unroll 4
        for (int step = 0; step < F; ++step) {
            const int from = step * S + team.entry;
            const bool inside = start + from < work.last;
            const long long far = from_lane(mine.far, base + from);
            const compute share = from_lane(weight, base + from), steeper = from_lane(weight * slant, base + from);
            Values grad;
            read(is.grad + far * width() + head * is.features, grad, inside);
            add(sum, share, grad);
            add(sloped, steeper, grad);
            if (WEIGHT_GRADIENT) {
                const compute found = from_lane(plain, base + from) * dot(grad, x);
                const long long edge = from_lane(mine.edge, base + from);
                if (inside && team.feature == 0) is.weight_grad[edge * is.heads + head] = found;
            }
        }
    }
    gather(sum);
    gather(sloped);
    const compute change = dot(sloped, x) - sum_across<1, L>(lost);
    if (whole() && PROJECTED) project(sum, change);
    if (writes()) write(whole() ? is.x_grad + work.row * is.x_grad_stride + head * is.features : share(), sum);
    if (first_lane())
        (whole() ? is.left_grad + work.row * is.left_grad_stride + head : share() + is.features)[0] = change;
}

// What the scores pass on, as a source and as a destination, to the features that they are products of.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::project(Values& sum, compute change) const {
    const bool near = !empty() && work.row < is.num_right;
    const compute right = near ? is.right_grad[work.row * is.right_grad_stride + head] : compute(0);
    Values vector;
    read(is.attn + head * is.features, vector);
    add(sum, change, vector);
    read(is.attn_right + head * is.features, vector);
    add(sum, right, vector);
}

// -- gradients of scores that are products ----------------------------------------------------------------------------
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::product_destination() const {
    const long long at = work.row * width() + head * is.features;
    Values near, attn, grad, x;
    read(is.right + work.row * is.right_stride + head * is.features, near, !empty());
    if (KIND == GATV2) read(is.attn + head * is.features, attn);
    read(is.grad + at, grad, !empty());
    read(is.out + at, x, !empty());
    const compute product = dot(grad, x);
    const compute shift = empty() ? compute(0) : is.log_sum[work.row * is.heads + head];
    Values sum, leaky;
    clear(sum);
    clear(leaky);
    for (long long start = work.first; any(start < work.last); start += L) {
        const Entry mine = entry(start);
        const compute factor = mine.kept * mine.weight;
#pragma unroll 2
        for (int step = 0; step < F; ++step) {
            const int from = step * S + team.entry;
            const bool inside = start + from < work.last;
            const long long far = from_lane(mine.far, base + from);
            const compute multiplier = from_lane(factor, base + from);
            read(is.x + far * is.x_stride + head * is.features, x, inside);
            const compute found = score(x, near, attn), second = dot(grad, x);
            const compute change = inside ? exp(found - shift) * (second * multiplier - product) : compute(0);
            if (KIND == DOT) {
                add(sum, change * compute(is.score_scale), x);
            } else {
#pragma unroll
                for (int v = 0; v < V; ++v)
#pragma unroll
                    for (int i = 0; i < VEC; ++i) {
                        const compute both = x[v][i] + near[v][i], part = change * steep(both);
                        sum[v][i] += part;
                        leaky[v][i] += part * both;
                    }
            }
        }
    }
    gather(sum);
    if (KIND == GATV2) {
        gather(leaky);
        times(sum, attn);
    }
    if (first_lane()) {  // every chunk finds the same
        compute* state = is.state + work.row * 2 * is.heads + head;
        state[0] = shift;
        state[is.heads] = product;
    }
    if (!writes()) return;
    write(whole() ? is.right_grad + work.row * is.right_grad_stride + head * is.features : share(), sum);
    if (KIND == GATV2) write(whole() ? is.attn_grad + at : share() + is.features, leaky);
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::times(Values& values, const Values& others) {
#pragma unroll
    for (int v = 0; v < V; ++v)
#pragma unroll
        for (int i = 0; i < VEC; ++i) values[v][i] *= others[v][i];
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::product_source() const {
    Values own_x, attn, sum, steeper;
    read(is.x + work.row * is.x_stride + head * is.features, own_x, !empty());
    if (KIND == GATV2) read(is.attn + head * is.features, attn);
    clear(sum);
    clear(steeper);
    for (long long start = work.first; any(start < work.last); start += L) {
        const Entry mine = entry(start);
        compute shift = 0, product = 0;
        if (mine.inside) {
            const compute* state = is.state + mine.far * 2 * is.heads + head;
            shift = state[0];
            product = state[is.heads];
        }
#pragma unroll 2
        for (int step = 0; step < F; ++step) {
            const int from = step * S + team.entry;
            const bool inside = start + from < work.last;
            const long long far = from_lane(mine.far, base + from);
            const compute kept = from_lane(mine.kept, base + from), weight = from_lane(mine.weight, base + from);
            Values right, grad;
            read(is.right + far * is.right_stride + head * is.features, right, inside);
            read(is.grad + far * width() + head * is.features, grad, inside);
            const compute found = score(right, own_x, attn), second = dot(own_x, grad);
            const compute lower = from_lane(shift, base + from), less = from_lane(product, base + from);
            const compute value = inside ? exp(found - lower) : compute(0);
            const compute change = value * (second * kept * weight - less);
            if (WEIGHT_GRADIENT) {
                const long long edge = from_lane(mine.edge, base + from);
                if (inside && team.feature == 0) is.weight_grad[edge * is.heads + head] = value * second * kept;
            }
            add(sum, value * kept * weight, grad);
            if (KIND == DOT) {
                add(sum, change * compute(is.score_scale), right);
            } else {
#pragma unroll
                for (int v = 0; v < V; ++v)
#pragma unroll
                    for (int i = 0; i < VEC; ++i) steeper[v][i] += change * steep(right[v][i] + own_x[v][i]);
            }
        }
    }
    if (KIND == GATV2) {
        times(steeper, attn);
        add(sum, compute(1), steeper);
    }
    gather(sum);
    if (writes()) write(whole() ? is.x_grad + work.row * is.x_grad_stride + head * is.features : share(), sum);
}

// Add up what the chunks of the long rows leave. SOURCE: at sources, else at destinations.
ATTENTION_PARAMETERS template <bool SOURCE>
__device__ inline void ATTENTION::merge_backward(const AttentionArguments<item, index>& is, const index* long_rows,
                                                 const index* long_chunks, long long num_long) {
    const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x, width = is.heads * is.features;
    const long long number = element / width, head = element % width / is.features, k = element % is.features;
    if (number >= num_long || long_chunks[number] == long_chunks[number + 1]) return;
    const long long row = long_rows[number];
    compute sum = 0, other = 0;  // other: of the score at sources (one for the head), of attn at destinations
    for (long long chunk = long_chunks[number]; chunk < long_chunks[number + 1]; ++chunk) {
        const compute* share = is.partial + (chunk * is.heads + head) * is.partial_stride;
        sum += share[k];
        if (SOURCE && KIND == ADDITIVE) other += share[is.features];
        if (!SOURCE && KIND == GATV2) other += share[is.features + k];
    }
    const long long column = head * is.features + k;
    if (!SOURCE) {
        is.right_grad[row * is.right_grad_stride + column] = sum;
        if (KIND == GATV2) is.attn_grad[row * width + column] = other;
        return;
    }
    if (KIND == ADDITIVE && PROJECTED) {
        sum += other * load1(is.attn + column);
        if (row < is.num_right)
            sum += is.right_grad[row * is.right_grad_stride + head] * load1(is.attn_right + column);
    }
    is.x_grad[row * is.x_grad_stride + column] = sum;
    if (KIND == ADDITIVE && k == 0) is.left_grad[row * is.left_grad_stride + head] = other;
}

// Add up the heads' shares of each edge weight's gradient.
template <class compute>
__device__ inline void add_heads(const compute* shares, compute* out, long long num_edges, long long heads) {
    const long long edge = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (edge >= num_edges) return;
    compute total = 0;
    for (long long head = 0; head < heads; ++head) total += shares[edge * heads + head];
    out[edge] = total;
}

template <class compute>
__device__ inline void dropout_multipliers(compute* out, long long num_edges, long long heads, const Dropout& dropout) {
    const long long element = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (element >= num_edges * heads) return;
    out[element] = dropout.multiplier<compute>(element / heads, int(element % heads));
}

}  // namespace dg
