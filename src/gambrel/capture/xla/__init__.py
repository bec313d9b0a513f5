"""Programs of XLA: one vocabulary for jaxprs, StableHLO and HLO.

`graph` records operations under their StableHLO names as the steps that ONNX files give, so that
views, patterns, kinds and everything behind them are shared; `patterns` recognises what libraries
write out, `lowering` holds the operations that ONNX does not have.
"""
