"""A second job beside a training: it follows the training's log file, as TensorBoard does."""

import sys

import cluster

TRAIN = """\
for step in 1 2 3 4 5 6 7 8; do
  echo "step $step loss 0.$((9 - step))" >> loss.log; sleep 0.2
done
"""
FOLLOW = """\
while ! grep -q 'step 8' loss.log; do sleep 0.1; done
sort -t ' ' -k 4 loss.log | head -1
"""

with cluster.launch("beside", provider=(sys.argv[1:] or ["local"])[0], hosts=2) as c:
    host = c.hosts[0]
    host.write("", "loss.log")
    board = host.start(FOLLOW, name="board")
    training = host.start(TRAIN, name="training")
    print({name: job.state for name, job in c.jobs.items()})
    training.wait()
    board.wait()
    print("best:", next(board.lines()).text)
