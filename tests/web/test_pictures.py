"""The pictures of the documentation: each is made by a program, small enough to keep, and shown somewhere."""

from docs.images.make_pictures import IMAGES, PICTURES

BYTES_MAX = 200_000


def test_the_documentation_shows_pictures_that_exist() -> None:
    """Every picture is one that `make_pictures` makes, and every one it makes is shown."""
    made = {f"{name}.png" for name, *_ in PICTURES}
    assert {path.name for path in IMAGES.glob("*.png")} == made
    pages = "".join(path.read_text("utf-8") for path in IMAGES.parent.rglob("*.md"))
    for name in made:
        assert (IMAGES / name).stat().st_size < BYTES_MAX, name
        assert f"images/{name}" in pages, name
