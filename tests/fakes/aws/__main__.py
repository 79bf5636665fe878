"""Try the test cloud by hand: python -m tests.fakes.aws [--hosts] [--port 5005] [--rate 1gbit]."""

from tests.fakes.aws import Cloud
from tests.fakes.command_line import serve

if __name__ == "__main__":
    serve("tests.fakes.aws", Cloud, rate="10gbit")
