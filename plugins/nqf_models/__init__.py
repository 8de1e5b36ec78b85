"""The known models, one file each; every one is a plugin through the same door as any other."""
