"""On how many hosts the ranks of a log ran, where its other lines say so."""

import pytest

from cluster.logs.reader import read

OSU = "# OSU MPI Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)\n1048576   11000.00\n"
MAP = (
    " Data for node: n1\tNum slots: 4\tMax slots: 0\tNum procs: 1\n"
    " \tProcess OMPI jobid: [9781,1] App: 0 Process rank: 0 Bound: N/A\n"
    " Data for node: {}\tNum slots: 4\tMax slots: 0\tNum procs: 1\n"
)
BOUND = (
    "[n1:4123] MCW rank 0 bound to socket 0[core 0]: [B/.]\n[{}:4123] MCW rank 1 bound to core\n"
)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (OSU, [0]),
        (MAP.format("n2") + OSU, [2]),
        (MAP.format("n1") + OSU, [1]),
        (BOUND.format("n2") + OSU, [2]),
        (OSU.replace("# Size", BOUND.format("n1") + "# Size"), [1]),  # on stderr, and later
        ("Rank 0 on n1\nRank 1 on n2\n" + OSU, [2]),
        ("SLURM_JOB_NODELIST=gpu[01-03,07]\n" + OSU, [4]),
        ("Nodelist: n1,n2\n" + OSU + OSU, [2, 2]),
        # Each list of ranks is of the test below it.
        (BOUND.format("n1") + OSU + BOUND.format("n2") + OSU, [1, 2]),
        # Two jobs in one log: which of them a test belongs to is not known.
        ("SLURM_JOB_NODELIST=n[1-2]\n" + OSU + "SLURM_JOB_NODELIST=n[3-6]\n" + OSU, [0, 0]),
    ],
)
def test_hosts(text: str, hosts: list[int]) -> None:
    reading = read([text.encode()])
    results = reading.results

    assert [unread.text for unread in reading.examples if "n1" in unread.text] == []
    assert [result.hosts for result in results if result.measurements] == hosts
    of_job = [result.hosts_of_job for result in results]
    assert any(of_job) == ("odelist" in text.lower() and any(hosts))


@pytest.mark.parametrize(
    ("ends", "hosts"),
    [
        (("LID 0x01", "LID 0x02"), 2),
        (("LID 0x01", "LID 0x01"), 1),
        (("LID 0000", "LID 0000"), 0),
        (("LID 0000 Q\n GID: 00:255:10:00:00:01", "LID 0000 Q\n GID: 00:255:10:00:00:02"), 2),
        (("LID 0000 Q\n GID: 00:255:10:00:00:01", "LID 0000 Q\n GID: 00:255:10:00:00:01"), 1),
    ],
)
def test_the_ends_of_perftest(ends: tuple[str, str], hosts: int) -> None:
    (result,) = read(
        [
            "                    RDMA_Write BW Test\n Number of qps   : 1\n"
            f" local address: {ends[0]}\n remote address: {ends[1]}\n"
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
            " 65536      5000             11000.00            10998.00\t0.175968\n".encode()
        ]
    ).results

    assert result.hosts == hosts
