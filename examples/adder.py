"""Two roles on two hosts: one adds what the other sends, over a socket, with NumPy."""

import sys
from multiprocessing.connection import Client, Listener

import numpy as np

import cluster

PORT, ROUNDS, SIZE = 32301, 10, 1 << 20


def receive() -> None:
    with Listener(("", PORT)) as listener, listener.accept() as sender:
        total = sum((np.frombuffer(sender.recv_bytes()) for _ in range(ROUNDS)), np.zeros(SIZE))
        sender.send(float(total.sum()))


def send(address: str) -> None:
    with Client((address, PORT)) as receiver:
        for number in range(ROUNDS):
            receiver.send_bytes(np.full(SIZE, float(number)).tobytes())
        print("the sum is", receiver.recv())


if sys.argv[1:2] == ["receive"]:
    receive()
elif sys.argv[1:2] == ["send"]:
    send(sys.argv[2])
else:
    with cluster.launch("adder", provider=(sys.argv[1:] or ["local"])[0], hosts=2) as c:
        c.put(__file__, "adder.py")
        receiver = c.hosts[0].start("python3 adder.py receive", name="receiver")
        receiver.wait_for_port(PORT)
        sender = c.hosts[1].start(f"python3 adder.py send {c.hosts[0].ip}", name="sender")
        print(*(f"{line.host}: {line.text}" for line in sender.lines()))
        receiver.wait()
