"""Try the test cloud by hand: python -m tests.fakes.gcp [--hosts] [--port 5006] [--rate 1gbit]."""

from tests.fakes.command_line import serve
from tests.fakes.gcp import Cloud

if __name__ == "__main__":
    serve("tests.fakes.gcp", Cloud, rate="")
