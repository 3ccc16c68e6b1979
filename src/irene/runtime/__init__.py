"""Running cascades fast: the compacting engine, the streaming engine, and what members run on."""
