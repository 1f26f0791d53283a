"""How much an edge type counts for an intent: the table phi of the paper's equation 6, and its soft mix.

The values of why, when and entity lie in the ranges of the paper's Table 5; those of semantic and episode edges and
the row of `open` are ours.
"""

import numpy as np
import numpy.typing as npt

from magma_gpu.types import EDGE_TYPES, INTENTS

# Rows in the order of INTENTS, columns in the order of EDGE_TYPES: temporal, semantic, causal, entity, episode.
PHI = np.array(
    [
        [1.0, 1.0, 4.0, 2.5, 0.5],
        [4.0, 0.5, 1.0, 2.5, 1.0],
        [0.5, 1.0, 1.0, 6.0, 0.5],
        [1.0, 1.0, 1.0, 1.0, 1.0],
    ]
)
assert PHI.shape == (len(INTENTS), len(EDGE_TYPES))


def structure_QR(
    intent_QI: npt.NDArray[np.float64], lambda_structure: float, min_intent: float
) -> npt.NDArray[np.float32]:
    """exp(lambda1 * phi) for each query and relation.

    Args:
        intent_QI: probabilities in the order of INTENTS.
        min_intent: a query whose best intent is less likely than this takes the `open` row.

    Returns:
        float32 [Q, 2 x edge types]; both directions of a type weigh the same.
    """
    mix = intent_QI @ PHI
    unsure = intent_QI.max(axis=1, initial=0.0) < min_intent
    mix[unsure] = PHI[INTENTS.index("open")]
    return np.repeat(np.exp(lambda_structure * mix), 2, axis=1).astype(np.float32)
