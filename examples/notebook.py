"""A notebook on a host, reached here: Jupyter, or a server of the folder where there is none."""

import sys
from urllib.request import urlopen

import cluster

PORT = 32330
JUPYTER = f"python3 -m jupyterlab --no-browser --allow-root --ip 127.0.0.1 --port {PORT}"
FOLDER = f"python3 -m http.server --bind 127.0.0.1 {PORT}"

with cluster.launch("gpubox", provider=(sys.argv[1:] or ["local"])[0], hosts=1) as c:
    host = c.hosts[0]
    host.write("# What the notebook needs.\n", "work/README.md")
    there = host.run("python3 -c 'import jupyterlab'", check=False).status == 0
    notebook = host.start(JUPYTER if there else FOLDER, cwd="work", name="notebook")
    notebook.wait_for_port(PORT)
    with notebook.forward(PORT, PORT + 1) as here:
        print(f"{notebook.name} is at http://{here.address}")
        print(urlopen(f"http://{here.address}").read().decode().count("\n"), "lines")
    notebook.stop()  # leave this and the `with` out, and it stays until `cluster down gpubox`
