"""Ordinary torch modules as layers: their neurons as declared or found, and their expansion without plugin code."""
