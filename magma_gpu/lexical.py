"""BM25 over the texts of one memory, for a batch of questions at once.

bm25s computes the weight of every word in every text when the index is built; a batch of questions is then one sparse
product. Words are folded to lower case, stripped of common words and stemmed (English); scripts without spaces give
single characters and pairs of them.
"""

import logging
import re
import unicodedata
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

FloatQN = npt.NDArray[np.float32]

# Words that tell texts of a log hardly apart. No negations, no names of months, no numbers.
STOP_WORDS = frozenset(
    "a an and are as at be been but by can could did do does doing for from had has have he her hers him his how i if "
    "in into is it its just me my of on or our ours she should so than that the their theirs them then there these "
    "they this those to too us very was we were what when where which while who whom why will with would you your "
    "yours am about also any being get got im ive dont id ill s t re ve ll d m "
    "up out off down over only".split()
)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_{_UNSPACED}]+")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")


def _folded(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'"))


def words_of(text: str) -> list[str]:
    """The words of a text that tell something, in lower case and not stemmed; characters where words have no gaps."""
    found: list[str] = []
    for word in _folded(text):
        if _IS_UNSPACED.match(word):
            found.extend(word)
        elif word not in STOP_WORDS:
            found.append(word)
    return found


class Analyzer:
    """Texts to lists of index terms; remembers the stem of every word it has seen."""

    def __init__(self) -> None:
        import Stemmer

        self._stemmer = Stemmer.Stemmer("english")
        self._stems: dict[str, str | None] = {}

    def terms(self, text: str) -> list[str]:
        found: list[str] = []
        for word in _folded(text):
            if _IS_UNSPACED.match(word):
                found.extend(word)
                found.extend(word[i : i + 2] for i in range(len(word) - 1))
                continue
            if word not in self._stems:
                self._stems[word] = None if word in STOP_WORDS else self._stemmer.stemWord(word)
            stem = self._stems[word]
            if stem is not None:
                found.append(stem)
        return found


class LexicalIndex:
    """BM25 (the form of Lucene, k1 1.5, b 0.75) of N texts."""

    def __init__(self, terms: Sequence[Sequence[str]]) -> None:
        """Args: terms: index terms of each text; texts without any are never found."""
        self.num_texts = len(terms)
        self._vocabulary: dict[str, int] = {}
        ids = [[self._vocabulary.setdefault(t, len(self._vocabulary)) for t in text] for text in terms]
        self._weight_VN = sp.csr_matrix((len(self._vocabulary), self.num_texts), dtype=np.float32)
        if self._vocabulary:
            import bm25s

            # It tells of every index it builds, whatever the level of the root logger.
            logging.getLogger("bm25s").setLevel(logging.WARNING)
            index = bm25s.BM25(k1=1.5, b=0.75, method="lucene")
            with warnings.catch_warnings():
                # bm25s divides by the length of texts without terms and stores nothing for them.
                warnings.simplefilter("ignore", RuntimeWarning)
                index.index((ids, self._vocabulary), create_empty_token=False, show_progress=False)
            # Columns of the compressed matrix are words, so its arrays are those of the transposed one by rows.
            parts = (index.scores["data"], index.scores["indices"], index.scores["indptr"])
            self._weight_VN = sp.csr_matrix(parts, shape=(len(parts[2]) - 1, self.num_texts))

    def scores(self, questions: Sequence[Sequence[str]]) -> FloatQN:
        """Scores of every text for every question; a term counts as often as the question has it.

        Args:
            questions: index terms of Q questions; unknown terms count nothing.

        Returns:
            float32 [Q, N], 0 where no term is shared.
        """
        result: FloatQN = (self._counts(questions) @ self._weight_VN).toarray()
        return result

    def coverage(self, questions: Sequence[Sequence[str]]) -> FloatQN:
        """The share of a question's terms, weighted by rarity, that each text has: float32 [Q, N] in [0, 1].

        Terms that no text has weigh as much as the rarest.
        """
        frequency = np.diff(self._weight_VN.indptr)
        rarity = np.log1p(self.num_texts / np.maximum(frequency, 1)).astype(np.float32)
        counts = self._counts(questions)
        counts.data[:] = 1.0
        counts = counts @ sp.diags_array(rarity).tocsr() if len(rarity) else counts
        unknown = np.array([sum(t not in self._vocabulary for t in set(q)) for q in questions], dtype=np.float32)
        total = np.asarray(counts.sum(axis=1)).ravel() + unknown * np.float32(np.log1p(self.num_texts))
        has = self._weight_VN.copy()
        has.data = np.ones_like(has.data)
        result: FloatQN = (counts @ has).toarray() / np.maximum(total, 1e-9)[:, None]
        return result.astype(np.float32)

    def _counts(self, questions: Sequence[Sequence[str]]) -> sp.csr_matrix:
        number = self._vocabulary.get
        known = [[n for n in map(number, terms) if n is not None] for terms in questions]
        columns = np.array([n for ids in known for n in ids], dtype=np.int64)
        rows = np.repeat(np.arange(len(known)), np.array([len(ids) for ids in known], dtype=np.int64))
        shape = (len(questions), self._weight_VN.shape[0])
        return sp.csr_matrix((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
