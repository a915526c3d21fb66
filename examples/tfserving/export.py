"""Writes a SavedModel to tune with, y = x / 2 + 2: models/half_plus_two/1. Put your own in its place."""
from pathlib import Path

import tensorflow as tf


class HalfPlusTwo(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(self, x):
        return {"y": x / 2 + 2}


module = HalfPlusTwo()
folder = Path(__file__).parent / "models" / "half_plus_two" / "1"
tf.saved_model.save(module, str(folder), signatures=module.serve)
print(f"wrote {folder}")
