"""A turn beside other libraries that keep conversations: `python -m benchmarks.peers`.

Each peer has a virtual environment and a worker process of its own. No model is called: their
storage alone is driven, by its public functions, with messages of one size.
"""
