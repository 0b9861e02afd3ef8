"""The operators of one step on one device: blocks, norms, residual additions, and the collectives between them."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

from roofline.blocks.base import Block, BlockContext
from roofline.blocks.model import LayerType, Model
from roofline.dtypes import Dtypes, Precision, parse_dtype
from roofline.graph.altup import AltUp
from roofline.graph.sharding import Stage, device_tokens, shard_block, stages, stream_tokens
from roofline.numeric import Expr, ceil_div, minimum, ratio
from roofline.operators.activation import Activation
from roofline.operators.add import Add
from roofline.operators.base import Operator
from roofline.operators.collectives import AllGather, AllReduce, AllToAll, ExpertRouting, ReduceScatter, SendRecv
from roofline.operators.copy import Copy
from roofline.operators.embedding import Embedding
from roofline.operators.gemm import Gemm
from roofline.operators.grouped_gemm import expert_load_imbalance
from roofline.operators.hyper_connections import HyperCollapse, HyperExpand
from roofline.operators.norm import Norm
from roofline.operators.sampling import Sampling
from roofline.specs.deployment import Deployment
from roofline.specs.workload import Segment, Step, merged, sequences, tokens

Graph = dict[str, tuple[Operator, Expr]]


def build(
    model: Model,
    deployment: Deployment,
    precision: Precision,
    step: Step,
    stage: Stage | None = None,
    *,
    per_replica: bool = False,
) -> Graph:
    """The operators of one step on one device of a stage.

    Args:
        model: its layers, and what stands around them.
        deployment: parallel sizes and conventions; sizes that do not work are refused by `check_parallel`, not here.
        precision: formats of weights by role, activations, KV cache and state.
        step: segments of the whole deployment; the device is one of the fullest replica.
        stage: layers of one pipeline stage (default: the whole model as one stage).
        per_replica: the step is that of every replica, not of the deployment.

    Returns:
        Operators with the number of layers of the stage that run them, by path: `layers/attention/core`, or
        `layers/<type>/...` where a model has several types of layers.
    """
    stage = stage or stages(model, 1)[0]
    if len(step) > 1 and all(isinstance(segment.count, int) for segment in step):
        step = merged(step)  # equal segments are one kernel's work, and would have one name
    dp, tp = deployment.data_parallel_size, deployment.tensor_parallel_size
    # The experts on a device see the tokens of all replicas that share them.
    sharing = max(deployment.expert_devices // tp, 1)
    if per_replica or dp == 1:
        expert_tokens = tokens(step) * sharing
    else:
        expert_tokens = sum(_dealt(segment.count, dp, sharing) * segment.new for segment in step)
        step = tuple(replace(segment, count=ceil_div(segment.count, dp)) for segment in step)
    if deployment.context_parallel_size > 1:
        expert_tokens = device_tokens(step, deployment)  # which no other replica's device shares
    builder = _Builder(model, deployment, precision, step, expert_tokens)
    graph: Graph = {}
    if stage.first:
        graph |= builder.inputs()
    for name, count in stage.layers:
        prefix = "layers" if len(model.layer_types) == 1 else f"layers/{name}"
        operators = builder.of_layer(name).layer(model.layer_types[name])
        graph |= {f"{prefix}/{path}": (op, count) for path, op in operators.items()}
    if stage.last:
        graph |= builder.outputs(shares_device=stage.first)
    else:
        # NB: each of the t devices of the stage sends its own copy of the stream to its peer, as engines do, and the
        # inputs of all layers with it.
        span = 2 * tp * deployment.context_parallel_size
        sent = builder.stream_tokens * model.stream_width
        graph["send"] = (SendRecv(elements=sent, span=span, dtypes=builder.vector), 1)
    return graph


def _dealt(count: Expr, replicas: int, group: int) -> Expr:
    """Sequences that the fullest `group` of the replicas have, when `count` are dealt round.

    Each replica has q = floor(count/replicas), and the first of them one more, until all are dealt.

    >>> [_dealt(5, 4, group) for group in (1, 2, 4)]  # 2, 1, 1, 1
    [2, 3, 5]
    """
    each = ceil_div(count - replicas + 1, replicas)
    return minimum(group * ceil_div(count, replicas), count - each * (replicas - group))


class _Builder:
    """The parts of a step on one device."""

    def __init__(self, model: Model, deployment: Deployment, precision: Precision, step: Step, expert_tokens: Expr) -> None:
        self.model, self.deployment, self.precision, self.step = model, deployment, precision, step
        self.tokens = device_tokens(step, deployment)
        self.stream_tokens = stream_tokens(step, deployment)
        self.vector = precision.dtypes("norm")
        self.tp = deployment.tensor_parallel_size
        self.scattered = deployment.sequence_parallel
        self.ep = deployment.expert_parallel_size
        self.exchanged = deployment.expert_devices > self.tp
        self.expert_tokens = expert_tokens

    def of_layer(self, layer_type: str) -> _Builder:
        """The same, with the formats of the layers of one type."""
        precision = self.precision.of_layer(layer_type)
        if precision is self.precision:
            return self
        builder = copy(self)
        builder.precision = precision
        return builder

    def _summed(self, width: int | None = None) -> dict[str, Operator]:
        """Partial sums of the stream, or of something of another width, made whole: to each device, or each its tokens'."""
        if self.tp == 1:
            return {}
        elements = self.tokens * (self.model.hidden_size if width is None else width)
        if self.scattered:
            return {"reduce_scatter": ReduceScatter(elements=elements, world=self.tp, dtypes=self.vector)}
        return {"all_reduce": AllReduce(elements=elements, world=self.tp, dtypes=self.vector)}

    def _gathered(self, path: str) -> dict[str, Operator]:
        """The stream, of which each device has its tokens', to all of them."""
        if not self.scattered:
            return {}
        elements = self.tokens * self.model.hidden_size
        return {f"{path}all_gather": AllGather(elements=elements, world=self.tp, dtypes=self.vector)}

    def inputs(self) -> Graph:
        """Token embedding (divided by rows of the vocabulary), learned positions, and the layers' own embeddings."""
        model, dtypes = self.model, self.precision.dtypes("embedding")
        graph: Graph = {"embedding": (self._table(model.vocab_size, model.embedding_width), 1)}
        graph |= {f"embedding/{name}": (op, 1) for name, op in self._summed(model.embedding_width).items()}
        if model.word_embed_proj_dim is not None:
            graph["project_in"] = (self._projection(self.stream_tokens, model.hidden_size, model.embedding_width), 1)
        if model.ngram_embedders:
            graph |= {f"ngram_embedding{name}": (op, 1) for name, op in self._ngrams().items()}
        if model.learned_positions:
            table = Embedding(
                tokens=self.stream_tokens, width=model.hidden_size, entries=model.learned_positions, dtypes=dtypes
            )
            graph["position_embedding"] = (table, 1)
            graph["position_add"] = (self._add(), 1)
        if model.initial_state:
            vector = Embedding(tokens=1, width=model.hidden_size, entries=1, dtypes=dtypes)
            graph["initial_state"] = (vector, 1)
        if model.embedding_norm:
            norm = self._norm(self.stream_tokens)
            graph["embedding_norm"] = (norm if model.embedding_norm_weight else replace(norm, weight=False), 1)
        if model.hidden_size_per_layer_input:
            graph |= {f"per_layer_embedding{name}": (op, 1) for name, op in self._per_layer_inputs().items()}
        if model.hc_mult is not None:
            # the embedding is the first of the streams; the others are copies that are written from it
            copies = self.stream_tokens * (model.residual_width - model.hidden_size)
            graph["embedding/streams"] = (Copy(elements=copies, read="nothing", dtypes=self.vector), 1)
        if (altup := self._altup()) is not None:
            graph |= {name: (op, 1) for name, op in self._gathered("embedding/altup/").items()}
            graph |= altup.inputs()
        return graph

    def _altup(self) -> AltUp | None:
        """What stands around layers that work on one of several copies of the stream; None where there is one stream."""
        if (streams := self.model.altup_num_inputs) is None:
            return None
        return AltUp(
            streams=streams, width=self.model.hidden_size, tokens=self.stream_tokens, gathered=self.tokens, tp=self.tp,
            precision=self.precision,
        )  # fmt: skip

    def _laurel(self) -> dict[str, Operator]:
        """A second path around the mixer: two matrices of a low rank, which tensor-parallel devices divide, and a norm.

        What it gives is added to the path's own input here, and to the stream with the next norm.

        Source: Menghani et al. 2024, arXiv:2411.07501, LAuReL-LR, as Gemma 3n has it in transformers and in vLLM.
        """
        rank, width, dtypes = self.model.laurel_rank, self.model.hidden_size, self.precision.dtypes("linear/projection")
        if rank is None:
            return {}
        part = ceil_div(rank, self.tp)
        return {
            "laurel/left": Gemm(m=self.tokens, n=part, k=width, dtypes=dtypes),
            "laurel/right": Gemm(m=self.tokens, n=width, k=part, dtypes=dtypes),
            **{f"laurel/{name}": op for name, op in self._summed().items()},
            "laurel/post_norm": self._norm(self.stream_tokens),
            "laurel/add": self._add(),
        }

    def _table(self, entries: int, width: int) -> Embedding:
        """A device's rows of an embedding table. NB: in expectation it holds its share of the tokens' rows."""
        dtypes = self.precision.dtypes("embedding")
        return Embedding(tokens=ratio(self.tokens, self.tp), width=width, entries=ceil_div(entries, self.tp), dtypes=dtypes)

    def _ngrams(self) -> dict[str, Operator]:
        """Embeddings of the last tokens together: a row of each table, projected, and the mean of these and the token's own.

        The tables are divided by rows, the projections are not. NB: the hashes, some integers per token, are not counted.

        Source: Meituan 2026 (LongCat-Flash-Lite), arXiv:2601.21204, section 2, as vLLM has it.
        """
        model, tables, dtypes = self.model, self.model.ngram_embedders, self.precision.dtypes("embedding")
        rows = Embedding(
            tokens=ratio(self.tokens * tables, self.tp), width=model.ngram_width, entries=ceil_div(model.ngram_rows, self.tp),
            dtypes=dtypes,
        )  # fmt: skip
        product = Gemm(m=self.stream_tokens, n=model.hidden_size, k=model.ngram_width, batch=tables, dtypes=dtypes)
        return {
            "": rows,
            **{f"/{name}": op for name, op in self._summed(tables * model.ngram_width).items()},
            "/projection": product,
            "/mean": Add(elements=self.stream_tokens * model.hidden_size, terms=tables + 1, dtypes=self.vector),
        }

    def _projection(self, rows: Expr, n: int, k: int) -> Gemm:
        """A product outside the blocks, which every tensor-parallel device makes for itself."""
        return Gemm(m=rows, n=n, k=k, dtypes=self.precision.dtypes("linear/projection"))

    def _per_layer_inputs(self) -> dict[str, Operator]:
        """An input to each layer: a row of a table for the token, plus a normalised projection of its embedding.

        Source: Gemma 3n model overview, https://ai.google.dev/gemma/docs/gemma-3n, and its code in transformers.
        """
        model, width = self.model, self.model.hidden_size_per_layer_input
        rows, joint = model.per_layer_embedding
        return {
            "": self._table(rows, joint),
            **{f"/{name}": op for name, op in self._summed(joint).items()},
            "/projection": self._projection(self.stream_tokens, joint, model.hidden_size),
            "/norm": Norm(rows=self.stream_tokens * model.num_hidden_layers, width=width, dtypes=self.vector),
            "/add": Add(elements=self.stream_tokens * joint, dtypes=self.vector),
        }

    def outputs(self, *, shares_device: bool) -> Graph:
        """Final norm, LM head (divided by the vocabulary) on the sampled positions, the draw of the next token."""
        model = self.model
        drawn = sequences(self.step)
        positions = drawn if self.deployment.conventions.logits == "last" else self.tokens
        graph: Graph = {}
        if model.hc_mult is not None and model.hc_head == "mean":
            mean = Add(elements=self.stream_tokens * model.hidden_size, terms=model.hc_mult, dtypes=self.vector)
            graph["final_hc_mean"] = (mean, 1)
        elif model.hc_mult is not None:
            graph |= {f"final_{name}": (op, 1) for name, op in self._collapse(model.hc_mult, scales=1).items()}
        if (altup := self._altup()) is not None:
            graph |= {name: (op, 1) for name, op in self._gathered("final_altup/").items()}
            graph |= altup.outputs()
        if model.final_norm:
            graph["final_norm"] = (self._norm(self.stream_tokens), 1)
        graph |= {name: (op, 1) for name, op in self._gathered("final_").items()}
        if model.word_embed_proj_dim is not None:
            graph["project_out"] = (self._projection(positions, model.embedding_width, model.hidden_size), 1)
        graph["lm_head"] = (
            Gemm(
                m=positions,
                n=ceil_div(model.vocab_size, self.tp),
                k=model.embedding_width,
                bias=model.lm_head_bias or model.lm_head_scale,  # a scale of each logit costs as much as a bias
                borrowed=model.tie_word_embeddings and shares_device,
                dtypes=self.precision.dtypes("lm_head"),
            ),
            1,
        )
        if self.tp > 1:
            gather = AllGather(elements=positions * model.vocab_size, world=self.tp, dtypes=self.vector)
            graph["lm_head/all_gather"] = (gather, 1)
        graph["sampling"] = (Sampling(rows=drawn, choices=model.vocab_size, dtypes=self.vector), 1)
        return graph

    def _norm(self, rows: Expr, adds: int = 0) -> Norm:
        norm = self.model.norm
        return Norm(
            rows=rows,
            width=self.model.hidden_size,
            adds=adds,
            function=norm.function,
            bias=norm.bias,
            weight=norm.weight,
            dtypes=self.vector,
        )

    def _collapse(self, coefficients: Expr, *, scales: int, rounds: Expr = 0) -> dict[str, Operator]:
        """Hyper-connections, the way in: coefficients from all residual streams, and the sum that a block reads."""
        model, router = self.model, self.precision.dtypes("router")
        return {
            "hc_proj": Gemm(m=self.stream_tokens, n=coefficients, k=model.residual_width, bias=True, dtypes=router),
            "hc_collapse": HyperCollapse(
                tokens=self.stream_tokens, width=model.hidden_size, streams=model.hc_mult, rounds=rounds, scales=scales,
                dtypes=self.vector,
            ),
        }  # fmt: skip

    def _streams(self, path: str) -> tuple[dict[str, Operator], dict[str, Operator]]:
        """What stands before and after a block where hyper-connections take the residual stream's place: streams in and
        out have a coefficient each, and the streams^2 that mix them, if any do, are made doubly stochastic."""
        model = self.model
        if (streams := model.hc_mult) is None:
            return {}, {}
        if model.hc_mixing:
            before = self._collapse((2 + streams) * streams, scales=3, rounds=model.hc_sinkhorn_iters)
        else:
            before = self._collapse(2 * streams, scales=2)
        after = HyperExpand(
            tokens=self.stream_tokens, width=model.hidden_size, streams=streams, mixed=model.hc_mixing, dtypes=self.vector
        )
        return {f"{path}/{name}": op for name, op in before.items()}, {f"{path}/hc_expand": after}

    def layer(self, layer: LayerType) -> dict[str, Operator]:
        """Norms, residual additions, blocks and their collectives.

        A pre-norm is fused with the addition of the block before it to the residual stream. The stream enters the first
        layer without one and the final norm has one, so that a model has as many additions as blocks either way: each
        layer is given its own.
        """
        altup = self._altup()
        operators: dict[str, Operator] = {} if altup is None else altup.before()
        blocks = [block for block in (layer.mixer, layer.mlp) if block is not None]
        for position, block in enumerate(blocks):
            on_device = shard_block(block, self.deployment)
            path = on_device.path
            before, after = self._streams(path)
            operators |= before
            adds = 0 if before or (altup is not None and position == 0) else 1
            laurel = 1 if self.model.laurel_rank is not None and position > 0 else 0
            norm = self._norm_before(layer, path, position, len(blocks), adds=adds + laurel)
            operators |= norm
            if (on_device.divided or layer.parallel) and (norm or not layer.parallel):
                operators |= self._gathered("" if layer.parallel and position == 0 else f"{path}/")
            if position == 0:
                operators |= self._laurel()
            operators |= self._inside(on_device)
            if not layer.parallel:
                operators |= {f"{path}/{name}": operator for name, operator in self._join(on_device).items()}
            if layer.norms in ("post", "both") or (layer.norms == "pre_and_after_mlp" and position == len(blocks) - 1):
                operators[f"{path}/post_norm"] = self._norm(self.stream_tokens)
            if layer.norms == "post":
                operators[f"{path}/add"] = self._add()
            if layer.norms == "interpolated":
                operators |= {f"{path}/{name}": operator for name, operator in self._interpolated().items()}
            operators |= after
        if layer.parallel:
            operators |= self._summed()  # one for the sum of both blocks
        operators = self._of_a_pass(layer, operators | ({} if altup is None else altup.after()))
        if self.model.hidden_size_per_layer_input:
            operators |= {f"per_layer_input/{name}": op for name, op in self._per_layer_input().items()}
        return operators

    def _interpolated(self) -> dict[str, Operator]:
        """Stream and output, normed; the step from one to the other, a learned share of each element; the norm of the result.

        Source: Loshchilov et al. 2024 (nGPT), arXiv:2410.01131, eq. 10 and 11, as vLLM has it in Dory.
        """
        plain = replace(self._norm(self.stream_tokens), weight=False, bias=False)
        return {
            "post_norm": plain,
            "stream_norm": plain,
            "interpolation_norm": replace(self._norm(self.stream_tokens, adds=1), weight=True, bias=False),
        }

    def _of_a_pass(self, layer: LayerType, operators: dict[str, Operator]) -> dict[str, Operator]:
        """A layer's operators, with what starts or ends a pass of layers that are run several times.

        Weights that an earlier pass holds are borrowed, but for what a block has of its own in each.
        """
        operators = {**self._enters(layer), **operators}
        if layer.loop_norm:
            operators["loop/post_norm"] = self._norm(self.stream_tokens)
        if not layer.shared_weights:
            return operators
        blocks = [block for block in (layer.mixer, layer.mlp) if block is not None]
        own = {f"{block.path}/{name}" for block in blocks for name in block.unshared}
        return {path: op if path in own else op.borrowing() for path, op in operators.items()}

    def _enters(self, layer: LayerType) -> dict[str, Operator]:
        """What starts a pass of layers that are run several times: another stream is added, and the sum may be normed."""
        if layer.loop_input == "none":
            return {}
        added: dict[str, Operator] = {"loop/add": self._add()}
        return added if layer.loop_input == "add" else {**added, "loop/norm": self._norm(self.stream_tokens)}

    def _norm_before(self, layer: LayerType, path: str, position: int, blocks: int, adds: int) -> dict[str, Operator]:
        """The norm in front of a block, with the addition that is fused with it."""
        if not layer.parallel:
            return (
                {} if layer.norms in ("post", "interpolated") else {f"{path}/norm": self._norm(self.stream_tokens, adds=adds)}
            )
        if position == 0:
            return {"norm": self._norm(self.stream_tokens, adds=blocks)}
        return {f"{path}/norm": self._norm(self.stream_tokens)} if layer.parallel_norms == blocks else {}

    def _add(self) -> Operator:
        """An addition to the stream that no norm follows."""
        return Add(elements=self.stream_tokens * self.model.hidden_size, dtypes=self.vector)

    def _per_layer_input(self) -> dict[str, Operator]:
        """A layer's own input, gated by the stream (which is summed for it), and added to it with the next norm."""
        stream, width, copies = self.model.hidden_size, self.model.hidden_size_per_layer_input, self.model.altup_num_inputs
        # NB: of several copies of the stream all but the first get it, each for itself
        added = {} if copies is None else {"add": Add(elements=self.stream_tokens * stream * (copies - 1), dtypes=self.vector)}
        return {
            **({"add": self._add()} if copies is None else {}),
            "gate": self._projection(self.stream_tokens, width, stream),
            "activation": Activation(rows=self.stream_tokens, width=width, dtypes=self.vector),
            "projection": self._projection(self.stream_tokens, stream, width),
            "post_norm": self._norm(self.stream_tokens),
            **added,
        }

    def _inside(self, block: Block) -> dict[str, Operator]:
        """A block's operators, and the sums that it needs before its end."""
        operators: dict[str, Operator] = {}
        for name, operator in self._block(block).items():
            path = f"{block.path}/{name}"
            operators[path] = operator
            if name in block.summed and self.tp > 1:
                assert isinstance(operator, Gemm)  # noqa: S101 - narrows the type: only products have partial outputs
                outputs = operator.m * operator.n
                operators[f"{path}/all_reduce"] = AllReduce(elements=outputs, world=self.tp, dtypes=self.vector)
        return operators

    def _block(self, block: Block) -> dict[str, Operator]:
        site = BlockContext(
            hidden_size=self.model.hidden_size,
            step=self.step,
            tokens=self.tokens if block.divided else self.stream_tokens,
            precision=self.precision,
            conventions=self.deployment.conventions,
            expert_ranks=self.ep,
            redundant_experts=self.deployment.num_redundant_experts,
            expert_tokens=self.expert_tokens,
            exchanged=self.exchanged,
            combined_tokens=ratio(self.tokens, self.tp) if self.exchanged else self.tokens,
            stream_tokens=self.stream_tokens,
            context_ranks=self.deployment.context_parallel_size,
            context_stride=self.tp,
            decode_ranks=self.deployment.decode_context_parallel_size,
        )
        return block.operators(site)

    def _join(self, block: Block) -> dict[str, Operator]:
        """The collectives that make a block's partial outputs whole."""
        if not block.divided:
            return {}
        if not self.exchanged or block.experts is None:
            if block.branches:
                return {f"{branch}/{name}": op for branch in block.branches for name, op in self._summed().items()}
            return self._summed()
        stream = self.tokens * self.model.hidden_size
        gathered = self.deployment.expert_exchange == "all_gather"
        collectives = self._all_tokens(block) if gathered else self._to_experts(block)
        if self.tp > 1:
            if not self.scattered:
                collectives["all_gather"] = AllGather(elements=stream, world=self.tp, dtypes=self.vector)
            if block.has_shared_experts:
                collectives |= {f"shared/{name}": op for name, op in self._summed().items()}
        return collectives

    def _routing(self, block: Block) -> ExpertRouting:
        """Where the experts of a block that has some are."""
        assert block.routing is not None  # noqa: S101 - narrows the type
        return replace(block.routing, redundant=self.deployment.num_redundant_experts)

    def _all_tokens(self, block: Block) -> dict[str, Operator]:
        """Every device gets the tokens of all that share the experts, and has partial sums for all of them.

        NB: the logits of the router, which go with the tokens, are not counted.
        """
        out, back = self._in_dtype(self.deployment.dispatch_dtype), self._in_dtype(self.deployment.combine_dtype)
        rows, each = self.expert_tokens * block.routed_width(self.model.hidden_size), self.deployment.expert_tensor_size
        collectives: dict[str, Operator] = {}
        if self.ep > 1:
            sizes: Any = {"elements": ratio(rows, each), "world": self.ep, "stride": each, "routing": self._routing(block)}
            collectives = {"dispatch": AllGather(**sizes, dtypes=out), "collect": ReduceScatter(**sizes, dtypes=back)}
        if each > 1:
            collectives["dispatch/all_gather"] = AllGather(elements=rows, world=each, dtypes=out)
            collectives["collect/reduce_scatter"] = ReduceScatter(elements=rows, world=each, dtypes=back)
        return collectives

    def _to_experts(self, block: Block) -> dict[str, Operator]:
        """Each token goes to its experts' devices alone, and back."""
        assert block.experts is not None  # noqa: S101 - narrows the type
        routed = self.tokens * block.routed_width(self.model.hidden_size)
        routing = self._routing(block)
        # a copy of each token for each device, or group of devices, with one of its experts
        once = routing.destinations(self.ep)
        copies = once if routing.limited else block.experts[1]
        sent = ratio(routed * copies, self.tp) * self._busiest(block)
        each, chosen = self.deployment.expert_tensor_size, self.deployment
        exchange = AllToAll(
            elements=sent, world=self.ep, stride=each, copies=copies, routing=routing, dtypes=self.vector,
            low_latency=self._low_latency,
        )  # fmt: skip
        out, back = self._in_dtype(chosen.dispatch_dtype), self._in_dtype(chosen.combine_dtype)
        collectives: dict[str, Operator] = {}
        if self.ep > 1:
            collectives = {"dispatch": replace(exchange, dtypes=out), "collect": replace(exchange, dtypes=back)}
        if each > 1:  # each device of an expert's group has received its part of the rows, and has partial sums of all
            rows = ratio(routed * once, self.tp) * self._busiest(block) * each
            collectives["dispatch/all_gather"] = AllGather(elements=rows, world=each, dtypes=out)
            collectives["collect/reduce_scatter"] = ReduceScatter(elements=rows, world=each, dtypes=back)
        return collectives

    @property
    def _low_latency(self) -> bool:
        """Whether tokens are sent with kernels of low latency; of a mixed step only if the deployment says so."""
        mode = self.deployment.deepep_mode
        return all(segment.decode for segment in self.step) if mode == "auto" else mode == "low_latency"

    def _in_dtype(self, name: str | None) -> Dtypes:
        """Formats of what is exchanged. NB: scales of fp8, one for each 128 elements in DeepEP, are not counted."""
        return self.vector if name is None else replace(self.vector, activation=parse_dtype(name))

    def _busiest(self, block: Block) -> Expr:
        """Times the mean that the busiest device's experts are sent."""
        wanted = self.deployment.conventions.expert_imbalance
        if wanted == 1 or block.experts is None:
            return 1
        return expert_load_imbalance(wanted, *block.experts, self.ep)


# One token, decoded: holds every weight exactly once (prefill of MLA holds some in another form).
CANONICAL: Step = (Segment(1, 1, 0, decode=True),)
