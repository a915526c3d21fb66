/**
 * Secrets planted in every place that takes them; nothing that a run leaves, prints or serves has
 * any of them.
 */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import { specTargets } from '../reports/specs/index.ts'
import { boxed } from './testing/boxed.ts'
import type { CliBox, CliResult } from './testing/run-cli.ts'
import { WarmCli } from './testing/warm-cli.ts'

const test = boxed()
/** For what reads and prints alone. */
const tune = new WarmCli()
afterAll(() => tune.end())

/** In every form that a program may print. */
const formsOf = (secret: string) => [
  secret,
  encodeURIComponent(secret),
  Buffer.from(secret).toString('base64'),
  Buffer.from(`admin:${secret}`).toString('base64'),
]

function leaks(secrets: readonly string[], text: string | Buffer): string[] {
  const bytes = Buffer.from(text)
  return secrets.filter((secret) => formsOf(secret).some((form) => bytes.includes(form)))
}

/**
 * Files of the run, but those that the user wrote and the configuration file that a predictor is
 * started with.
 */
function* filesOf(folder: string, given: readonly string[]): Generator<string> {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    if (statSync(path).isDirectory()) yield* filesOf(path, given)
    else if (!given.includes(name)) yield path
  }
}

function expectNothing(
  box: CliBox,
  secrets: readonly string[],
  results: readonly CliResult[],
  given: readonly string[],
): void {
  const files = [...filesOf(box.folder, given)]
  const found = [
    ...files.map((path) => [path, leaks(secrets, readFileSync(path))] as const),
    ...results.map(
      ({ stdout, stderr }, i) =>
        [`output ${i}: ${stderr.slice(0, 300)}`, leaks(secrets, stdout + stderr)] as const,
    ),
  ].filter(([, found]) => found.length > 0)
  expect(found).toEqual([])
}

/** What the dashboard serves of its newest experiment. */
async function served(box: CliBox, paths: (id: string) => readonly string[]): Promise<string> {
  const dashboard = box.start(['dashboard', '--port', '0'])
  const listening = new Promise<string>((resolve) =>
    dashboard.child.stdout!.once('data', (chunk) => resolve(String(chunk).trim())),
  )
  await dashboard.said('Press Ctrl-C to stop')
  let all = ''
  try {
    const url = await listening
    const listed = await (await fetch(new URL('/api/experiments', url))).json()
    const { chosen } = listed as { chosen: string }
    all += JSON.stringify(listed)
    for (const path of paths(chosen)) {
      const answer = await fetch(new URL(path, url))
      expect([path, answer.status]).toEqual([path, expect.toBeOneOf([200, 422])])
      all += await answer.text()
    }
    const stream = (
      await fetch(new URL(`/api/experiments/${chosen}/stream`, url))
    ).body!.getReader()
    all += Buffer.from((await stream.read()).value ?? []).toString()
    await stream.cancel()
  } finally {
    dashboard.child.kill('SIGINT')
    await dashboard.result
  }
  return all
}

const pages = (id: string) => [
  ...['recommendation.json', 'trials.csv', 'dashboard.html', 'report.html'].map(
    (file) => `/api/experiments/${id}/export/${file}`,
  ),
  ...specTargets.map((target) => `/api/experiments/${id}/spec/${target}`),
]

/** Everything that shows a stored experiment, and what the dashboard serves of it. */
async function shown(box: CliBox): Promise<CliResult[]> {
  const commands = [
    ['list'],
    ['list', '--json'],
    ['show'],
    ['show', '--json'],
    // The other forms and targets are asked of the dashboard.
    ['report', '--out', 'report.md'],
    ['spec', '--target', 'kubernetes', '--out', 'spec.yaml'],
  ]
  const results: CliResult[] = []
  for (const command of commands) results.push(await tune.run(box, command))
  return results
}

/**
 * One trial, and none in the place of one that the machine disturbed: what it measures is not what
 * this is about.
 */
const load = ['--trial-time', '1s', '--max-trials', '1', '--time-limit', '1s', '--no-confirm']

/**
 * Serves only while it is given every secret, says all that it is given, and repeats it in its
 * answers.
 */
const chatty = `
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
const given = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const conf = readFileSync(process.argv[3] + '/conf.yaml', 'utf8')
console.log(process.argv, process.env, conf)
console.error('waking up with ' + process.env.DB_PASSWORD + ' and nothing else')
const has = (text, ...secrets) => secrets.every((secret) => text.includes(secret))
let freeAtMs = 0
const inTurn = (answer) => {
  freeAtMs = Math.max(freeAtMs, performance.now()) + 2
  setTimeout(answer, freeAtMs - performance.now())
}
const right =
  has(process.argv.join(' '), given.argument, given.database) && process.env.DB_PASSWORD === given.password && process.env.HF_TOKEN === given.token && has(conf, given.file)
createServer((request, response) => {
  if (request.url === '/healthz') return response.end()
  let body = ''
  request.on('data', (chunk) => (body += chunk))
  request.on('end', () => {
    if (right && has(body, given.body) && has(request.url, given.path, given.segment) && request.headers['x-api-key'] === given.header) return inTurn(() => response.end('{"ok": true}'))
    response.statusCode = 401
    response.end(JSON.stringify({ error: 'refused', body, url: request.url, argv: process.argv }))
  })
}).listen(Number(process.argv[4].split('=')[1]), '127.0.0.1')
`

const own = {
  argument: 'planted-argument-0001',
  database: 'planted-database-0002',
  password: 'planted-password-0003',
  token: 'planted-token-0004',
  file: 'planted-file-0005',
  body: 'planted-body-0006',
  path: 'planted-path-0007',
  header: 'planted-header-0008',
  segment: 'planted-segment-0009',
}

const experiment = (more = '') => `
name: planted
model: m
slo: p75<50ms
predictor:
  command: ['${process.execPath}', chatty.mjs, given.json, '\${dir}', '--port=\${port}', --api-key, ${own.argument}, '--db=postgres://admin:${own.database}@db/x']
  env: { DB_PASSWORD: ${own.password}, HF_TOKEN: '\${env:PLANTED_TOKEN}' }
  files: { conf.yaml: "password: ${own.file}\\n" }
  protocol: json
  path: /token/${own.segment}/predict?sig=${own.path}
  healthPath: /healthz
  headers: { X-Api-Key: ${own.header} }
  body: '{"text": "{{text}}", "api_key": "${own.body}"}'
space: { maxBatchSize: { values: [1, 2], category: env } }
${more}`

test('of a predictor that a command starts: in its command, environment, files, bodies and paths', async ({
  box,
}) => {
  const given = ['experiment.yaml', 'chatty.mjs', 'given.json', 'conf.yaml']
  writeFileSync(join(box.folder, 'experiment.yaml'), experiment())
  writeFileSync(join(box.folder, 'chatty.mjs'), chatty)
  writeFileSync(join(box.folder, 'given.json'), JSON.stringify(own))
  const env = { PLANTED_TOKEN: own.token }
  const file = ['-f', 'experiment.yaml']
  const before = [
    await tune.run(box, ['config', ...file]),
    await tune.run(box, ['config', ...file, '--json']),
    await tune.run(box, [...file, '--dry-run', '--json']),
  ]
  const tuned = await box.run([...file, ...load, '--json'], env)
  // It had them all; whether a busy machine lets it be measured is not what this is about.
  expect(tuned.stderr).toContain('ready after')
  // A busy machine may have taken some of nine trials for the first. Taken up again, it has them
  // from the file and the environment; what it leaves when it is interrupted under load has none
  // either.
  const resuming = box.start(['resume', '--max-trials', '9', '--plain'], env)
  await resuming.said('ready after')
  await resuming.said('searching capacity: ')
  resuming.child.kill('SIGINT')
  const resumed = await resuming.result
  expect(resumed.code, resumed.stderr).toBe(130)
  const verified = await box.run(
    ['verify', '--trial', '1', '--rate', '20rps', '--confirm-time', '1s', '--json'],
    env,
  )
  expect(verified.stderr).toContain('ready after')
  const without = await tune.run(box, ['resume', '--max-trials', '9'])
  const unverified = await tune.run(box, ['verify', '--trial', '1', '--rate', '20rps'])
  expect([unverified.code, unverified.stderr]).toEqual([
    2,
    expect.stringContaining('export PLANTED_TOKEN='),
  ])
  expect([without.code, without.stderr]).toEqual([
    2,
    expect.stringContaining('export PLANTED_TOKEN='),
  ])
  const secrets = Object.values(own)
  expectNothing(
    box,
    secrets,
    [...before, tuned, resumed, verified, without, unverified, ...(await shown(box))],
    given,
  )
  expect(
    leaks(
      secrets,
      await served(box, (id) => [...pages(id), `/api/experiments/${id}/trials/1/log`]),
    ),
  ).toEqual([])
  const log = [...filesOf(box.folder, given)].find((path) => path.endsWith('predictor.log'))!
  expect(readFileSync(log, 'utf8')).toContain('waking up with [secret] and nothing else')
  for (const path of [log, join(log, '..'), join(box.folder, '.tune/tune.db')])
    expect([path, (statSync(path).mode & 0o077).toString(8)]).toEqual([path, '0'])
})

test('nor of one whose answers repeat what it is sent', async ({ box }) => {
  const given = ['experiment.yaml', 'chatty.mjs', 'given.json', 'conf.yaml']
  writeFileSync(join(box.folder, 'experiment.yaml'), experiment())
  writeFileSync(join(box.folder, 'chatty.mjs'), chatty)
  writeFileSync(join(box.folder, 'given.json'), JSON.stringify({ ...own, body: 'another' }))
  const refused = await box.run(['-f', 'experiment.yaml', ...load], { PLANTED_TOKEN: own.token })
  expect(refused.code, refused.stderr).toBe(1)
  expect(refused.stderr).toContain('401')
  expectNothing(box, Object.values(own), [refused, ...(await shown(box))], given)
  expect(leaks(Object.values(own), await served(box, pages))).toEqual([])
})

test('of a server that runs already: in its URL and headers', async ({ box }) => {
  const secrets = {
    password: 'planted-password-0011',
    key: 'planted-key-0012',
    signature: 'planted-signature-0013',
    segment: '5ac1e7b09f3d42868d0e9b7c61f2a4d3',
  }
  let freeAtMs = 0
  const answer: RequestListener = (request, response) => {
    const basic = `Basic ${Buffer.from(`admin:${secrets.password}`).toString('base64')}`
    request.resume()
    if (request.url === '/healthz') return response.end()
    const right =
      request.headers.authorization === basic && request.headers['x-tenant'] === secrets.key
    response.statusCode = right ? 200 : 401
    if (!right) return response.end(JSON.stringify({ error: request.headers }))
    freeAtMs = Math.max(freeAtMs, performance.now()) + 2
    return setTimeout(() => response.end('{"ok": true}'), freeAtMs - performance.now())
  }
  const server = createServer(answer).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  try {
    const url = `http://admin:${secrets.password}@127.0.0.1:${port}/tenants/${secrets.segment}/predict?signature=${secrets.signature}`
    writeFileSync(
      join(box.folder, 'experiment.yaml'),
      `model: m\nslo: p75<50ms\npredictor: { url: 'http://127.0.0.1:${port}', protocol: json, path: /predict, headers: { X-Tenant: ${secrets.key} }, readyTimeout: 2s }\n`,
    )
    const tuned = await box.run(['-f', 'experiment.yaml', '--url', url, ...load, '--plain'])
    expect(tuned.stderr).toContain('ready after')
    const again = await tune.run(box, ['resume', '--max-trials', '9'])
    expect(again.stderr).toContain('export TUNE_SECRET_PREDICTOR_URL=')
    const wrong = await box.run([
      '-f',
      'experiment.yaml',
      '--url',
      url.replace(`${port}`, '1'),
      ...load,
    ])
    const header = `X-Tenant: ${secrets.key}`
    const profiled = await box.run([
      'profile',
      '--url',
      url,
      '--slo',
      '500ms',
      '--header',
      header,
      '--rate',
      '20rps',
      '--duration',
      '1s',
      '--protocol',
      'json',
      '--html',
      'profile.html',
      '--csv',
      'profile.csv',
      '--json',
    ])
    expect(profiled.stdout).toContain('[secret]@127.0.0.1')
    const refused = await tune.run(box, [
      'profile',
      '--url',
      url,
      '--slo',
      '500ms',
      '--protocol',
      'json',
    ])
    expect(refused.stderr).toContain('401')
    const verify = ['verify', '-f', 'experiment.yaml', '--rate', '20rps', '--confirm-time', '1s']
    const verified = await box.run([...verify, '--url', url, '--json'])
    expect(JSON.parse(verified.stdout).label).toContain(
      '${env:TUNE_SECRET_PREDICTOR_URL}@127.0.0.1',
    )
    expect(verified.stderr).toContain('ready after')
    const unverified = [
      await box.run(verify),
      await box.run([...verify, '--url', url.replace(`${port}`, '1')]),
    ]
    expect(unverified.map(({ code }) => code)).toEqual([1, 1])
    expect(unverified[0]!.stdout).toContain('401')
    expectNothing(
      box,
      Object.values(secrets),
      [tuned, again, wrong, profiled, refused, verified, ...unverified, ...(await shown(box))],
      ['experiment.yaml'],
    )
    expect(leaks(Object.values(secrets), await served(box, pages))).toEqual([])
  } finally {
    server.close()
  }
})

test('of a run that ends with a recommendation: in its results, plan, manifests and page', async ({
  box,
}) => {
  const secrets = {
    token: 'planted-token-0021',
    database: 'planted-database-0022',
    file: 'planted-file-0023',
    referred: 'planted-referred-0024',
  }
  const env = `{ API_TOKEN: ${secrets.token}, DB_URL: 'postgres://u:${secrets.database}@h/x', CERT_KEY: '\${file:key.txt}', HF_TOKEN: '\${env:PLANTED}' }`
  writeFileSync(
    join(box.folder, 'experiment.yaml'),
    `model: bert\nslo: 50ms\npredictor: { env: ${env} }\n`,
  )
  writeFileSync(join(box.folder, 'key.txt'), secrets.file)
  const given = { PLANTED: secrets.referred }
  const file = ['-f', 'experiment.yaml']
  const tuned = await box.run(
    [...file, '--backend', 'simulated', '--max-trials', '6', '--out', 'results', '--events'],
    given,
  )
  expect(tuned.code, tuned.stderr).toBe(0)
  const rest = [
    await tune.run(box, ['config', ...file], given),
    await tune.run(box, ['plan', '--demand', '500', '--out', 'plan.html']),
    await tune.run(box, ['plan', '--demand', '500', '--json']),
    ...(await shown(box)),
  ]
  expect(rest.filter(({ code }) => code !== 0)).toEqual([])
  const manifest = readFileSync(join(box.folder, 'results/deployment.yaml'), 'utf8')
  for (const name of ['API_TOKEN', 'CERT_KEY', 'HF_TOKEN'])
    expect(manifest).toMatch(new RegExp(`name: ${name}\\n\\s+valueFrom:\\n\\s+secretKeyRef:`))
  expectNothing(box, Object.values(secrets), [tuned, ...rest], ['experiment.yaml', 'key.txt'])
  expect(leaks(Object.values(secrets), await served(box, pages))).toEqual([])
})
