"""Tensor parallelism: the distribution of the weights of a `Transformer` over devices."""

import keras

from keras_transformer.errors import UserError

# The axis along which a weight is split, by the weight's path. As in Megatron-LM (Shoeybi et al.,
# 2019), each attention head and each inner unit of a feed-forward network is on one device, with
# the columns that produce it and the rows that read it. So devices communicate once per sub-layer,
# to add up its output. All other weights are copied to each device.
_SHARED_AXES = {
    r".*_layer_\d+/.*/(query|key|value|intermediate)/kernel": (1, 2),
    r".*_layer_\d+/.*/(query|key|value|intermediate)/bias": (0, 1),
    r".*_layer_\d+/.*/output/kernel": (0, 2),
    r".*token_embedding/embeddings": (0, 2),  # the vocabulary, and so the logits
    r".*token_embedding/reverse_embeddings": (1, 2),
}


def make_layout_map(
    device_mesh: keras.distribution.DeviceMesh,
    model_parallel_dim_name: str,
    data_parallel_dim_name: str,
) -> keras.distribution.LayoutMap:
    """Return the result of `Transformer.get_layout_map`."""
    if not isinstance(device_mesh, keras.distribution.DeviceMesh):
        raise UserError(
            "`device_mesh` must be a `keras.distribution.DeviceMesh`. "
            f"Received: device_mesh={device_mesh!r}"
        )
    names = {
        "model_parallel_dim_name": model_parallel_dim_name,
        "data_parallel_dim_name": data_parallel_dim_name,
    }
    for argument, name in names.items():
        if name not in device_mesh.axis_names:
            raise UserError(
                f"`{argument}` must be one of the mesh's dimensions: "
                f"{', '.join(device_mesh.axis_names)}. Received: {argument}={name!r}"
            )
    if model_parallel_dim_name == data_parallel_dim_name:
        raise UserError(
            "`model_parallel_dim_name` and `data_parallel_dim_name` must be two dimensions of the "
            "mesh; one of them may have size 1. "
            f"Received: {model_parallel_dim_name!r} for both."
        )
    layout_map = keras.distribution.LayoutMap(device_mesh)
    for path, (shared, rank) in _SHARED_AXES.items():
        layout_map[path] = tuple(
            model_parallel_dim_name if axis == shared else None for axis in range(rank)
        )
    return layout_map
