"""Names for the types that Keras leaves open."""

from typing import Any, TypeAlias

# A tensor of the current backend, a symbolic `KerasTensor`, or an array that Keras converts to a
# tensor. Keras itself declares no type for these.
Tensor: TypeAlias = Any
# The shape of a tensor. None stands for a size that is not known yet.
Shape: TypeAlias = tuple[int | None, ...]
# A dtype's name or a dtype policy, as in the argument `dtype` of Keras's layers.
DType: TypeAlias = Any
