"""The operations that higher layers call: on a relation (``Adjacency``), expressions and tensors."""

from .attention import Attention, Score, attention, attention_weights, attention_with_edges
from .biases import Activation, slope_of
from .degrees import DEGREE_SCALES, degree_scale, edges_but_loops, note_in_edges, require_in_edges
from .epilogue import is_one_kernel, spmm_epilogue, spmm_then
from .epilogue_plan import After
from .grouped import Groups, group_rows, grouped_mm, grouped_outer
from .rows import RowIndex, take_rows
from .scores import can_defer_scores, edge_scores, edge_softmax, is_fused_attention
from .segments import TracedSegments, is_program_of, segment_reduce, segment_softmax, segments
from .several import spmm_several
from .sparse import sddmm, spmm
from .traced import reversed_of
