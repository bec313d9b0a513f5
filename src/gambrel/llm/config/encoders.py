"""Encoders and encoder-decoders: BERT and its relatives, T5, Whisper, vision transformers."""
