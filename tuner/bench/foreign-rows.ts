/**
 * Servers and gateways that were not written for this tool, as Debian and npm have them, each as
 * its user would give it to `tune init`.
 */

export interface ForeignRow {
  readonly name: string
  /**
   * Programs, Python modules (`python:`) or Node packages (`node:`) without which it cannot be run
   * here.
   */
  readonly needs: readonly string[]
  /** Of bench/foreign. */
  readonly files: readonly string[]
  /**
   * A server or gateway that runs already, with @PORT@, @UPSTREAM@ (a server behind it) and @DIR@
   * in it; absent: trials start it.
   */
  readonly gateway?: readonly string[]
  /** Behind the gateway, with @UPSTREAM@. */
  readonly upstream?: readonly string[]
  /** What is given to `tune init`, with the same in it. */
  readonly init: readonly string[]
  /** Said by init of what it recognised; absent: it is no server of its table. */
  readonly title?: string
  /** Of the file that is written. */
  readonly protocol: string
  /** In the file that is written: how it is called. */
  readonly payload: RegExp
  /** Parameters of the space that is written. */
  readonly knobs: readonly string[]
}

/** Debian's own, whatever else is called so. */
const python = '/usr/bin/python3'
const sentiment = /body: '\{"text": "\{\{text\}\}"\}'/
const common = { protocol: 'json', payload: sentiment, knobs: [] } as const
const wsgi = { ...common, files: ['sentiment.py', 'wsgi_app.py'] } as const
const behind = {
  ...common,
  files: ['sentiment.py', 'starlette_app.py'],
  upstream: [
    python,
    '-m',
    'uvicorn',
    '--port',
    '@UPSTREAM@',
    '--log-level',
    'warning',
    'starlette_app:app',
  ],
} as const
const upstreamNeeds = ['python:uvicorn', 'python:starlette']

export const foreignRows: readonly ForeignRow[] = [
  {
    ...wsgi,
    name: 'gunicorn, sync',
    needs: ['gunicorn'],
    init: ['gunicorn', '-w2', 'wsgi_app:app'],
    title: 'gunicorn',
    knobs: ['workers', 'threads'],
  },
  {
    ...wsgi,
    name: 'gunicorn, gthread, Flask',
    needs: ['gunicorn', 'python:flask'],
    files: ['sentiment.py', 'flask_app.py'],
    init: [
      '--path',
      '/v1/sentiment',
      'gunicorn',
      '--worker-class',
      'gthread',
      '--threads',
      '4',
      '-b',
      '0.0.0.0:8000',
      'flask_app:app',
    ],
    title: 'gunicorn',
    knobs: ['workers', 'threads'],
  },
  {
    ...wsgi,
    name: 'gunicorn, gevent',
    needs: ['gunicorn', 'python:gevent'],
    init: ['gunicorn', '-k', 'gevent', '--bind=127.0.0.1:8000', 'wsgi_app:app'],
    title: 'gunicorn',
    knobs: ['workers'],
  },
  {
    ...common,
    name: 'uvicorn, FastAPI',
    needs: ['python:uvicorn', 'python:fastapi'],
    files: ['sentiment.py', 'fastapi_app.py'],
    init: [python, '-m', 'uvicorn', 'fastapi_app:app', '--port', '8000'],
    title: 'uvicorn',
    payload:
      /path: \/api\/v2\/classify\n {2}healthPath: \/healthz\n {2}body: '\{"texts": \{\{texts\}\}, "options": \{"threshold": 0\.5\}\}'/,
    knobs: ['workers'],
  },
  {
    ...common,
    name: 'gunicorn, uvicorn workers',
    needs: ['gunicorn', 'python:uvicorn', 'python:fastapi'],
    files: ['sentiment.py', 'fastapi_app.py'],
    init: ['gunicorn', '-k', 'uvicorn.workers.UvicornWorker', 'fastapi_app:app'],
    title: 'gunicorn',
    payload: /path: \/api\/v2\/classify\n/,
    knobs: ['workers'],
  },
  {
    ...common,
    name: 'hypercorn, Starlette',
    needs: ['hypercorn', 'python:starlette'],
    files: ['sentiment.py', 'starlette_app.py'],
    init: ['hypercorn', 'starlette_app:app'],
    title: 'hypercorn',
    knobs: ['workers'],
  },
  {
    ...common,
    name: 'daphne, Starlette',
    needs: ['python:daphne', 'python:starlette'],
    files: ['sentiment.py', 'starlette_app.py'],
    init: [python, '-m', 'daphne', '-p', '8000', 'starlette_app:app'],
  },
  {
    ...wsgi,
    name: 'waitress',
    needs: ['waitress-serve'],
    init: ['waitress-serve', '--listen=*:8080', 'wsgi_app:app'],
    title: 'waitress',
    knobs: ['threads'],
  },
  {
    ...wsgi,
    name: 'uWSGI',
    needs: ['uwsgi'],
    init: [
      'uwsgi',
      '--plugins',
      'http,python3',
      '--http',
      ':9090',
      '--module',
      'wsgi_app:app',
      '--processes',
      '2',
      '--need-app',
    ],
    title: 'uWSGI',
    knobs: ['processes', 'threads'],
  },
  {
    ...wsgi,
    name: 'flask run',
    needs: ['python:flask'],
    files: ['sentiment.py', 'flask_app.py'],
    init: [
      '--path',
      '/v1/sentiment',
      python,
      '-m',
      'flask',
      '--app',
      'flask_app',
      'run',
      '-p',
      '5000',
    ],
  },
  { ...wsgi, name: 'wsgiref', needs: [], init: [python, 'wsgi_app.py', '--port=8000'] },
  {
    ...common,
    name: 'Tornado',
    needs: ['python:tornado'],
    files: ['sentiment.py', 'tornado_app.py'],
    init: [python, 'tornado_app.py', '--port=8888'],
  },
  {
    ...common,
    name: 'aiohttp, OpenAI streams',
    needs: ['python:aiohttp'],
    files: ['aiohttp_app.py'],
    init: [python, 'aiohttp_app.py'],
    protocol: 'openai',
    payload: /model: tiny-chat\n/,
  },
  {
    ...common,
    name: 'Twisted',
    needs: ['python:twisted'],
    files: ['sentiment.py', 'twisted_app.py'],
    init: [python, 'twisted_app.py'],
  },
  {
    ...common,
    name: 'CherryPy',
    needs: ['python:cherrypy'],
    files: ['sentiment.py', 'cherrypy_app.py'],
    init: [python, 'cherrypy_app.py', '--listen', '0.0.0.0:8080'],
  },
  {
    ...common,
    name: 'Bottle',
    needs: ['python:bottle'],
    files: ['sentiment.py', 'bottle_app.py'],
    init: [python, 'bottle_app.py', '-p', '8080'],
  },
  {
    ...common,
    name: 'Bottle, cheroot',
    needs: ['python:bottle', 'python:cheroot'],
    files: ['sentiment.py', 'bottle_app.py'],
    init: [python, 'bottle_app.py', '--server', 'cheroot', '-p', '8080'],
  },
  {
    ...wsgi,
    name: 'gunicorn, Django',
    needs: ['gunicorn', 'python:django'],
    files: ['sentiment.py', 'django_app.py'],
    init: ['gunicorn', '--workers=2', 'django_app:app'],
    title: 'gunicorn',
    knobs: ['workers', 'threads'],
  },
  {
    ...common,
    name: 'Express',
    needs: ['node:express'],
    files: ['express_app.cjs'],
    init: ['node', 'express_app.cjs', '--port', '3000'],
  },
  {
    ...common,
    name: 'Puma, Sinatra',
    needs: ['puma', 'ruby:sinatra/base'],
    files: ['config.ru'],
    init: ['puma', '-w', '1', '-b', 'tcp://0.0.0.0:9292', 'config.ru'],
    title: 'Puma',
    knobs: ['workers', 'threads'],
  },
  {
    ...common,
    name: 'grpcio, Open Inference Protocol',
    needs: ['python:grpc'],
    files: ['grpc_app.py'],
    init: ['--protocol', 'grpc-v2', '--model', 'iris', python, 'grpc_app.py', '--port', '8001'],
    protocol: 'grpc-v2',
    payload: /model: iris\n/,
  },
  {
    ...common,
    name: 'onnxruntime-node, node:http',
    needs: ['node:onnxruntime-node'],
    files: ['onnx_app.mjs', 'model.onnx'],
    init: ['--body', '{"rows": [[0.5, 0.5, 0.5]]}', 'node', 'onnx_app.mjs'],
    payload: /path: \/embed\n.*\n? *body: '\{"rows"/,
  },
  {
    ...common,
    name: 'Fastify',
    needs: ['node:fastify'],
    files: ['fastify_app.mjs'],
    init: ['node', 'fastify_app.mjs', '--port', '3000'],
    payload: /path: \/generate\n {2}healthPath: \/readyz\n {2}body: '\{"inputs": "\{\{text\}\}"\}'/,
  },
  {
    ...common,
    name: 'Koa',
    needs: ['node:koa'],
    files: ['koa_app.cjs'],
    init: ['node', 'koa_app.cjs', '--port', '3000'],
    payload: /path: \/embed\n {2}healthPath: \/ping\n {2}body: '\{"input": "\{\{text\}\}"\}'/,
  },
  {
    ...common,
    name: 'Hono, its port in a variable',
    needs: ['node:hono', 'node:@hono/node-server'],
    files: ['hono_app.mjs'],
    init: ['--body', '{"features": [0.1, 0.2, 0.3, 0.4]}', 'PORT=3000 node hono_app.mjs'],
    payload: /path: \/api\/predict\n {2}healthPath: \/healthz\n/,
  },
  {
    ...common,
    name: 'Connect RPC',
    needs: ['node:@connectrpc/connect-node'],
    files: ['connect_app.mjs'],
    init: [
      '--path',
      '/sentiment.v1.Sentiment/Classify',
      'node',
      'connect_app.mjs',
      '--port',
      '3000',
    ],
    payload: /path: \/sentiment\.v1\.Sentiment\/Classify\n {2}body: '\{"text": "\{\{text\}\}"\}'/,
  },
  {
    ...common,
    name: 'Java, com.sun.net.httpserver',
    needs: ['java'],
    files: ['App.java'],
    init: ['java', 'App.java', '--server.port', '8080'],
  },
  {
    ...behind,
    name: 'nginx, below a path',
    needs: ['nginx', ...upstreamNeeds],
    files: [...behind.files, 'nginx.conf'],
    gateway: ['nginx', '-c', '@DIR@/nginx.conf'],
    init: ['http://127.0.0.1:@PORT@/ml/prod'],
  },
  {
    ...behind,
    name: 'HAProxy, a unix socket and a key',
    needs: ['haproxy', ...upstreamNeeds],
    files: [...behind.files, 'haproxy.cfg'],
    gateway: ['haproxy', '-f', '@DIR@/haproxy.cfg'],
    init: ['--header', 'X-Api-Key: k3y', 'unix:@DIR@/haproxy.sock'],
  },
  {
    ...behind,
    name: 'Apache, user and password',
    needs: ['apache2', ...upstreamNeeds],
    files: [...behind.files, 'apache.conf', 'passwords'],
    gateway: ['apache2', '-D', 'FOREGROUND', '-f', '@DIR@/apache.conf'],
    init: ['http://me:secret-1@127.0.0.1:@PORT@'],
  },
  {
    ...behind,
    name: 'lighttpd',
    needs: ['lighttpd', ...upstreamNeeds],
    files: [...behind.files, 'lighttpd.conf'],
    gateway: ['lighttpd', '-D', '-f', '@DIR@/lighttpd.conf'],
    init: ['http://127.0.0.1:@PORT@'],
  },
  {
    ...behind,
    name: 'Caddy, https and HTTP/2',
    needs: ['caddy', ...upstreamNeeds],
    files: [...behind.files, 'Caddyfile'],
    gateway: ['caddy', 'run', '--config', '@DIR@/Caddyfile', '--adapter', 'caddyfile'],
    init: [
      '--http2',
      '--ca',
      '@DIR@/caddy/pki/authorities/local/root.crt',
      'https://localhost:@PORT@',
    ],
  },
  {
    ...behind,
    name: 'Varnish',
    needs: ['varnishd', ...upstreamNeeds],
    files: [...behind.files, 'default.vcl'],
    gateway: [
      'varnishd',
      '-F',
      '-j',
      'none',
      '-a',
      '127.0.0.1:@PORT@',
      '-f',
      '@DIR@/default.vcl',
      '-n',
      '@DIR@/varnish',
      '-s',
      'malloc,16m',
    ],
    init: ['http://127.0.0.1:@PORT@'],
  },
]
