"""The section `model` of a run's settings, a declaration for each architecture; see nmt.config.sections."""

from dataclasses import dataclass
from typing import Literal, assert_never

from nmt.config.declaration import free_setting, model_setting

_WIDEST, _DEEPEST = 1_000_000, 1000  # limits for a model: no machine can hold more

Tie = Literal["all", "target", "none"]


class _Tied:
    """The meaning of `tie`, for every architecture."""

    tie: Tie

    @property
    def ties_embeddings(self) -> bool:
        """Whether source and target have one embedding."""
        match self.tie:
            case "all":
                return True
            case "target" | "none":
                return False
            case _:
                assert_never(self.tie)

    @property
    def ties_output(self) -> bool:
        """Whether the output layer has the matrix of the target embedding."""
        match self.tie:
            case "all" | "target":
                return True
            case "none":
                return False
            case _:
                assert_never(self.tie)


@dataclass(frozen=True)
class TransformerConfig(_Tied):
    """The Transformer (Vaswani et al. 2017); the defaults are the paper's base model."""

    architecture: Literal["transformer"] = model_setting("transformer", "kind of model")
    d_model: int = model_setting(512, "width of the residual stream", at_least=1, at_most=_WIDEST)
    feed_forward: int = model_setting(2048, "inner width of the feed-forward layers", at_least=1, at_most=_WIDEST)
    layers: int = model_setting(6, "encoder layers, and decoder layers", at_least=1, at_most=_DEEPEST)
    encoder_layers: int | None = model_setting(None, "encoder layers; null: `layers`", at_least=1, at_most=_DEEPEST)
    decoder_layers: int | None = model_setting(None, "decoder layers; null: `layers`", at_least=1, at_most=_DEEPEST)
    heads: int = model_setting(8, "attention heads", at_least=1, at_most=_WIDEST)
    key_size: int | None = model_setting(
        None, "width of a head's queries and keys, d_k; null: d_model / heads", at_least=1, at_most=_WIDEST
    )
    value_size: int | None = model_setting(
        None, "width of a head's values, d_v; null: d_model / heads", at_least=1, at_most=_WIDEST
    )
    dropout: float = free_setting(
        0.1, "dropout on sub-layer outputs and on embeddings + positions", at_least=0, below=1
    )
    attention_dropout: float = free_setting(0.0, "dropout on attention weights", at_least=0, below=1)
    activation_dropout: float = free_setting(0.0, "dropout inside the feed-forward layers", at_least=0, below=1)
    activation: Literal["relu", "gelu", "quick_gelu", "swish"] = model_setting(
        "relu", "activation function of the feed-forward layers; `quick_gelu`: x · σ(1.702 x), as in Marian"
    )
    norm: Literal["post", "pre"] = model_setting(
        "post", "layer norm after each sub-layer (as in the paper) or before it"
    )
    positions: Literal["interleaved", "concatenated", "learned", "rotary"] = model_setting(
        "interleaved",
        "position encodings: sinusoids as in the paper; as in Tensor2Tensor (sines, then cosines); learned; or rotary",
    )
    max_positions: int = model_setting(
        1024, "longest sequence that learned positions cover", at_least=1, at_most=10_000_000
    )
    position_offset: int = model_setting(
        0, "number of the first token's position; 2 in M2M-100", at_least=0, at_most=1000
    )
    tie: Tie = model_setting(
        "all", "matrices that share weights: both embeddings and output layer; target embedding and output; or none"
    )
    bias: bool = model_setting(True, "biases in the attention and feed-forward projections")
    output_bias: bool = model_setting(False, "a bias of the output layer, as in Marian")
    norm_epsilon: float = model_setting(1e-5, "ε of the layer norms; 1e-6 in Marian", above=0, at_most=1)
    decoder_start: Literal["bos", "eos", "zero"] = model_setting(
        "bos", "first input of the decoder: the embedding of BOS or of EOS (M2M-100), or a zero vector (Marian)"
    )

    @property
    def head_widths(self) -> tuple[int, int]:
        """dk and dv: the width of a head's queries and keys, and of its values."""
        shared = self.d_model // self.heads
        return self.key_size or shared, self.value_size or shared

    @property
    def longest_position(self) -> int | None:
        """The maximum number of positions in a sequence, with BOS or EOS; None if there is no limit."""
        match self.positions:
            case "learned":
                return self.max_positions
            case "interleaved" | "concatenated" | "rotary":
                return None
            case _:
                assert_never(self.positions)

    @property
    def rotates(self) -> bool:
        """Whether positions change queries and keys of self-attention; otherwise encodings are added to embeddings."""
        match self.positions:
            case "rotary":
                return True
            case "interleaved" | "concatenated" | "learned":
                return False
            case _:
                assert_never(self.positions)

    @property
    def norm_first(self) -> bool:
        """Whether the layer norm comes before each sub-layer; then the last residual sum has one too."""
        match self.norm:
            case "pre":
                return True
            case "post":
                return False
            case _:
                assert_never(self.norm)

    @property
    def width(self) -> int:
        """The width of the decoder's states."""
        return self.d_model


@dataclass(frozen=True)
class RecurrentConfig(_Tied):
    """Recurrent models, the Transformer's predecessors (Sutskever et al. 2014; Cho et al. 2014; Bahdanau et al. 2015;
    Luong et al. 2015)."""

    architecture: Literal["recurrent"] = model_setting("recurrent", "kind of model")
    cell: Literal["lstm", "gru"] = model_setting("lstm", "recurrent unit")
    embedding_size: int = model_setting(512, "width of the embeddings", at_least=1, at_most=_WIDEST)
    hidden_size: int = model_setting(512, "width of the decoder's states", at_least=1, at_most=_WIDEST)
    encoder_size: int | None = model_setting(
        None,
        "width of the encoder's states in one direction; null: `hidden_size`, which two directions share",
        at_least=1,
        at_most=_WIDEST,
    )
    encoder_layers: int = model_setting(2, "encoder layers", at_least=1, at_most=_DEEPEST)
    decoder_layers: int = model_setting(2, "decoder layers", at_least=1, at_most=_DEEPEST)
    direction: Literal["both", "backward", "forward"] = model_setting(
        "both", "direction in which the encoder reads the source; `backward`: from its end, as Sutskever et al."
    )
    attention: Literal["none", "additive", "dot", "general", "concat", "location", "latent"] = model_setting(
        "additive", "how decoder and encoder states are compared; none: the encoder only sets the first decoder state"
    )
    attention_span: Literal["global", "local-m", "local-p"] = model_setting(
        "global", "source positions that are compared: all; near the target's position; near a predicted position"
    )
    attention_window: int = model_setting(
        10, "with a local span: number of positions on each side, D", at_least=1, at_most=_WIDEST
    )
    attention_choice: Literal["soft", "hard"] = model_setting(
        "soft", "`soft`: the mean over the source positions; `hard`: one position, sampled in training"
    )
    max_positions: int = model_setting(
        257, "with `attention: location`: longest sequence, including end of sentence", at_least=1, at_most=_WIDEST
    )
    input_feeding: bool = model_setting(True, "each step also reads the attention vector of the previous step")
    dropout: float = free_setting(0.2, "dropout on embeddings, between layers, before the output", at_least=0, below=1)
    tie: Tie = model_setting(
        "none", "matrices that share weights: both embeddings and output layer; target embedding and output; or none"
    )

    @property
    def longest_position(self) -> int | None:
        """The maximum number of positions in a sequence, with BOS or EOS; None if there is no limit."""
        match self.attention:
            case "location":
                return self.max_positions
            case "none" | "additive" | "dot" | "general" | "concat" | "latent":
                return None
            case _:
                assert_never(self.attention)

    @property
    def width(self) -> int:
        """The width of the decoder's states."""
        return self.hidden_size

    @property
    def directions(self) -> int:
        """The number of directions in which the encoder reads the source."""
        return sum(self.reads)

    @property
    def reads(self) -> tuple[bool, bool]:
        """Whether the encoder reads the source from its start, and whether from its end."""
        match self.direction:
            case "both":
                return True, True
            case "forward":
                return True, False
            case "backward":
                return False, True
            case _:
                assert_never(self.direction)

    @property
    def has_attention(self) -> bool:
        match self.attention:
            case "none":
                return False
            case "additive" | "dot" | "general" | "concat" | "location" | "latent":
                return True
            case _:
                assert_never(self.attention)

    @property
    def is_hard(self) -> bool:
        """Whether attention chooses one position."""
        match self.attention_choice:
            case "hard":
                return True
            case "soft":
                return False
            case _:
                assert_never(self.attention_choice)

    @property
    def source_width(self) -> int:
        """The width of the encoder's states, both directions together."""
        return (self.encoder_size or self.hidden_size // self.directions) * self.directions


ModelConfig = TransformerConfig | RecurrentConfig
