"""A vision tower's work on one image of the size that it is made for: rows of patches, layers, and products around them."""

from __future__ import annotations

from pydantic import Field

from roofline.specs.base import Spec, Whole


class VisionProduct(Spec):
    """A matrix product outside the layers, of one image: patches, adapters, the projector."""

    name: str
    rows: Whole = Field(ge=1)
    inputs: Whole = Field(ge=1)
    outputs: Whole = Field(ge=1)


class VisionTower(Spec):
    """The layers of a vision tower and what surrounds them, for an image of `image_size`.

    Every row of a layer sees every other one: there is no mask and no cache.
    """

    image_size: tuple[Whole, Whole] = Field(description="height and width in pixels")
    tokens: Whole = Field(ge=1, description="tokens that an image adds to the prompt, without marks around it")
    rows: Whole = Field(ge=1, description="rows that the layers work on: patches, and a class token where there is one")
    num_hidden_layers: Whole = Field(ge=1)
    hidden_size: Whole = Field(ge=1)
    num_attention_heads: Whole = Field(ge=1)
    intermediate_size: Whole = Field(ge=1)
    products: tuple[VisionProduct, ...] = ()
