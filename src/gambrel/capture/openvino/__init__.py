"""OpenVINO IR (.xml) as workloads: the standard library reads it, the .bin beside it is not opened.

`model_file` (the XML as records), `shapes` (an open batch), `translation` (layers to steps),
`reader`.
"""
