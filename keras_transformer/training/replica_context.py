import keras


def replica_context():
    """TensorFlow's replica context, if several replicas share the batch, or None."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None
