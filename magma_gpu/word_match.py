"""How well the words of a question are met by the words of an event, in meaning and not in form alone.

BM25 asks for the same stem; a sentence vector blurs the one word that matters. Here every word of a question looks for
its nearest word in an event, in an event with its neighbours, and in the best sentence of an event, and words that few
events come near count most. Beside it, `topic` compares the two sets of words as a whole.

Q questions, E events, S sentences, V words of the memory, U words of the questions, D embedding.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from magma_gpu.lexical import words_of
from magma_gpu.word_vectors import WordVectors

Float = npt.NDArray[np.float32]
IntE = npt.NDArray[np.int64]

VIEWS = ("words", "words_window", "words_sentence", "topic", "topic_sentence")
# Words below this cosine have nothing to do with each other: of 100 pairs of words of a log one is above it.
_LEAST = 0.25
_SLACK = 1e-4
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s*|\n+")
_BLOCK = 4096
# Pairs of words whose vectors are held in float64 at once: they stay in the cache.
_PAIRS = 256


@dataclass(frozen=True, slots=True, eq=False)
class WordIndex:
    """The words of one memory's events.

    Attributes:
        vector_VD: unit vectors, float16 to save memory.
        event_VE, sentence_VS: 1 where a word occurs, columns by event or sentence.
        topic_EV, topic_SV: weights that turn the words' vectors into the unit vector of an event or sentence.
        sentence_E: the first sentence of each event; every event has at least one.
    """

    vocabulary: dict[str, int]
    vectors: WordVectors
    vector_VD: npt.NDArray[np.float16]
    event_VE: sp.csr_matrix
    sentence_VS: sp.csr_matrix
    topic_EV: sp.csr_matrix
    topic_SV: sp.csr_matrix
    sentence_E: IntE
    previous_E: IntE
    next_E: IntE

    @staticmethod
    def of(texts: Sequence[str], previous_E: IntE, next_E: IntE, vectors: WordVectors) -> "WordIndex":
        """Args: previous_E, next_E: the neighbours in the session, -1 where there is none."""
        sentences = [[words_of(s) for s in _SENTENCE.split(text)] for text in texts]
        vocabulary: dict[str, int] = {}
        ids = [[[vocabulary.setdefault(w, len(vocabulary)) for w in s] for s in text] for text in sentences]
        event_VE = _occurrence([[w for s in text for w in s] for text in ids], len(vocabulary))
        sentence_VS = _occurrence([s for text in ids for s in text], len(vocabulary))
        x = vectors.of(list(vocabulary)).astype(np.float16)
        rarity = np.log1p(len(texts) / np.maximum(np.diff(event_VE.indptr), 1))
        return WordIndex(
            vocabulary=vocabulary,
            vector_VD=x,
            vectors=vectors,
            event_VE=event_VE,
            sentence_VS=sentence_VS,
            topic_EV=_topic(event_VE, rarity, x),
            topic_SV=_topic(sentence_VS, rarity, x),
            sentence_E=np.cumsum([0, *(len(text) for text in ids)], dtype=np.int64)[:-1],
            previous_E=previous_E,
            next_E=next_E,
        )

    def scores(self, questions: Sequence[Sequence[str]]) -> dict[str, Float]:
        """Every view's score of every event, float32 [Q, E] in [0, 1] (topics: a cosine).

        Args:
            questions: the words of each question, see `words_of`; what a question does not share costs nothing.
        """
        num_events = self.event_VE.shape[1]
        number = {w: i for i, w in enumerate(dict.fromkeys(w for q in questions for w in q))}
        if not number or not num_events or not self.vocabulary:
            return {name: np.zeros((len(questions), num_events), np.float32) for name in VIEWS}
        near_UV, x_UD = self._near(list(number))
        met_UE = _best(near_UV, self.event_VE)
        # A word that many events come near tells little.
        rarity_U = np.log1p(num_events / np.maximum(met_UE.sum(axis=1, dtype=np.float64), 1.0))
        weight_QU = _shares(questions, number, rarity_U)
        around_UE = met_UE.copy()
        for neighbor in (self.previous_E, self.next_E):
            has = np.flatnonzero(neighbor >= 0)
            around_UE[:, has] = np.maximum(around_UE[:, has], met_UE[:, neighbor[has]])
        met_QS = weight_QU @ _best(near_UV, self.sentence_VS)
        topic_QD = weight_QU.astype(np.float64) @ x_UD
        length = np.sqrt((topic_QD * topic_QD).sum(axis=1, keepdims=True))
        topic_QV = (topic_QD / np.maximum(length, 1e-9)) @ self.vector_VD.T.astype(np.float64)
        topic_VQ = np.ascontiguousarray(topic_QV.T, dtype=np.float32)
        # A sparse product adds up each row on its own, in order: no batch changes it.
        return {
            "words": weight_QU @ met_UE,
            "words_window": weight_QU @ around_UE,
            "words_sentence": np.maximum.reduceat(met_QS, self.sentence_E, axis=1),
            "topic": (self.topic_EV @ topic_VQ).T,
            "topic_sentence": np.maximum.reduceat(self.topic_SV @ topic_VQ, self.sentence_E, axis=0).T,
        }

    def _near(self, words: Sequence[str]) -> tuple[sp.csr_matrix, npt.NDArray[np.float64]]:
        """How near the memory's words are to some words, [U, V] in (0, 1], and the vectors of those, [U, D]."""
        x_UD = self.vectors.of(words)
        rows, columns, values = [], [], []
        for first in range(0, len(self.vocabulary), _BLOCK):
            part = self.vector_VD[first : first + _BLOCK].astype(np.float32)
            # A fast product finds the pairs; their cosines are exact, so that they do not depend on the batch.
            row, column = np.nonzero(x_UD @ part.T > _LEAST - _SLACK)
            cosine = np.empty(len(row))
            for at in range(0, len(row), _PAIRS):
                pairs = slice(at, at + _PAIRS)
                cosine[pairs] = np.einsum(
                    "pd,pd->p", x_UD[row[pairs]].astype(np.float64), part[column[pairs]].astype(np.float64)
                )
            rows.append(row)
            columns.append(column + first)
            values.append(np.maximum(cosine - _LEAST, 0.0) / (1 - _LEAST))
        same = [(u, self.vocabulary[w]) for u, w in enumerate(words) if w in self.vocabulary]
        shape = (len(words), len(self.vocabulary))
        near = sp.coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
        exact = sp.coo_matrix((np.ones(len(same)), tuple(np.array(same, dtype=np.int64).reshape(-1, 2).T)), shape=shape)
        return near.tocsr().maximum(exact.tocsr()).minimum(1.0), x_UD.astype(np.float64)


def _occurrence(texts: Sequence[Sequence[int]], num_words: int) -> sp.csr_matrix:
    """Float32 [V, N] with a 1 for every word of every text."""
    columns = np.repeat(np.arange(len(texts)), [len(t) for t in texts])
    rows = np.fromiter((w for t in texts for w in t), dtype=np.int64, count=len(columns))
    made = sp.coo_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=(num_words, len(texts))).tocsr()
    made.data[:] = 1.0
    return made


def _topic(
    occurrence_VN: sp.csr_matrix, rarity_V: npt.NDArray[np.float64], x_VD: npt.NDArray[np.float16]
) -> sp.csr_matrix:
    """Weights, float32 [N, V], such that the weighted sum of the word vectors of a text has length 1."""
    weighted = (occurrence_VN.T @ sp.diags_array(rarity_V)).tocsr()
    vectors = x_VD.astype(np.float64)
    length = np.empty(weighted.shape[0])
    for first in range(0, len(length), _BLOCK):
        total = weighted[first : first + _BLOCK] @ vectors
        length[first : first + _BLOCK] = np.sqrt((total * total).sum(axis=1))
    return (sp.diags_array(1 / np.maximum(length, 1e-9)) @ weighted).tocsr().astype(np.float32)


def _best(near_UV: sp.csr_matrix, occurrence_VN: sp.csr_matrix) -> Float:
    """The nearest word of each text to each of U words, float32 [U, N]; 0 where none is near."""
    near = near_UV.tocoo()
    starts, ends = occurrence_VN.indptr[near.col], occurrence_VN.indptr[near.col + 1]
    counts = ends - starts
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = occurrence_VN.indices[np.repeat(starts, counts) + steps]
    num_texts = occurrence_VN.shape[1]
    best = np.zeros(near_UV.shape[0] * num_texts, dtype=np.float32)
    cells = np.repeat(near.row.astype(np.int64), counts) * num_texts + columns
    np.maximum.at(best, cells, np.repeat(near.data, counts).astype(np.float32))
    return best.reshape(near_UV.shape[0], num_texts)


def _shares(
    questions: Sequence[Sequence[str]], number: dict[str, int], rarity_U: npt.NDArray[np.float64]
) -> sp.csr_matrix:
    """What each word counts in its question, [Q, U]; the shares of a question sum to 1."""
    columns = [[number[w] for w in dict.fromkeys(words)] for words in questions]
    sizes = np.array([len(c) for c in columns], dtype=np.int64)
    flat = np.array([c for of_question in columns for c in of_question], dtype=np.int64)
    rows = np.repeat(np.arange(len(questions)), sizes)
    total = np.bincount(rows, weights=rarity_U[flat], minlength=len(questions))
    share = (rarity_U[flat] / np.maximum(total, 1e-9)[rows]).astype(np.float32)
    # The words of a question stay in its own order, so that sums do not depend on the batch.
    return sp.csr_matrix((share, flat, np.concatenate([[0], np.cumsum(sizes)])), shape=(len(questions), len(number)))
