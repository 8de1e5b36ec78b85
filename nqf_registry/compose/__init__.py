"""Compositions: acyclic graphs of layers, each node as written or as its quadratic form.

``graph.py`` holds the graph and evaluates it, ``nodes.py`` the kinds of node, ``check.py`` what must hold before a tensor is
made, ``builder.py`` and ``spec.py`` the two ways to write a graph (Python and YAML), ``drawing.py`` its picture.
"""
