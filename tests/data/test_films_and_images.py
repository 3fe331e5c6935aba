"""MovieLens, superpixels, CoraBinary and peptides, read from tiny files in the published layouts."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import dglite
from dglite import DGLError, data
from dglite.data import superpixel


# -- MovieLens ---------------------------------------------------------------------------------------------------------
def ml_100k(folder: Path) -> Path:
    (folder / "u1.base").write_text("7\t2\t5\t11\n7\t1\t3\t12\n9\t2\t4\t13\n9\t1\t1\t14\n")
    (folder / "u1.test").write_text("8\t2\t2\t15\n")
    (folder / "u.user").write_text("7|25|F|artist|1\n8|50|M|writer|2\n9|10|M|artist|3\n11|30|F|none|4\n")
    genres = ["|".join("1" if i in own else "0" for i in range(19)) for own in ({1, 5}, {2}, {0})]
    (folder / "u.item").write_text("".join(f"{i + 1}|A film|1995||u|{own}\n" for i, own in enumerate(genres)))
    return folder


def ml_1m(folder: Path) -> Path:
    (folder / "ratings.dat").write_text("".join(f"{u}::{f}::{u}::0\n" for u in (1, 2, 3, 4, 5) for f in (10, 20)))
    (folder / "users.dat").write_text("".join(f"{u}::{'FM'[u % 2]}::50::{u % 3}::12\n" for u in (5, 4, 3, 2, 1, 6)))
    (folder / "movies.dat").write_text("20::One::Children's|War\n30::Two::Drama\n10::Three::Drama\n")
    return folder


def test_ratings_of_films(tmp_path: Path) -> None:
    result = data.MovieLensDataset("ml-100k", 0.25, raw_dir=ml_100k(tmp_path))
    g = result[0]
    assert (len(result), g.num_nodes("user"), g.num_nodes("movie"), g.num_edges("user-movie")) == (1, 3, 2, 5)
    users, films = (ends.tolist() for ends in g.edges(etype="user-movie"))
    rates = g.edges["user-movie"].data["rate"].tolist()
    assert dict(zip(zip(users, films, strict=True), rates, strict=True)) == {
        (0, 1): 5,
        (0, 0): 3,
        (2, 1): 4,
        (2, 0): 1,
        (1, 1): 2,
    }
    masks = [g.edges["movie-user"].data[f"{part}_mask"] for part in ("train", "valid", "test")]
    assert [int(mask.sum()) for mask in masks] == [3, 1, 1]
    assert g.find_edges(int(masks[2].nonzero()), etype="movie-user")[1].tolist() == [1]
    assert g.nodes["user"].data["feat"].tolist() == [[0.5, 1, 1, 0], [1, 0, 0, 1], [0.20000000298023224, 0, 1, 0]]
    assert g.nodes["movie"].data["feat"].nonzero().tolist() == [[0, 1], [0, 5], [1, 2]]


def test_ratings_of_more_films(tmp_path: Path) -> None:
    g = data.MovieLensDataset("ml-1m", 0.2, 0.3, raw_dir=ml_1m(tmp_path), random_state=1)[0]
    assert (g.num_nodes("user"), g.num_nodes("movie")) == (5, 2)
    assert g.nodes["movie"].data["feat"].nonzero().tolist() == [[0, 3], [0, 16], [1, 7]]
    masks = [g.edges["user-movie"].data[f"{part}_mask"] for part in ("train", "valid", "test")]
    assert [int(mask.sum()) for mask in masks] == [5, 2, 3]
    assert (sum(mask.int() for mask in masks) == 1).all()
    assert g.edges["user-movie"].data["rate"].tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    (tmp_path / "users.dat").unlink()
    plain = data.MovieLensDataset("ml-10m", 0.2, 0.3, raw_dir=tmp_path)[0]
    assert plain.nodes["user"].data["feat"].tolist() == [[0.0]] * 5


def test_films_that_do_not_fit(tmp_path: Path) -> None:
    for name, valid, test in (("ml-2m", 0.1, 0.1), ("ml-1m", 0.1, None), ("ml-1m", 0.5, 0.5), ("ml-100k", 1.0, None)):
        with pytest.raises(DGLError, match="expected"):
            data.MovieLensDataset(name, valid, test, raw_dir=tmp_path)
    ml_1m(tmp_path)
    for file, text, message in (
        ("ratings.dat", "1::10::5\n", "3 columns"),
        ("ratings.dat", "1::ten::5::0\n", "not a table"),
        ("ratings.dat", "1::11::5::0\n", "film 11"),
        ("users.dat", "1::F::50::3\n", "line 1 of .*users.dat has 4 columns"),
        ("movies.dat", "10::Three::Cooking\n", "genre 'Cooking'"),
    ):
        before = (tmp_path / file).read_text()
        (tmp_path / file).write_text(text)
        with pytest.raises(DGLError, match=message):
            data.MovieLensDataset("ml-1m", 0.2, 0.3, raw_dir=tmp_path)
        (tmp_path / file).write_text(before)


# -- superpixels -------------------------------------------------------------------------------------------------------
def images(folder: Path, counts: tuple[int, ...] = (20, 5, 1), channels: int = 1) -> list[Any]:
    generator = np.random.default_rng(0)
    samples = [(generator.random((n, channels)).astype(np.float32), 28 * generator.random((n, 2))) for n in counts]
    content = list(range(len(counts))), samples
    for file in ("mnist_75sp_test.pkl", "cifar10_150sp_test.pkl"):
        (folder / file).write_bytes(pickle.dumps(content))
    return samples


@pytest.mark.parametrize("use_feature", [False, True])
def test_superpixels(tmp_path: Path, use_feature: bool) -> None:
    samples = images(tmp_path)
    result = data.MNISTSuperPixelDataset(tmp_path, "test", use_feature)
    g, label = result[0]
    assert (len(result), int(label), g.num_nodes(), g.num_edges()) == (3, 0, 20, 160)
    colour, place = samples[0]
    np.testing.assert_allclose(g.ndata["feat"].numpy(), np.concatenate([colour, place / 28], 1), rtol=1e-6)
    alike = superpixel.likeness(place / 28, colour if use_feature else None)
    src, dst = (ends.numpy() for ends in g.edges())
    np.testing.assert_allclose(g.edata["feat"].numpy()[:, 0], alike[src, dst], rtol=1e-6)
    for node in range(20):
        assert len(set(dst[src == node])) == 8
        assert set(dst[src == node]) < set(np.argsort(-alike[node])[:9])
    assert [(one.num_nodes(), one.num_edges()) for one, _ in (result[1], result[2])] == [(5, 20), (1, 0)]


def test_coloured_superpixels(tmp_path: Path) -> None:
    images(tmp_path, (12,), 3)
    assert data.CIFAR10SuperPixelDataset(tmp_path, "test")[0][0].ndata["feat"].shape == (12, 5)
    with pytest.raises(DGLError, match="expected 'train' or 'test'"):
        data.CIFAR10SuperPixelDataset(tmp_path, "valid")
    (tmp_path / "cifar10_150sp_test.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    with pytest.raises(DGLError, match="other content than labels"):
        data.CIFAR10SuperPixelDataset(tmp_path, "test")


def test_an_archive_is_unpacked_whatever_follows_its_name(tmp_path: Path) -> None:
    images(tmp_path)
    with zipfile.ZipFile(tmp_path / "superpixels.zip", "w") as archive:  # published as superpixels.zip?dl=1
        archive.write(tmp_path / "mnist_75sp_test.pkl", "superpixels/mnist_75sp_test.pkl")
    (tmp_path / "mnist_75sp_test.pkl").unlink()
    assert len(data.MNISTSuperPixelDataset(tmp_path, "test")) == 3


# -- CoraBinary --------------------------------------------------------------------------------------------------------
def cora_binary(folder: Path) -> Path:
    (folder / "graphs.txt").write_text("graph 0\n0 1\n1 2\ngraph 1\n1 0\n")
    (folder / "labels.txt").write_text("graph 0\n0\n1\n1\ngraph 1\n1\n0\n")
    matrices = [sp.coo_matrix(([1.0, 2.0], ([0, 1], [2, 0])), (3, 4)), sp.coo_matrix(([3.0], ([1], [0])), (2, 2))]
    (folder / "pmpds.pkl").write_bytes(pickle.dumps(matrices))
    return folder


def test_pairs_of_neighbourhoods(tmp_path: Path) -> None:
    result = data.CoraBinary(cora_binary(tmp_path))
    assert len(result) == 2
    g, matrix, labels = result[0]
    assert ([end.tolist() for end in g.edges()], labels.tolist()) == ([[0, 1], [1, 2]], [0, 1, 1])
    assert matrix.toarray().tolist() == [[0, 0, 1, 0], [2, 0, 0, 0], [0, 0, 0, 0]]
    batched, matrices, all_labels = result.collate_fn([result[0], result[1]])
    assert (batched.batch_size, matrices.shape, all_labels.tolist()) == (2, (5, 6), [0, 1, 1, 1, 0])


def test_pairs_that_do_not_fit(tmp_path: Path) -> None:
    cora_binary(tmp_path)
    outside = sp.coo_matrix(([1.0], ([0], [0])), (2, 2))
    outside.row[0] = 5
    for file, content, message in (
        ("graphs.txt", b"graph 0\n0 1\n", "1 graphs, 2 matrices"),
        ("graphs.txt", b"graph 0\n0 1 2\n", "line 2 of .*graphs.txt"),
        ("labels.txt", b"1\n", "line 1 of .*labels.txt"),
        ("pmpds.pkl", pickle.dumps([1, 2]), "has int in it"),
        ("pmpds.pkl", pickle.dumps([outside]), "outside its shape"),
        ("pmpds.pkl", pickle.dumps([dglite.graph]), "not a type of number"),
    ):
        before = (tmp_path / file).read_bytes()
        (tmp_path / file).write_bytes(content)
        with pytest.raises(DGLError, match=message):
            data.CoraBinary(tmp_path)
        (tmp_path / file).write_bytes(before)


# -- peptides ----------------------------------------------------------------------------------------------------------
def peptide(atoms: int, tasks: int) -> tuple[torch.Tensor, ...]:
    chain = torch.arange(atoms - 1)
    ends = torch.stack([torch.cat([chain, chain + 1]), torch.cat([chain + 1, chain])])
    return torch.full((atoms, 9), atoms), torch.ones(2 * atoms - 2, 3).long(), ends, torch.arange(float(tasks))[None]


def peptides(folder: Path, tasks: int) -> Path:
    for part, sizes in (("train", (3, 1)), ("val", (2,)), ("test", (4,))):
        torch.save([peptide(atoms, tasks) for atoms in sizes], folder / f"{part}.pt")
    return folder


@pytest.mark.parametrize(("kind", "tasks"), [("Functional", 10), ("Structural", 11)])
def test_peptides(tmp_path: Path, kind: str, tasks: int) -> None:
    dataset = getattr(data, f"Peptides{kind}Dataset")
    if kind == "Functional":
        result = dataset(peptides(tmp_path, tasks))
    else:
        (tmp_path / "peptidesstruct").mkdir(exist_ok=True)
        peptides(tmp_path / "peptidesstruct", tasks)
        result = dataset(tmp_path)
    g, label = result[0]
    assert (len(result), g.num_nodes(), g.num_edges(), tuple(label.shape)) == (4, 3, 4, (tasks,))
    assert (tuple(g.ndata["feat"].shape), tuple(g.edata["feat"].shape)) == ((3, 9), (4, 3))
    assert g.ndata["feat"].dtype == torch.int64 and result.labels.dtype == torch.float32
    assert {part: ids.tolist() for part, ids in result.get_idx_split().items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }


def test_peptides_that_are_none(tmp_path: Path) -> None:
    peptides(tmp_path, 10)
    with pytest.raises(DGLError, match=r"peptide 0 of .*train.pt is not .* 11 labels"):
        data.PeptidesStructuralDataset(tmp_path)
    for content, message in (
        ([torch.ones(2)], "peptide 0"),
        ([(*peptide(2, 10)[:2], torch.tensor([[0, 9], [1, 0]]), torch.ones(1, 10))], "test.pt"),
    ):
        torch.save(content, tmp_path / "test.pt")
        with pytest.raises(DGLError, match=message):
            data.PeptidesFunctionalDataset(tmp_path)
