// Attention, the backward phases: the members of Attention (attention.cuh) that compute gradients.

namespace dg {

// -- gradients of additive scores -----------------------------------------------------------------------------------
// Teams take whole rows: nothing here grows with the number of entries.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::additive_destination() const {
    Values grad, other;
    read(is.grad + work.row * width(), grad, !empty());
    read(is.out + work.row * width(), other, !empty());
    const compute product = dot(grad, other);
    read(is.sloped_out + work.row * width(), other, !empty());
    const compute sloped = dot(grad, other);
    if (!first_lane()) return;
    const long long place = work.row * is.heads + head;
    compute* state = is.state + work.row * 3 * is.heads + head;
    state[0] = is.log_sum[place];
    state[is.heads] = product;
    state[2 * is.heads] = load1(is.right + work.row * is.right_stride + head);
    const compute change = empty() ? compute(0) : sloped - product * is.sloped_sum[place];
    is.right_grad[work.row * is.right_grad_stride + head] = change;
}

ATTENTION_PARAMETERS
__device__ inline void ATTENTION::additive_source() const {
    const compute near = empty() ? compute(0) : load1(is.left + work.row * is.left_stride + head);
    Values x, sum, sloped;
    if (WEIGHT_GRADIENT) read(is.x + work.row * is.x_stride, x, !empty());
    clear(sum);
    clear(sloped);
    compute lost = 0;
    for (long long start = work.first; any(start < work.last); start += S * AHEAD) {
        const Entries these = entries(start);
        Values grad[AHEAD];
        compute shift[AHEAD], product[AHEAD], right[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const compute* state = is.state + these.far[a] * 3 * is.heads + head;
            shift[a] = load_early1(state);
            product[a] = load_early1(state + is.heads);
            right[a] = load_early1(state + 2 * is.heads);
            read(is.grad + these.far[a] * width(), grad[a], these.inside[a]);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const compute raw = near + right[a], slant = steep(raw);
            const compute value = these.inside[a] ? exp(raw * slant - shift[a]) : compute(0);
            const compute plain = value * these.kept[a], weight = plain * these.weight[a];
            lost += these.inside[a] ? value * slant * product[a] : compute(0);
            add(sum, weight, grad[a]);
            add(sloped, weight * slant, grad[a]);
            if (WEIGHT_GRADIENT) {
                const compute found = plain * dot(grad[a], x);
                if (these.inside[a] && has_head && team.feature % LANES == 0)
                    is.weight_grad[these.edge[a] * is.heads + head] = found;
            }
        }
    }
    gather(sum);
    gather(sloped);
    if (!WEIGHT_GRADIENT) read(is.x + work.row * is.x_stride, x, !empty());
    const compute change = dot(sloped, x) - gather(lost);
    if (whole() && PROJECTED) project(sum, change);
    if (writes()) write(whole() ? is.x_grad + work.row * is.x_grad_stride + head * is.features : share(), sum);
    if (first_lane())
        (whole() ? is.left_grad + work.row * is.left_grad_stride + head : share() + is.features)[0] = change;
}

// What the scores pass on, as a source and as a destination, to the features that they are products of.
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::project(Values& sum, compute change) const {
    const bool near = work.exists && work.row < is.num_right;
    const compute right = near ? is.right_grad[work.row * is.right_grad_stride + head] : compute(0);
    Values vector;
    read(is.attn, vector);
    add(sum, change, vector);
    read(is.attn_right, vector);
    add(sum, right, vector);
}

// -- gradients of scores that are products ----------------------------------------------------------------------------
ATTENTION_PARAMETERS
__device__ inline void ATTENTION::product_destination() const {
    Values near, attn, grad, sum, leaky;
    read(is.right + work.row * is.right_stride, near, !empty());
    if (KIND == GATV2) read(is.attn, attn);
    read(is.grad + work.row * width(), grad, !empty());
    read(is.out + work.row * width(), sum, !empty());
    const compute product = dot(grad, sum);
    const compute shift = empty() ? compute(0) : is.log_sum[work.row * is.heads + head];
    clear(sum);
    clear(leaky);
    for (long long start = work.first; any(start < work.last); start += S * AHEAD) {
        const Entries these = entries(start);
        Values x[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) read(is.x + these.far[a] * is.x_stride, x[a], these.inside[a]);
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const compute scored = score(x[a], near, attn), second = dot(grad, x[a]);
            const compute factor = these.kept[a] * these.weight[a];
            const compute change = these.inside[a] ? exp(scored - shift) * (second * factor - product) : compute(0);
            if (KIND == DOT) {
                add(sum, change * compute(is.score_scale), x[a]);
            } else {
#pragma unroll
                for (int v = 0; v < V; ++v)
#pragma unroll
                    for (int i = 0; i < VEC; ++i) {
                        const compute both = x[a][v][i] + near[v][i], part = change * steep(both);
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
    if (KIND == GATV2)
        write(whole() ? is.attn_grad + work.row * width() + head * is.features : share() + is.features, leaky);
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
    Values x, attn, sum, steeper;
    read(is.x + work.row * is.x_stride, x, !empty());
    if (KIND == GATV2) read(is.attn, attn);
    clear(sum);
    clear(steeper);
    for (long long start = work.first; any(start < work.last); start += S * AHEAD) {
        const Entries these = entries(start);
        Values right[AHEAD], grad[AHEAD];
        compute shift[AHEAD], product[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const compute* state = is.state + these.far[a] * 2 * is.heads + head;
            shift[a] = load_early1(state);
            product[a] = load_early1(state + is.heads);
            read(is.right + these.far[a] * is.right_stride, right[a], these.inside[a]);
            read(is.grad + these.far[a] * width(), grad[a], these.inside[a]);
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            const compute scored = score(right[a], x, attn), second = dot(x, grad[a]);
            const compute value = these.inside[a] ? exp(scored - shift[a]) : compute(0);
            const compute factor = these.kept[a] * these.weight[a];
            const compute change = these.inside[a] ? value * (second * factor - product[a]) : compute(0);
            if (WEIGHT_GRADIENT && these.inside[a] && has_head && team.feature % LANES == 0)
                is.weight_grad[these.edge[a] * is.heads + head] = value * second * these.kept[a];
            add(sum, value * factor, grad[a]);
            if (KIND == DOT) {
                add(sum, change * compute(is.score_scale), right[a]);
            } else {
#pragma unroll
                for (int v = 0; v < V; ++v)
#pragma unroll
                    for (int i = 0; i < VEC; ++i) steeper[v][i] += change * steep(right[a][v][i] + x[v][i]);
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
