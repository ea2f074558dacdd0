"""Files of weights: written, read, checked, averaged, and divided into shards."""
