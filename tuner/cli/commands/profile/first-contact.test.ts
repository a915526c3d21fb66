/**
 * What a stranger's server meets first, through the command: how it is called, what it refuses, and
 * what one is told.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { exitCodes } from '../../../exit-codes.ts'
import { boxed } from '../../../testing/boxed.ts'
import type { CliBox } from '../../../testing/run-cli.ts'

/** Longer than a request may take once a server is warm: the default of --timeout for this SLO. */
const loadsForMs = 2_600
const answersInMs = 10
let isLoaded = false
let warmed = 0
const answerOf: Record<
  string,
  (
    request: IncomingMessage,
    body: Buffer,
  ) => readonly [number, string | Buffer] | Promise<[number, string]>
> = {
  '/lazy': async () => {
    if (!isLoaded) await sleep(loadsForMs)
    isLoaded = true
    return [200, '{"label": "spam"}']
  },
  '/job': () => [202, '{"id": "job-1"}'],
  '/key': ({ headers }) =>
    headers.authorization === 'Bearer secret-1'
      ? [200, '{"label": "spam"}']
      : [401, '{"error": "who asks?"}'],
  '/upload': ({ headers }, body) =>
    /^multipart\/form-data/.test(headers['content-type']!) && body.includes('filename="image.jpg"')
      ? [200, '{"label": "cat"}']
      : [
          422,
          '{"detail": [{"type": "missing", "loc": ["body", "file"], "msg": "Field required"}]}',
        ],
  '/picture': ({ headers }, body) =>
    headers['content-type'] === 'image/jpeg' && body.readUInt16BE() === 0xffd8
      ? [200, '{"label": "cat"}']
      : [415, 'image/jpeg alone'],
  '/warm': () =>
    ++warmed === 3 ? [500, '{"error": "no kernel for it"}'] : [200, '{"label": "spam"}'],
  '/lines': () => [201, '{"token": "a"}\n{"token": "b"}\n'],
}

const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', async () => {
    const answer = request.method === 'POST' ? answerOf[request.url!] : undefined
    const [status, text] = answer
      ? await answer(request, Buffer.concat(chunks))
      : [request.url === '/healthz' ? 200 : 404, '{}']
    // As long as a small model takes: a server that takes nothing is sent more than a test needs.
    await sleep(answersInMs)
    response.writeHead(status).end(text)
  })
})
const test = boxed()
let url = ''

beforeAll(async () => {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

const asked = (path: string, ...flags: string[]) => [
  '--model',
  'm',
  '--url',
  url,
  '--protocol',
  'json',
  '--path',
  path,
  ...flags,
]
const profiled = (box: CliBox, path: string, ...flags: string[]) =>
  box.run([
    'profile',
    '--slo',
    'p50<2s',
    '--rate',
    '20rps',
    '--duration',
    '1s',
    ...asked(path, ...flags),
  ])
const heard = (stdout: string) => JSON.parse(stdout) as { verdict: string }

describe.concurrent('what it takes', () => {
  test.for<[string, string[]]>([
    ['/upload', ['--form', 'file={{image}}']],
    ['/picture', ['--content-type', 'image/jpeg', '--body', '{{image}}']],
    ['/lines', []],
    ['/key', ['--header', 'Authorization: Bearer secret-1']],
  ])('%s %s', async ([path, flags], { box }) => {
    const { code, stdout, stderr } = await profiled(box, path, '--json', ...flags)
    expect(stderr).not.toContain('hint:')
    expect([exitCodes.ok, exitCodes.sloUnmet]).toContain(code)
    expect(heard(stdout)).toHaveProperty('verdict')
  })

  test('a file that is the whole request, and what would be sent of a form', async ({ box }) => {
    writeFileSync(join(box.folder, 'cat.jpg'), Buffer.from([0xff, 0xd8, 0xff, 0xe0, 0]))
    expect((await profiled(box, '/picture', '--payload', 'cat.jpg')).stderr).not.toContain('hint:')
    const { stdout } = await box.run([
      'config',
      '--slo',
      '50ms',
      ...asked('/upload', '--form', 'file={{image}}', '--form', 'k=3'),
    ])
    expect(stdout).toMatch(
      /\nA request: POST \/upload, multipart\/form-data\n {2}file=@image\.jpg \(image\/jpeg, [\d,]+ bytes\), k=3\n$/,
    )
  })
})

/** What it said on the lines that begin with its name, or the result of a run. */
test.for<[path: string, what: string, hint: string]>([
  ['/job', 'answered 202', 'answers them later, which cannot be measured'],
  ['/upload', 'answered 422: body.file: Field required', "--form 'file=@FILE' or 'file={{image}}'"],
  ['/picture', 'answered 415: image/jpeg alone', '--content-type'],
])(
  'what %s refuses: one try, one sentence, what to change',
  async ([path, what, hint], { box }) => {
    const { code, stderr } = await profiled(box, path)
    expect(code).toBe(exitCodes.failure)
    expect(stderr.split('\n').filter((line) => line.startsWith('tune: '))).toEqual([
      expect.stringContaining(what),
    ])
    expect(stderr).toMatch(/^ {2}hint: /m)
    expect(stderr).toContain(hint)
  },
)

test('a run whose only trial failed ends with one sentence, and exit code 1', async ({ box }) => {
  const { code, stdout, stderr } = await box.run(['--slo', '50ms', ...asked('/key')])
  expect(code).toBe(exitCodes.failure)
  expect(stderr.match(/^trial \d+ of at most/gm)).toEqual(['trial 1 of at most'])
  expect(
    stdout.split('\n').filter((line) => line !== '' && !line.startsWith('Experiment ')),
  ).toEqual([
    `Not measured: no valid answer: ${url}/key answered 401: who asks? (give the required credentials: --header 'Name: value' (headers in an experiment file))`,
  ])
})

test('a warm-up request that is not answered ends the run with its answer', async ({ box }) => {
  const { code, stdout } = await box.run(['--slo', '50ms', '--warm-up', '5', ...asked('/warm')])
  expect([code, warmed]).toEqual([exitCodes.failure, 3])
  expect(stdout).toContain('Not measured: no valid answer: warm-up request 2 of 5: ')
  expect(stdout).toContain('answered 500: no kernel for it')
})

test('a server that loads its model with the first request is waited for, and the next dry run knows how long that took', async ({
  box,
}) => {
  const flags = ['--slo', 'p50<200ms', '--trial-time', '1s', '--max-trials', '1', ...asked('/lazy')]
  const { code, stderr } = await box.run([...flags, '--no-confirm'])
  expect(stderr).not.toContain('did not answer its first request')
  expect(code).not.toBe(exitCodes.failure)
  // What that took is known from then on: the start with it, and a confirmation on top.
  const foretold = async (...more: string[]) =>
    JSON.parse((await box.run([...flags, '--dry-run', '--json', ...more])).stdout)
  const { expectedSeconds, timeBasis } = await foretold('--no-confirm')
  expect(timeBasis).toMatch(/^as its last \d+ trials? took, /)
  expect((await foretold()).expectedSeconds).toBeGreaterThan(expectedSeconds + 15)
})
