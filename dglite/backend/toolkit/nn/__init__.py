"""Layers of the array backends, under torch's names."""

from . import functional, init
from .layers import ELU, Dropout, Identity, LeakyReLU, Linear, ReLU, Sigmoid, SiLU, Softplus, Tanh
from .module import Module, ModuleDict, ModuleList, Parameter, ParameterList, Sequential
from .recurrent import LSTM, GRUCell
from .tables import BatchNorm1d, Embedding, LayerNorm

__all__ = [
    "ELU",
    "LSTM",
    "BatchNorm1d",
    "Dropout",
    "Embedding",
    "GRUCell",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterList",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Tanh",
    "functional",
    "init",
]
