"""Jobs: which stage runs over which shards, on this machine or on Ray, and the command line."""
