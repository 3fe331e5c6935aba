"""Layers, under the names that torch has for them."""

from . import functional, init
from .layers import ELU, Dropout, Identity, LeakyReLU, Linear, ReLU, Sigmoid, Tanh
from .module import Module, ModuleDict, ModuleList, Parameter, Sequential
from .recurrent import LSTM
from .tables import Embedding, LayerNorm

__all__ = [
    "ELU",
    "LSTM",
    "Dropout",
    "Embedding",
    "Identity",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Tanh",
    "functional",
    "init",
]
