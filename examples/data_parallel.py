"""Data-parallel training with torch.distributed: each task is a rank, by the variables it has."""

import sys

import cluster

if sys.argv[1:2] == ["train"]:
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")  # reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    rank = distributed.get_rank()
    torch.manual_seed(rank)  # each rank has data of its own
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.zeros(1)
    for _ in range(200):
        x = torch.randn(32, 2)
        loss = ((model(x) - x @ torch.tensor([[3.0], [-2.0]])) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # averages the gradients of all ranks
        optimizer.step()
    print(f"rank {rank} of {distributed.get_world_size()}: loss {loss.item():.1e}")
    distributed.destroy_process_group()
else:
    with cluster.launch("ddp", provider=(sys.argv[1:] or ["local"])[0], hosts=2) as c:
        c.put(__file__, "ddp.py")
        job = c.start("python3 ddp.py train", name="train")
        print(*(line.text for line in job.lines()), sep="\n")
        job.wait()
