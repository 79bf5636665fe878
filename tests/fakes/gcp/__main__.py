"""Try the test cloud by hand: python -m tests.fakes.gcp [--hosts] [--port 5006] [--rate 1gbit]."""

from tests.fakes.gcp import Cloud
from tests.fakes.trying import serve

if __name__ == "__main__":
    serve("tests.fakes.gcp", Cloud, rate="")
