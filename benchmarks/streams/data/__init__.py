"""Real streams from data that come inside packages; nothing is downloaded."""

from streams.data.real import STREAMS, load_stream
from streams.data.stream import RandomFeatures, Stream, Task

__all__ = ["STREAMS", "RandomFeatures", "Stream", "Task", "load_stream"]
