"""Files: atomic writes, documents with checksums, provenance."""
