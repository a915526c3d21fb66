"""Starts a web tier and stays in front of it: the model server (tune predictor), gunicorn with app.py, and nginx.

Ends with all three when it is told to, or when one of them ends by itself.
"""

import argparse
import getpass
import json
import os
import signal
import subprocess
import sys

parser = argparse.ArgumentParser()
for flag in ("dir", "model", "workers", "worker-class", "threads", "batch-size", "max-delay-ms"):
    parser.add_argument(f"--{flag}", required=True)
args = parser.parse_args()
running = []


def start(*command, **options):
    process = subprocess.Popen(command, **options)
    running.append(process)
    return process


def stop(status):
    # Once is enough: a second signal must not interrupt the waiting.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for process in running:
        if process.poll() is None:
            process.terminate()
    for process in running:
        process.wait()
    sys.exit(status)


signal.signal(signal.SIGTERM, lambda *_: stop(0))
signal.signal(signal.SIGINT, lambda *_: stop(0))

# The model server takes any free port, and says which.
model_server = start(
    "tune", "predictor", f"--model={args.model}", "--engine=tfjs", "--gpu=none", "--sequence-length=64", "--port=0", "--exit-with-parent=true",
    f"--batch-size={args.batch_size}", f"--max-delay-ms={args.max_delay_ms}", "--instances=1",
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)  # fmt: skip
url = None
for line in model_server.stdout:
    if line.startswith('{"ready":true'):
        url = json.loads(line)["url"]
        break
if url is None:
    print("the model server ended before it was ready", file=sys.stderr)
    stop(1)

start(
    "gunicorn", f"--bind=unix:{args.dir}/web.sock", f"--workers={args.workers}", f"--worker-class={args.worker_class}",
    f"--threads={args.threads}", "--worker-tmp-dir=/dev/shm", "app:app",
    env={**os.environ, "MODEL_URL": f"{url}/v2/models/{args.model}/infer", "PYTHONDONTWRITEBYTECODE": "1"},
)  # fmt: skip
# Workers of nginx under another user could not reach the sockets in a folder of root's.
user = f" user {getpass.getuser()};" if os.geteuid() == 0 else ""
start("nginx", "-p", args.dir, "-c", "nginx.conf", "-e", "stderr", "-g", f"daemon off;{user}")

ended, status = os.wait()
print(f"a part of the web tier ended: process {ended}, status {status}", file=sys.stderr)
stop(1)
