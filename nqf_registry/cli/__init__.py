"""The ``nqf`` command: a thin layer over the library, one module for each verb."""
