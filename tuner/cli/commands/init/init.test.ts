import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { wire } from '../../../../profiler/testing/wire.ts'
import { boxed } from '../../../testing/boxed.ts'
import { type CliBox, cli } from '../../../testing/run-cli.ts'

/**
 * As many servers are: one path that takes a POST, nothing that says it is ready. PORT_SAID: a port
 * of its own, whatever it is given; 0 is any.
 */
const source = `
import { createServer } from 'node:http'
const at = process.argv.indexOf('--port')
const port = Number(process.env.PORT_SAID ?? (at < 0 ? process.env.PORT : process.argv[at + 1]))
const answer = (response, status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
createServer((request, response) => {
  if (request.url !== '/classify') return answer(response, 404, { error: 'no such path' })
  if (request.method !== 'POST') return answer(response, 405, { error: 'POST it' })
  if (process.env.TOKEN && request.headers.authorization !== 'Bearer ' + process.env.TOKEN)
    return answer(response, 401, { error: '\\u001b[31mwho are you?\\u001b[0m' })
  let text = ''
  request.on('data', (chunk) => (text += chunk))
  request.on('end', () => {
    const { text: given } = JSON.parse(text)
    if (typeof given !== 'string') return answer(response, 400, { error: 'text is missing' })
    answer(response, 200, { label: given.length % 2 ? 'spam' : 'ham' })
  })
}).listen(port, '127.0.0.1')
`

/**
 * What `transformers serve` 5.18 does: it takes the model of its command by that very name, lists
 * others, refuses ignore_eos, and ends its streams without [DONE].
 */
const transformers = `#!/usr/bin/env node
const { createServer } = require('node:http')
const served = process.argv[3]
const json = (response, status, body) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
createServer((request, response) => {
  if (request.url === '/health') return json(response, 200, { status: 'ok' })
  if (request.url === '/v1/models') return json(response, 500, {})
  if (request.url !== '/v1/chat/completions') return json(response, 404, { detail: 'Not Found' })
  let text = ''
  request.on('data', (chunk) => (text += chunk))
  request.on('end', () => {
    const { model, ignore_eos } = JSON.parse(text)
    if (ignore_eos !== undefined) return json(response, 422, { detail: "Unexpected fields in the request: {'ignore_eos'}" })
    if (model !== served) return json(response, 400, { detail: "Server is pinned to '" + served + "'; requested '" + model + "'." })
    const chunk = (choice) => 'data: ' + JSON.stringify({ choices: [{ index: 0, ...choice }], model: model + '@main' }) + '\\n\\n'
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(chunk({ delta: { content: 'a' } }) + chunk({ delta: { content: ' b' } }) + chunk({ delta: {}, finish_reason: 'length' }))
  })
}).listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
`

const oip = '/inference.GRPCInferenceService/'
const anySize = Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01])
const text = wire([1, 'text'], [2, 'BYTES'], [3, anySize])
const logits = wire([1, 'logits'], [2, 'FP32'], [3, Buffer.from([1, 1])])
/** The Open Inference Protocol over gRPC, its messages and frames made by hand. */
const grpcAnswers = Object.fromEntries(
  Object.entries({
    ServerLive: wire([1, 1]),
    ServerReady: wire([1, 1]),
    ModelReady: wire([1, 1]),
    ModelMetadata: wire([1, 'bert'], [4, text]),
    ModelInfer: wire([1, 'bert'], [5, logits], [6, Buffer.alloc(4)]),
  }).map(([name, bytes]) => [`${oip}${name}`, bytes.toString('base64')]),
)
const overGrpc = `
import { createServer } from 'node:http2'
const answers = ${JSON.stringify(grpcAnswers)}
createServer().on('stream', (stream, headers) => {
  const known = answers[headers[':path']]
  stream.resume()
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': known === undefined ? '12' : '0' }))
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  if (known === undefined) return stream.end()
  const bytes = Buffer.from(known, 'base64')
  const head = Buffer.alloc(5)
  head.writeUInt32BE(bytes.length, 1)
  stream.end(Buffer.concat([head, bytes]))
}).listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
`

/** Streams by the OpenAI protocol, a token every 5 ms. */
const streaming = `
import { createServer } from 'node:http'
const chunk = (content, finish = null) => 'data: ' + JSON.stringify({ model: 'm', choices: [{ delta: { content }, finish_reason: finish }] }) + '\\n\\n'
createServer((request, response) => {
  request.resume()
  if (request.url === '/health') return response.end()
  if (request.url === '/v1/models') return response.end('{"object": "list", "data": [{"id": "m"}]}')
  if (request.url !== '/v1/chat/completions') return response.writeHead(404).end()
  let tokens = 0
  const next = () => {
    if (++tokens < 4) return response.write(chunk('a '), () => setTimeout(next, 5))
    response.end(chunk('b', 'stop') + 'data: [DONE]\\n\\n')
  }
  next()
}).listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
`

/** Answers, and its model never gets ready. */
const loading = `
import { createServer } from 'node:http'
createServer((_, response) => response.writeHead(503).end('{"status": "loading"}')).listen(Number(process.argv[process.argv.indexOf('--port') + 1]), '127.0.0.1')
`

const test = boxed(({ folder }) => {
  writeFileSync(join(folder, 'server.mjs'), source)
  writeFileSync(join(folder, 'grpc.mjs'), overGrpc)
  writeFileSync(join(folder, 'streaming.mjs'), streaming)
  writeFileSync(join(folder, 'loading.mjs'), loading)
  writeFileSync(join(folder, 'transformers'), transformers, { mode: 0o755 })
})
const written = ({ folder }: CliBox) => readFileSync(join(folder, 'experiment.yaml'), 'utf8')

describe.concurrent('a command', () => {
  test('is started, asked and written as it is tuned; what was written loads, and is not overwritten', async ({
    box,
  }) => {
    const first = await box.run([
      'init',
      '--slo',
      '50ms',
      '--no-smoke',
      process.execPath,
      'server.mjs',
      '--port',
      '8080',
    ])
    expect(first, first.stderr).toMatchObject({ code: 0 })
    expect(first.stdout).toMatch(
      /\{"text":.*\n {2}→ \{"label":"(sp|h)am"\}\nWrote experiment\.yaml\.\nNext: tune -f experiment\.yaml/,
    )
    expect(written(box)).toContain('server.mjs, --port, "${port}"')
    expect(written(box)).toMatch(/protocol: json\n {2}path: \/classify\n/)
    expect(written(box)).toContain('# yaml-language-server: $schema=.tune/experiment.schema.json')
    expect(
      JSON.parse(readFileSync(join(box.folder, '.tune/experiment.schema.json'), 'utf8')),
    ).toHaveProperty('properties.predictor')
    const config = await box.run(['config', '-f', 'experiment.yaml'])
    expect(config, config.stderr).toMatchObject({ code: 0 })
    const again = await box.run(['init', 'bert'])
    expect(again).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('experiment.yaml already exists'),
    })
  })

  test('of a language model that knows no ignore_eos, and whose model is a folder', async ({
    box,
  }) => {
    const words = ['./transformers', 'serve', 'models/tiny', '--continuous-batching']
    const said = await box.run(['init', '--slo-ttft', '2s', '--no-smoke', ...words])
    expect(said, said.stderr).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('Recognised Transformers: cbMaxBatchTokens.'),
    })
    expect(written(box)).toMatch(/^model:\n {2}name: models\/tiny$/m)
    expect(written(box)).toContain('ignoreEos: false # the server rejects ignore_eos')
    const config = await box.run(['config', '-f', 'experiment.yaml'])
    expect(config, config.stderr).toMatchObject({ code: 0 })
    expect(config.stdout).toMatch(/^model(\.name)? +models\/tiny /m)
  })

  test.for<[string, readonly string[], RegExp]>([
    [
      'streaming.mjs',
      ['--slo', 'p90 ttft<500ms tpot<50ms'],
      /^slo:\n {2}percentile: p90\n(.|\n)*protocol: openai/m,
    ],
    ['streaming.mjs', ['--slo-tpot', '50ms'], /^slo:\n {2}tpot: 50ms\n(.|\n)*protocol: openai/m],
    ['grpc.mjs', ['--slo', '50ms', '--model', 'bert'], /protocol: grpc-v2/],
  ])('that nobody knows, %s with %j', async ([script, flags, text], { box }) => {
    const words = [process.execPath, script, '--port', '8080']
    const { code, stderr } = await box.run(['init', ...flags, '--no-smoke', ...words])
    expect(code, stderr).toBe(0)
    expect(written(box)).toMatch(text)
    const config = await box.run(['config', '-f', 'experiment.yaml'])
    expect(config, config.stderr).toMatchObject({ code: 0 })
  })

  test('whose model never gets ready ends within its timeout, with its words', async ({ box }) => {
    const words = [process.execPath, 'loading.mjs', '--port', '8080']
    const { code, stderr } = await box.run([
      ...['init', '--slo', '50ms', '--no-smoke', '--ready-timeout', '4s'],
      ...words,
    ])
    expect(code, stderr).toBe(1)
    expect(stderr).toMatch(/within 4 s; last reason: .*503.*loading/)
  })

  test('an SLO that cannot be read is told before anything is started', async ({ box }) => {
    const words = [process.execPath, 'server.mjs', '--port', '8080']
    const { code, stderr } = await box.run(['init', '--slo', 'tpot<fast', '--no-smoke', ...words])
    expect([code, stderr]).toEqual([2, expect.stringContaining('slo')])
    expect(stderr).not.toContain('Starting')
  })

  test.for<[string, readonly string[], Record<string, string>, RegExp]>([
    [
      'a program that is not there',
      ['pyhton3', 'server.mjs'],
      {},
      /no program 'pyhton3' on the PATH\n {2}hint: did you mean.*python3/,
    ],
    [
      'a port of its own',
      [process.execPath, 'server.mjs', '--port', '8080'],
      { PORT_SAID: '0' },
      /it serves on port (\d+) instead of the assigned (?!\1)\d+/,
    ],
    [
      'of a command in quotes, before flags of ours',
      ['pyhton3 server.mjs', '--protocol', 'json'],
      {},
      /no program 'pyhton3' on the PATH/,
    ],
    [
      'a token that is asked for',
      [process.execPath, 'server.mjs', '--port', '8080'],
      { TOKEN: 'abc' },
      /answered 401: who are you\?/,
    ],
    [
      'a program by its whole path',
      ['/bin/sh', '-c', 'exit 3', '--port', '80'],
      {},
      /ended: exit code 3/,
    ],
    [
      'a program that ends',
      [process.execPath, 'no-such.mjs', '--port', '8080'],
      {},
      /ended: exit code 1/,
    ],
  ])('%s is said once, and nothing is written', async ([_, words, env, message], { box }) => {
    const { code, stderr } = await box.run(
      ['init', '--path', '/classify', '--slo', '50ms', '--no-smoke', ...words],
      env,
    )
    expect(code, stderr).toBe(1)
    expect(stderr).toMatch(message)
    expect(stderr).not.toContain('\u001b')
    expect(existsSync(join(box.folder, 'experiment.yaml'))).toBe(false)
  })
})

test.for<[string, readonly string[], Record<string, string>, string]>([
  [
    'a token that is asked for',
    ['--path', '/classify'],
    { TOKEN: 'abc' },
    'answered 401: who are you?',
  ],
  [
    'a path that is none',
    ['--path', '/clasify', '--ready-timeout', '8s'],
    {},
    'as for any unknown path',
  ],
])('a search ends with its first trial: %s', async ([_, flags, env, message], { box }) => {
  const command = `${process.execPath} server.mjs --port \${port}`
  const words = [
    '--model',
    'm',
    '--slo',
    '50ms',
    '--protocol',
    'json',
    '--cores',
    '1',
    '--command',
    command,
  ]
  const { code, stderr } = await box.run([...words, ...flags], env)
  expect(code, stderr).toBe(1)
  expect(stderr).toContain(message)
  expect(stderr).not.toContain('No configuration meets')
})

describe.concurrent('a server that runs', () => {
  let server: Server
  let url: string
  beforeAll(async () => {
    const document = {
      paths: {
        '/v1/score': {
          post: {
            requestBody: {
              content: {
                'application/json': {
                  schema: { type: 'object', properties: { n: { type: 'integer' } } },
                },
              },
            },
          },
        },
        '/health': { get: {} },
      },
    }
    server = createServer((request, response) => {
      const known = request.headers['x-api-key'] === 'k3y-of-mine'
      const answer = (status: number, body: unknown) =>
        response.writeHead(status).end(JSON.stringify(body))
      if (request.url === '/openapi.json') answer(200, document)
      else if (request.url === '/health') answer(200, {})
      else if (request.url !== '/v1/score') answer(404, {})
      else answer(known ? 200 : 403, known ? { score: 0.5 } : { detail: 'no key' })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  test('is called as it describes itself; a secret becomes a reference', async ({ box }) => {
    const { code, stdout, stderr } = await box.run([
      'init',
      '--no-smoke',
      '--header',
      'X-Api-Key: k3y-of-mine',
      url,
    ])
    expect(code, stderr).toBe(0)
    expect(written(box)).toMatch(
      /path: \/v1\/score\n {2}healthPath: \/health\n {2}body: '\{"n": \{\{int\}\}\}'/,
    )
    expect(written(box)).not.toContain('k3y-of-mine')
    const [, name] = /\$\{env:(\w+)\}/.exec(written(box))!
    expect(stdout).toContain(`export ${name}=`)
    expect(await box.run(['config', '-f', 'experiment.yaml'])).toMatchObject({ code: 0 })
  })

  test('without its token it says so in one sentence', async ({ box }) => {
    const { code, stderr } = await box.run(['init', '--no-smoke', url])
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /answered 403: no key\n {2}hint: give the required credentials/,
      ),
    })
  })

  test('a path that only a POST knows is found, below a folder that redirects to itself', async ({
    box,
  }) => {
    const express = createServer((request, response) => {
      const answer = (status: number, body: unknown, headers = {}) =>
        response.writeHead(status, headers).end(JSON.stringify(body))
      if (request.url === '/ml/prod') return answer(301, {}, { location: '/ml/prod/' })
      if (request.method !== 'POST' || request.url !== '/ml/prod/generate') return answer(404, {})
      let body = ''
      request.on('data', (chunk) => {
        body += chunk
      })
      request.on('end', () =>
        JSON.parse(body).inputs ? answer(200, { summary: 'a' }) : answer(400, { error: 'inputs?' }),
      )
    })
    await new Promise<void>((resolve) => express.listen(0, '127.0.0.1', resolve))
    try {
      const at = `http://127.0.0.1:${(express.address() as AddressInfo).port}/ml/prod`
      const { code, stderr } = await box.run(['init', '--no-smoke', '--slo', '50ms', at])
      expect(code, stderr).toBe(0)
      expect(written(box)).toMatch(
        /url: http:\/\/127\.0\.0\.1:\d+\/ml\/prod\n {2}protocol: json\n {2}path: \/generate\n {2}body: '\{"inputs"/,
      )
    } finally {
      express.close()
    }
  })

  test('and where nothing listens too', async ({ box }) => {
    const { code, stderr } = await box.run(['init', '--no-smoke', 'http://127.0.0.1:1'])
    expect({ code, stderr }).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('nothing listens there'),
    })
    expect(stderr.trim().split('\n')).toHaveLength(2)
  })
})

test('a model is written and tried once', async ({ box }) => {
  const { code, stdout, stderr } = await box.run([
    'init',
    'bert',
    '--slo',
    '50ms',
    '--devices',
    'emulated',
    '--no-smoke',
  ])
  expect(code, stderr).toBe(0)
  expect(stdout).toContain('Next: tune -f experiment.yaml')
  expect(written(box)).toMatch(/model: bert\n/)
})

/**
 * Runs the command on a terminal, where each question is answered as said: \x03 is Ctrl-C, \x04 is
 * Ctrl-D. Its last line is the exit code.
 */
const onTerminal = `
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
answers, said, sent = eval(sys.argv[1]), b'', 0
while True:
    try:
        got = os.read(fd, 4096)
    except OSError:
        break
    if not got:
        break
    said += got
    if sent < len(answers) and answers[sent][0] in said:
        os.write(fd, answers[sent][1])
        said, sent = b'', sent + 1
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`

test.for<[string, string, number, boolean]>([
  ['Ctrl-C at the first question', "[(b'to tune?', b'\\x03')]", 130, false],
  ['Ctrl-C at the second', "[(b'to tune?', b'bert\\r'), (b'SLO', b'\\x03')]", 130, false],
  [
    'the end of what is said leaves the rest as it is proposed',
    "[(b'to tune?', b'bert\\r'), (b'SLO', b'\\x04')]",
    0,
    true,
  ],
  ['the end of what is said before anything was', "[(b'to tune?', b'\\x04')]", 2, false],
])('on a terminal: %s', async ([_, answers, code, file], { box }) => {
  const words = ['-c', onTerminal, answers, process.execPath, cli, 'init', '--no-smoke']
  const { stdout, stderr } = await promisify(execFile)('python3', words, { cwd: box.folder })
  expect({ code: stdout.trim(), stderr }).toEqual({ code: String(code), stderr: '' })
  expect(existsSync(join(box.folder, 'experiment.yaml'))).toBe(file)
})

test('nothing said, and nobody to ask', async ({ box }) => {
  expect(await box.run(['init'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('tune init: no server, command or model'),
  })
})
