"""Text, tables and pictures of docs/results*.md, from committed JSON alone."""
