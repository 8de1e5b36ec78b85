"""One trainer for every model of every layer: models, losses, optimisers, data, records and runs.

Start at ``loop`` (``train`` and ``compare``); ``models`` says what can be trained, ``manifest`` what a run says of itself.
"""
