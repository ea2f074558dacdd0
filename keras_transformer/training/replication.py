"""What a replica of a `tf.distribute` strategy does alone, and what all replicas do together."""

import keras


def replica_context():
    """TensorFlow's context of this replica; None where nothing is replicated."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    return tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
