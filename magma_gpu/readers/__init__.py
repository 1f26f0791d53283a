"""Readers: log files of many kinds in, turns and rejects out, one after the other."""

from magma_gpu.readers.detect import FORMATS, check_format, detect_format, read_source
from magma_gpu.readers.source import Source, find_sources

__all__ = ["FORMATS", "Source", "check_format", "detect_format", "find_sources", "read_source"]
