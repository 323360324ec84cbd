"""What the reference takes from the package's own code: Markdown, made when the docs are built.

A page says where: `<!-- generated: transitions -->`. Nothing here knows of Sphinx.
"""
