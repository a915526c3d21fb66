/** Servers as they are installed that close healthy connections, each by its own ways. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'

interface InstalledServer {
  readonly name: string
  /** What is missing here; undefined where it can be started. */
  readonly missing: string | undefined
  start(): Promise<{ readonly url: string; stop(): Promise<void> }>
}

/** Whether a command can be run and ends well. */
const runs = (command: string, ...args: string[]): boolean => {
  try {
    execFileSync(command, args, { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const python = '/usr/bin/python3'
const answer = '{"outputs": [1]}'

const application = `
def app(environ, start_response):
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start_response("200 OK", [("content-type", "application/json"), ("content-length", "${answer.length}")])
    return [b'${answer}']
`
const handler = `
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'${answer}')
    def log_message(self, *args):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 128
Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
`
const nginx = (port: number, folder: string, settings: string) => `
daemon off; master_process off; pid ${folder}/pid; error_log stderr crit;
events {}
http {
  access_log off; client_body_temp_path ${folder}; proxy_temp_path ${folder}; fastcgi_temp_path ${folder}; uwsgi_temp_path ${folder}; scgi_temp_path ${folder};
  server { listen 127.0.0.1:${port}; ${settings}; location / { return 200 '${answer}'; } }
}
`

/** Resolves once something listens; rejects when the process ends. */
async function listening(child: ChildProcess, url: string): Promise<void> {
  while (child.exitCode === null && child.signalCode === null) {
    const up = await fetch(url, { method: 'POST', body: '{}' }).then(
      (response) => response.text(),
      () => undefined,
    )
    if (up !== undefined) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`${child.spawnargs.join(' ')} ended`)
}

const installed = (
  name: string,
  missing: string | undefined,
  command: (port: number, folder: string) => string[],
): InstalledServer => ({
  name,
  missing,
  async start() {
    const folder = mkdtempSync(join(tmpdir(), 'closing-'))
    const port = await freePort()
    const [program, ...args] = command(port, folder)
    const child = spawn(program!, args, { cwd: folder, stdio: 'ignore' })
    const url = `http://127.0.0.1:${port}`
    await listening(child, url)
    return {
      url,
      async stop() {
        const exited = once(child, 'exit')
        child.kill('SIGTERM')
        await exited
        rmSync(folder, { recursive: true, force: true })
      },
    }
  },
})

const written = (folder: string, name: string, text: string): string => {
  writeFileSync(join(folder, name), text)
  return join(folder, name)
}

const nginxWith = (settings: string) =>
  installed(
    `nginx, ${settings}`,
    runs('nginx', '-v') ? undefined : 'no nginx here',
    (port, folder) => [
      'nginx',
      '-c',
      written(folder, 'nginx.conf', nginx(port, folder, settings)),
      '-e',
      'stderr',
    ],
  )

export const installedServers = (): InstalledServer[] => [
  installed(
    "Python's http.server (HTTP/1.0)",
    runs(python, '-V') ? undefined : 'no Python here',
    (port, folder) => [python, written(folder, 'serve.py', handler), String(port)],
  ),
  installed(
    'gunicorn, sync workers',
    runs('gunicorn', '--version') ? undefined : 'no gunicorn here',
    (port, folder) => {
      written(folder, 'application.py', application)
      return [
        'gunicorn',
        '--bind',
        `127.0.0.1:${port}`,
        '--workers',
        '2',
        '--log-level',
        'error',
        'application:app',
      ]
    },
  ),
  installed(
    'gunicorn, threads, unloaded for a second',
    runs('gunicorn', '--version') ? undefined : 'no gunicorn here',
    (port, folder) => {
      written(folder, 'application.py', application)
      return [
        'gunicorn',
        '--bind',
        `127.0.0.1:${port}`,
        '--threads',
        '4',
        '--keep-alive',
        '1',
        '--log-level',
        'error',
        'application:app',
      ]
    },
  ),
  nginxWith('keepalive_timeout 0'),
  nginxWith('keepalive_requests 10'),
]
