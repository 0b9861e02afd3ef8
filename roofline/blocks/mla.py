"""Multi-head latent attention (DeepSeek-V2): keys and values of all heads are expanded from one cached latent."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from roofline.blocks.base import Cache, MixerBlock, Operators, Sharding, Site
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
        linear, vector = site.precision.dtypes("linear"), site.precision.dtypes("norm")
        found: Operators = {}
        if self.q_lora_rank is None:
            found["q_proj"] = Gemm(m=site.tokens, n=n * d_qk, k=d_model, dtypes=linear)
            found["kv_a_proj"] = Gemm(m=site.tokens, n=latent, k=d_model, dtypes=linear)
        else:
            # one fused projection, as engines store it: the input is read once for both
            found["qkv_a_proj"] = Gemm(m=site.tokens, n=self.q_lora_rank + latent, k=d_model, dtypes=linear)
            found["q_a_norm"] = Norm(rows=site.tokens, width=self.q_lora_rank, dtypes=vector)
            found["q_b_proj"] = Gemm(m=site.tokens, n=n * d_qk, k=self.q_lora_rank, dtypes=linear)
        found["kv_a_norm"] = Norm(rows=site.tokens, width=self.kv_lora_rank, dtypes=vector)
        found["rope"] = Rope(tokens=site.tokens, heads=n + 1, rotary_dim=self.qk_rope_head_dim, dtypes=vector)
        found["kv_write"] = Copy(elements=site.tokens * latent, write="cache", dtypes=vector)
        for position, segment in enumerate(site.step):
            suffix = "" if len(site.step) == 1 else f"/{segment}"
            for name, operator in self._core(site, segment, first=position == 0).items():
                found[name + suffix] = operator
        found["o_proj"] = Gemm(m=site.tokens, n=d_model, k=n * self.v_head_dim, dtypes=linear)
        return found

    def _core(self, site: Site, segment: Segment, *, first: bool) -> Operators:
        n, rank = self.num_attention_heads, self.kv_lora_rank
        d_nope, d_v = self.qk_nope_head_dim, self.v_head_dim
        linear, vector = site.precision.dtypes("linear"), site.precision.dtypes("norm")
        choices = site.conventions
        absorbed = choices.mla == "absorb" or (choices.mla == "auto" and segment.decode)
        attention = LatentAttention(
            batch=segment.count,
            new=segment.new,
            cached=segment.cached,
            n_heads=n,
            r_kv=rank,
            d_nope=d_nope,
            d_rope=self.qk_rope_head_dim,
            d_v=d_v,
            shared_prefix=choices.shared_prefix,
            prefix_reads=1 if first else 0,
            absorbed=absorbed,
            mask=choices.mask,
            eager=choices.attention == "eager",
            dtypes=vector,
        )
        if absorbed:
            return {
                "q_absorb": Gemm(batch=n, m=segment.tokens, n=rank, k=d_nope, dtypes=linear),
                "core": attention,
                "v_up": Gemm(batch=n, m=segment.tokens, n=d_v, k=rank, dtypes=linear),
            }
        # Expansion needs the latents of every token in sight, so those of earlier steps are fetched from the cache.
        fetched = segment.count * segment.cached
        fetch = {"kv_fetch": Copy(elements=fetched * (rank + self.qk_rope_head_dim), read="cache", dtypes=vector)}
        return {
            **({} if isinstance(fetched, int) and fetched == 0 else fetch),
            "kv_b_proj": Gemm(m=segment.tokens + fetched, n=n * (d_nope + d_v), k=rank, dtypes=linear),
            "core": attention,
        }

    def cache(self) -> Cache:
        """The latent and the rotated key."""
        return Cache(self.kv_lora_rank + self.qk_rope_head_dim)
