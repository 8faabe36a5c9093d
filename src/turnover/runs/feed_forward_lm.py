"""A feed-forward language model: a fixed number of words in, the next word out (Bengio et al. 2000)."""

from torch import Tensor, nn

from turnover.errors import TrainingError
from turnover.layers import Dim


class FeedForwardLM(nn.Module):
    """Scores of the next word [batch, words] from context words [batch, context].

    With `language_model_sites` nothing in it leaks, unless it is tied or has an output bias: the embedding's columns
    are masked before the hidden layer sees them. Size and dropout are the paper's.

    Args:
        words: size of the vocabulary.
        context: how many words the model sees.
        embedding: size of a word's vector.
        hidden: size of the hidden layer.
        dropout: ordinary dropout after the embedding and the hidden layer.
        tied: let the output layer use the embedding's weights; needs hidden = embedding. Far fewer weights, but then
            what an instance teaches the output reaches the embedding that its flipped network reads.
        bias: of the output layer. No mask covers it, so it learns every instance.

    Example:
        >>> import torch
        >>> FeedForwardLM(100, context=4, embedding=8, hidden=8)(torch.zeros(2, 4, dtype=torch.long)).shape
        torch.Size([2, 100])
    """

    def __init__(
        self,
        words: int,
        *,
        context: int = 4,
        embedding: int = 650,
        hidden: int = 650,
        dropout: float = 0.3,
        tied: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if words < 2 or context < 1:
            raise TrainingError(f"words={words!r}, context={context!r}: give two words or more and a context from 1.")
        if tied and hidden != embedding:
            raise TrainingError(
                f"a tied output layer reads the embedding, but embedding={embedding} and hidden={hidden} differ. Give "
                "both the same size, or tied=False."
            )
        self.embedding = nn.Embedding(words, embedding)
        self.embedding_dropout = nn.Dropout(dropout)
        self.flatten = nn.Flatten()
        self.hidden = nn.Linear(context * embedding, hidden)
        self.activation = nn.Tanh()
        self.hidden_dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden, words, bias=bias)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(self, context: Tensor) -> Tensor:
        """Return the scores of all words as the next."""
        vectors = self.flatten(self.embedding_dropout(self.embedding(context)))
        return self.output(self.hidden_dropout(self.activation(self.hidden(vectors))))


def language_model_sites() -> dict[str, Dim]:
    """Return `at` for `turnover.wrap`: the columns of the embedding, alike for all context words, and the hidden layer.

    Example:
        >>> language_model_sites()
        {'embedding': 'features', 'activation': 'features'}
    """
    return {"embedding": "features", "activation": "features"}
