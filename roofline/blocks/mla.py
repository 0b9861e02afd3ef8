"""Multi-head latent attention (DeepSeek-V2): keys and values of all heads are expanded from one cached latent."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import Cache, MixerBlock, Operators, Sharding, Site, per_segment
from roofline.numeric import Expr
from roofline.operators.attention import shared_in_sight
from roofline.operators.copy import Copy
from roofline.operators.gemm import Gemm
from roofline.operators.latent_attention import LatentAttention
from roofline.operators.norm import Norm
from roofline.operators.rope import Rope
from roofline.specs.base import Whole
from roofline.specs.workload import Segment


class LatentAttentionBlock(MixerBlock):
    """MLA. Prefill expands keys and values from the latents of all tokens it sees; decode absorbs the expansion into
    the queries (q W_UK) and the outputs (W_UV) and works on the latents themselves. The two are equal in result.

    The weights of `kv_b_proj` (expanded) and of `q_absorb` with `v_up` (absorbed) are the same parameters.
    The latent cache has no heads to divide: every tensor-parallel device holds all of it.
    """

    sharding: ClassVar[dict[str, Sharding]] = {"num_attention_heads": "exact"}

    kind: Literal["mla"]
    num_attention_heads: Whole = Field(ge=1)
    q_lora_rank: Whole | None = Field(default=None, ge=1, description="rank of the compressed queries; none: not compressed")
    kv_lora_rank: Whole = Field(ge=1)
    qk_nope_head_dim: Whole = Field(ge=1)
    qk_rope_head_dim: Whole = Field(ge=1)
    v_head_dim: Whole = Field(ge=1)

    def operators(self, site: Site) -> Operators:
        """Projections down and up, the latent into the cache, attention in the form of each segment, output."""
        n, d_model = self.num_attention_heads, site.hidden_size
        d_qk = self.qk_nope_head_dim + self.qk_rope_head_dim
        latent = self.kv_lora_rank + self.qk_rope_head_dim
        vector, output = site.precision.dtypes("norm"), site.precision.dtypes("attention/o_proj")
        down, up = site.precision.dtypes("attention/a_proj"), site.precision.dtypes("attention/q_b_proj")
        found: Operators = {}
        if self.q_lora_rank is None:
            found["q_proj"] = Gemm(m=site.tokens, n=n * d_qk, k=d_model, dtypes=up)
            found["kv_a_proj"] = Gemm(m=site.tokens, n=latent, k=d_model, dtypes=down)
        else:
            # one fused projection, as engines store it: the input is read once for both
            found["qkv_a_proj"] = Gemm(
                m=site.tokens,
                n=self.q_lora_rank + latent,
                k=d_model,
                stored=((self.q_lora_rank, d_model), (latent, d_model)),
                dtypes=down,
            )
            found["q_a_norm"] = Norm(rows=site.tokens, width=self.q_lora_rank, dtypes=vector)
            found["q_b_proj"] = Gemm(m=site.tokens, n=n * d_qk, k=self.q_lora_rank, dtypes=up)
        found["kv_a_norm"] = Norm(rows=site.tokens, width=self.kv_lora_rank, dtypes=vector)
        found["rope"] = Rope(tokens=site.tokens, heads=n + 1, rotary_dim=self.qk_rope_head_dim, dtypes=vector)
        found["kv_write"] = Copy(elements=site.tokens * latent, write="cache", dtypes=vector)
        found |= self._cores(site)
        found["o_proj"] = Gemm(m=site.tokens, n=d_model, k=n * self.v_head_dim, dtypes=output)
        return found

    def _cores(self, site: Site) -> Operators:
        """Attention of each segment, between products that take the tokens of all segments in the same form at once."""
        n, rank, d_nope, d_v = self.num_attention_heads, self.kv_lora_rank, self.qk_nope_head_dim, self.v_head_dim
        expand, vector = site.precision.dtypes("attention/kv_b_proj"), site.precision.dtypes("norm")
        choices = site.conventions
        absorbed_tokens: Expr = 0
        expanded_tokens: Expr = 0
        cores: Operators = {}

        def absorbs_in(segment: Segment) -> bool:
            return choices.mla == "absorb" or (choices.mla == "auto" and segment.decode)

        for suffix, reads, segment in per_segment(site, form=absorbs_in):
            absorbed = absorbs_in(segment)
            if absorbed:
                absorbed_tokens = absorbed_tokens + segment.tokens
            else:
                # Expansion needs the latents of every token in sight, so those of earlier steps are fetched from the cache.
                common = shared_in_sight(choices.shared_prefix, segment.cached, None)
                fetched = segment.count * (segment.cached - common) + reads * common
                expanded_tokens = expanded_tokens + segment.tokens + fetched
                if not (isinstance(fetched, int) and fetched == 0):
                    latents = fetched * (rank + self.qk_rope_head_dim)
                    cores["kv_fetch" + suffix] = Copy(elements=latents, read="cache", dtypes=vector)
            cores["core" + suffix] = LatentAttention(
                batch=segment.count,
                new=segment.new,
                cached=segment.cached,
                n_heads=n,
                r_kv=rank,
                d_nope=d_nope,
                d_rope=self.qk_rope_head_dim,
                d_v=d_v,
                shared_prefix=choices.shared_prefix,
                prefix_reads=reads,
                absorbed=absorbed,
                mask=choices.mask,
                eager=choices.attention == "eager",
                dtypes=vector,
            )
        found: Operators = {name: core for name, core in cores.items() if name.startswith("kv_fetch")}
        if not (isinstance(expanded_tokens, int) and expanded_tokens == 0):
            found["kv_b_proj"] = Gemm(m=expanded_tokens, n=n * (d_nope + d_v), k=rank, dtypes=expand)
        absorbs = not (isinstance(absorbed_tokens, int) and absorbed_tokens == 0)
        if absorbs:
            # Stored as rows of kv_b_proj. NB: what is stored once a matrix is counted for either part.
            part = ((n * d_nope, rank),)
            found["q_absorb"] = Gemm(batch=n, m=absorbed_tokens, n=rank, k=d_nope, stored=part, dtypes=expand)
        found |= {name: core for name, core in cores.items() if not name.startswith("kv_fetch")}
        if absorbs:
            found["v_up"] = Gemm(batch=n, m=absorbed_tokens, n=d_v, k=rank, stored=((n * d_v, rank),), dtypes=expand)
        return found

    def cache(self) -> Cache:
        """The latent and the rotated key."""
        return Cache(self.kv_lora_rank + self.qk_rope_head_dim)
