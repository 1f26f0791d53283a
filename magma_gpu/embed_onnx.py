"""The forward pass of a sentence-transformers model by ONNX Runtime, which on a CPU is faster than PyTorch.

The model is the one that PyTorch loaded: it is traced when the encoder is made and never written to disk. Tokenising,
batches and the check of the vectors stay with `embed.SentenceEncoder`. Vectors differ from PyTorch's in their last
bits, so the runtime is part of an encoder's identity; those of one text are the same alone and in a batch, and for
every number of threads.
"""

import importlib
import io
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from magma_gpu.errors import missing_package

# Operators as of this version, which every ONNX Runtime of the last years knows.
_OPSET = 17


class _Vectors(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        made = self.model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
        unit: Tensor = nn.functional.normalize(made, dim=1)
        return unit


class OnnxForward:
    """Token ids in, unit vectors out."""

    def __init__(self, model: Any) -> None:
        """Traces a model; as many threads as PyTorch has.

        Args:
            model: a SentenceTransformer on the CPU, in float32.

        Raises:
            MissingPackageError: onnx or onnxruntime is not installed.
        """
        for package in ("onnx", "onnxruntime"):
            try:
                importlib.import_module(package)
            except ModuleNotFoundError:
                raise missing_package(package, "onnx", "embed.runtime 'onnx'") from None
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.inter_op_num_threads = 1
        # Threads that wait in a loop for the next batch would take the cores from the tokenizer.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(_traced(model), options, providers=["CPUExecutionProvider"])

    def __call__(self, ids_BL: npt.NDArray[np.int64], mask_BL: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Returns float32 [B, D]."""
        made: npt.NDArray[np.float32] = self._session.run(None, {"ids": ids_BL, "mask": mask_BL})[0]
        return made


def _traced(model: nn.Module) -> bytes:
    ids = torch.ones((2, 8), dtype=torch.int64)
    axes = {0: "rows", 1: "length"}
    # Its types ask for a path, but a file is written to as well.
    file: Any = io.BytesIO()
    with torch.inference_mode(), warnings.catch_warnings():
        # It warns of every shape that it reads as a constant. The shapes of a batch are none; a test compares several.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Vectors(model).eval(),
            (ids, torch.ones_like(ids)),
            file,
            input_names=["ids", "mask"],
            output_names=["vector"],
            dynamic_axes={"ids": axes, "mask": axes, "vector": {0: "rows"}},
            opset_version=_OPSET,
            # The newer exporter wants onnxscript as well.
            dynamo=False,
        )
    content: bytes = file.getvalue()
    return content
