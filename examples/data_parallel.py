"""Data-parallel training: torchrun starts two ranks on each host, by the variables of the task."""

import sys

import cluster

TORCHRUN = (
    "python3 -m torch.distributed.run --nnodes $NNODES --node-rank $NODE_RANK"
    " --master-addr $MASTER_ADDR --master-port $MASTER_PORT --nproc-per-node 2"
)

if sys.argv[1:2] == ["train"]:
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
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
        # torch is in the image of the hosts, or is brought by c.install(libraries=("torch",))
        job = c.start(f"{TORCHRUN} ddp.py train", name="train", env={"OMP_NUM_THREADS": "1"})
        print(*(f"{line.host}: {line.text}" for line in job.lines()), sep="\n")
        job.wait()
