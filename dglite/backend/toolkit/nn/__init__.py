"""Layers, under the names that torch has for them."""

from . import functional, init
from .layers import ELU, LSTM, Dropout, Identity, LeakyReLU, Linear, ReLU, Sigmoid, Tanh
from .module import Module, ModuleDict, ModuleList, Parameter, Sequential

__all__ = [
    "ELU",
    "LSTM",
    "Dropout",
    "Identity",
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
