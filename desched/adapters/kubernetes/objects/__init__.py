"""From the API's JSON to the model.

Whatever builds a value raises ValueError for what it cannot read; the decoder names the object.
"""
