"""Memory with a draft beside the model: its weights, its caches, and room for the tokens that are being verified."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from roofline.graph import stages
from roofline.numeric import Expr, maximum
from roofline.predict.memory import MemoryModel, Setting, StageMemory
from roofline.specs.workload import Step


@dataclass(frozen=True, kw_only=True)
class _Beside(Setting):
    """What there is beside the model."""

    draft: MemoryModel | None
    draft_weights_bytes: float
    ahead: int
    """Tokens drafted a round: a sequence has room for as many more."""


@dataclass(frozen=True, kw_only=True)
class SpeculativeStage(_Beside, StageMemory):
    """What a device needs and has, in the step that verifies a draft."""

    def _verifying(self, step: Step) -> Step:
        """A decode step with the drafted tokens in it; prompts are as they are."""
        return tuple(replace(segment, new=segment.new + self.ahead) if segment.decode else segment for segment in step)

    def needed_bytes(self, step: Step) -> Expr:
        """The model's caches and states, and the draft's."""
        verifying = self._verifying(step)
        needed = super().needed_bytes(verifying)
        return needed if self.draft is None else needed + self.draft.fullest.needed_bytes(verifying)

    def activation_bytes(self, step: Step) -> Expr:
        """Of the verification, which has logits of all of its tokens, or of the draft's step if that is more."""
        verifies = any(segment.decode for segment in step)
        peak = self._verifier.activation_bytes(self._verifying(step)) if verifies else super().activation_bytes(step)
        return peak if self.draft is None else maximum(peak, self.draft.fullest.activation_bytes(step))

    @cached_property
    def _verifier(self) -> StageMemory:
        """The model's stage alone, with logits of every position."""
        own = {setting.name: getattr(self, setting.name) for setting in fields(StageMemory)}
        conventions = self.deployment.conventions.model_copy(update={"logits": "all"})
        return StageMemory(**{**own, "deployment": self.deployment.model_copy(update={"conventions": conventions})})

    def usable_bytes(self, step: Step) -> Expr:
        """What the draft's weights leave."""
        return super().usable_bytes(step) - self.draft_weights_bytes

    def kv_capacity_tokens(self, step: Step) -> int:
        """Tokens for which there is room in the model's caches and in the draft's."""
        length = max(segment.cached + segment.new for segment in step)
        own = self.layout.bytes(length - 1, 1)
        both = own if self.draft is None else own + self.draft.fullest.layout.bytes(length - 1, 1)
        return int(super().kv_capacity_tokens(step) * own / both) if both else 0


@dataclass(frozen=True, kw_only=True)
class SpeculativeMemory(_Beside, MemoryModel):
    """The memory of a deployment whose tokens are drafted; of one pipeline stage."""

    @cached_property
    def stages(self) -> tuple[StageMemory, ...]:
        """The one stage."""
        own = {setting.name: getattr(self, setting.name) for setting in fields(self)}
        return (SpeculativeStage(stage=stages(self.model, 1)[0], **own),)

    def alone(self) -> MemoryModel:
        """The memory of the model without a draft."""
        return MemoryModel(**{setting.name: getattr(self, setting.name) for setting in fields(MemoryModel)})
