"""From a result to its document: one module per kind of result, named in `gambrel.report.registry`.

Each has ``document(record, options)``; ``content(record, options)`` where its JSON is not the
record as it is; ``rows(record)`` where its CSV is not the document's first table. Records of upper
layers are only named in annotations, so that nothing is imported for them.
"""
